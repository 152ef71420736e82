//! What must hold after each step, whatever fails.
//!
//! 1. A silo's views only grow, and the same version has the same living members everywhere.
//! 2. Of all silos that the table does not call Dead, at most one has an activation of a grain that may run turns.
//!    (A silo that the table calls Dead may still run until it learns of it: that is counted, not judged, since
//!    nothing but a fence can prevent it; decision B5.)
//! 3. A grain loses its memory only when an activation ended: by its process, by its own wish, by eviction. A
//!    migration carries it over exactly, and the source never runs again.
//! 4. An activation that the directory has confirmed to have forgotten is not named to who asks later in the same or a newer view.
//! 5. A silo becomes Active only when every Active silo has seen it join.
//! 6. A running silo is written Dead by others only with the votes of a majority, or after it has been silent at
//!    the store for the fencing time.

use std::collections::{BTreeMap, BTreeSet};

use granary_core::id::{ActivationId, SiloAddress};
use granary_core::membership::MembershipView;
use granary_core::membership::table::SiloStatus;

use crate::store::Store;

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    versions: BTreeMap<SiloAddress, u64>,
    contents: BTreeMap<u64, Vec<(SiloAddress, SiloStatus)>>,
    /// The last turn of each grain: activation and counter.
    last_turn: BTreeMap<u32, (ActivationId, u64)>,
    ended: BTreeSet<ActivationId>,
    successors: BTreeMap<ActivationId, ActivationId>,
    /// When, and in which view, the directory confirmed that it forgot an activation.
    forgotten: BTreeMap<ActivationId, (u64, u64)>,
    /// Activations that came by a migration.
    migrated: BTreeSet<ActivationId>,
    hosts: BTreeMap<ActivationId, SiloAddress>,
    /// The first broken promise.
    pub(crate) broken: Option<String>,
    /// Turns of a silo that the table calls Dead while another activation of the grain ran.
    pub(crate) overlaps: u64,
    pub(crate) turns: u64,
    pub(crate) evictions: u64,
    pub(crate) moves: u64,
    pub(crate) deaths: u64,
}

/// A turn that an activation ran.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) grain: u32,
    pub(crate) activation: ActivationId,
    pub(crate) value: u64,
    pub(crate) on_dead_silo: bool,
}

impl Checks {
    pub(crate) fn fail(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    pub(crate) fn view(&mut self, silo: SiloAddress, view: &MembershipView) {
        let last = self.versions.insert(silo, view.version);
        if last.is_some_and(|last| last >= view.version) {
            self.fail(|| format!("{silo} went from view {last:?} to view {}", view.version));
        }
        let living = view.members.iter().filter(|(_, member)| member.status != SiloStatus::Dead);
        let content: Vec<_> = living.map(|(silo, member)| (*silo, member.status)).collect();
        let known = self.contents.entry(view.version).or_insert_with(|| content.clone());
        if *known != content {
            let text = format!("view {} of {silo} is {content:?}, of others {known:?}", view.version);
            self.fail(|| text);
        }
    }

    pub(crate) fn ended(&mut self, activation: ActivationId) {
        self.ended.insert(activation);
    }

    pub(crate) fn moved(&mut self, from: ActivationId, to: ActivationId, host: SiloAddress) {
        self.moves += 1;
        self.runs(to, Some(from), host);
    }

    /// An activation may run: then the one from which it was restored has been replaced by it.
    pub(crate) fn runs(&mut self, activation: ActivationId, source: Option<ActivationId>, host: SiloAddress) {
        self.hosts.insert(activation, host);
        if let Some(source) = source {
            self.migrated.insert(activation);
            self.successors.insert(source, activation);
        }
    }

    /// A turn. On a silo that the table calls Dead it counts only if it goes on with what is known, since its memory
    /// may still travel on by a migration.
    pub(crate) fn turn(&mut self, turn: Turn, store: &Store) {
        let Turn { grain, activation, value, on_dead_silo } = turn;
        self.turns += 1;
        let Some((last, counter)) = self.last_turn.get(&grain).copied() else {
            self.last_turn.insert(grain, (activation, value));
            return;
        };
        let mut tail = last;
        let mut continues = last == activation;
        while let Some(next) = self.successors.get(&tail) {
            tail = *next;
            continues |= tail == activation;
        }
        let kept = continues && value == counter + 1;
        if !kept && on_dead_silo {
            return;
        }
        self.last_turn.insert(grain, (activation, value));
        if last == activation && self.successors.contains_key(&last) && !on_dead_silo {
            self.fail(|| format!("grain {grain}: {activation} runs a turn after it moved away"));
        }
        if !kept && !self.is_over(last, store) && !self.is_over(tail, store) {
            self.fail(|| {
                format!(
                    "grain {grain}: turn {value} of {activation} after turn {counter} of {last}, \
                     whose heir {tail} has not ended"
                )
            });
        }
    }

    pub(crate) fn forgotten(&mut self, activation: ActivationId, at: u64, view: u64) {
        self.forgotten.insert(activation, (at, view));
    }

    /// The directory named an activation. One that came by a migration may be named once more after its end: a source
    /// that does not know of its commit repeats it. Calls find out at once.
    pub(crate) fn named(&mut self, activation: ActivationId, asked_at: u64, view: u64) {
        let forgotten = self.forgotten.get(&activation);
        let before = forgotten.is_some_and(|(at, in_view)| *at < asked_at && *in_view <= view);
        if before && !self.migrated.contains(&activation) {
            self.fail(|| format!("the directory names {activation}, which it had forgotten before"));
        }
    }

    /// Whether the activation's memory may be gone.
    fn is_over(&self, activation: ActivationId, store: &Store) -> bool {
        self.ended.contains(&activation)
            || self.hosts.get(&activation).is_some_and(|host| store.is_dead(*host))
    }

    /// A silo that still runs was written Dead by another one.
    pub(crate) fn declared_dead(&mut self, silo: SiloAddress, votes: usize, active: usize, silent: bool) {
        self.deaths += 1;
        if votes * 2 <= active && !silent {
            self.fail(|| {
                format!("{silo} was declared dead by {votes} of {active} silos although it renewed its row")
            });
        }
    }
}
