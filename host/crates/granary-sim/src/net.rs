//! The network: delay, loss, duplication, reordering and cuts, for each directed link.

use std::collections::BTreeMap;

use granary_core::directory::DirectoryMessage;
use granary_core::id::SiloAddress;
use granary_core::membership::MembershipMessage;

use crate::faults::{MS, Plan, SECOND};
use crate::grains::GrainMessage;
use crate::rng::Rng;

/// What travels between silos.
#[derive(Debug, Clone)]
pub(crate) enum Wire {
    Membership(MembershipMessage),
    Directory(DirectoryMessage),
    Grain(GrainMessage),
}

/// A message on its way.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) from: SiloAddress,
    pub(crate) to: SiloAddress,
    pub(crate) wire: Wire,
}

/// A directed link between two places (not incarnations).
type Link = (usize, usize);

#[derive(Debug, Default)]
pub(crate) struct Net {
    cut_until: BTreeMap<Link, u64>,
    /// When the last message of an ordered link arrives.
    last_arrival: BTreeMap<Link, u64>,
    healed: bool,
}

impl Net {
    /// The arrival times of the copies of a message; none when it is lost.
    pub(crate) fn arrivals(&mut self, now: u64, link: Link, plan: &Plan, rng: &mut Rng) -> Vec<u64> {
        if self.healed {
            return vec![now + rng.between(MS / 5, 2 * MS)];
        }
        if self.is_cut(now, link) || rng.chance(plan.loss) {
            return Vec::new();
        }
        let copies = if rng.chance(plan.duplication) { 2 } else { 1 };
        (0..copies).map(|_| self.arrival(now, link, plan, rng)).collect()
    }

    fn arrival(&mut self, now: u64, link: Link, plan: &Plan, rng: &mut Rng) -> u64 {
        let late = if rng.chance(plan.straggling) { rng.below(2 * SECOND) } else { 0 };
        let mut at = now + rng.between(MS / 5, plan.delay_max) + late;
        if plan.in_order {
            let last = self.last_arrival.entry(link).or_default();
            at = at.max(*last + 1);
            *last = at;
        }
        at
    }

    pub(crate) fn is_cut(&self, now: u64, link: Link) -> bool {
        !self.healed && self.cut_until.get(&link).is_some_and(|until| now < *until)
    }

    /// Cuts a random group of places off from the others for a while.
    pub(crate) fn partition(&mut self, now: u64, plan: &Plan, rng: &mut Rng) {
        let until = now + rng.between(500 * MS, 8 * SECOND);
        let side: Vec<bool> = (0..plan.silos).map(|_| rng.chance(400)).collect();
        let place = |at: usize| side.get(at).copied().unwrap_or(false);
        for from in 0..plan.silos {
            for to in 0..plan.silos {
                if place(from) && !place(to) {
                    self.cut_until.insert((from, to), until);
                    if !plan.one_way {
                        self.cut_until.insert((to, from), until);
                    }
                }
            }
        }
    }

    /// From now on everything arrives once, soon and from everywhere.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
    }
}
