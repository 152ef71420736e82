//! The membership table: a linearizable model, and an unreliable way to it.

use std::collections::BTreeMap;

use granary_core::id::SiloAddress;
use granary_core::membership::table::{CasOutcome, MembershipRow, SiloStatus, TableSnapshot};
use granary_core::membership::{StoreFailure, StoreReply, StoreRequest};

use crate::faults::{MS, Plan, SECOND};
use crate::rng::Rng;

/// How long a renewal must have been unchanged before a minority may declare a death: the fencing time, less what
/// clocks may differ.
const SILENCE_MIN: u64 = 39 * SECOND / 10;
/// How long it may take from the last read of the table to the write that rests on it.
const UNSEEN_MAX: u64 = 6 * SECOND;

/// How one operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Fine,
    /// Not applied; an error.
    Refused,
    /// Applied; an error.
    AckLost,
    /// Applied; no answer at all.
    Silent,
    /// Not applied; reported as a conflict.
    Conflict,
}

/// The way of one operation: when it is applied, when the answer is there, and how it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) applied_at: u64,
    pub(crate) answered_at: u64,
    pub(crate) fate: Fate,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    table: TableSnapshot,
    last_etag: u64,
    renewed_at: BTreeMap<SiloAddress, u64>,
    /// When a silo renewed its row after a long silence.
    back_at: BTreeMap<SiloAddress, u64>,
    down_until: u64,
    healed: bool,
}

impl Store {
    pub(crate) fn version(&self) -> u64 {
        self.table.version
    }

    /// Whether the table says that the silo is dead. A row is removed only when it was.
    pub(crate) fn is_dead(&self, silo: SiloAddress) -> bool {
        self.table.rows.get(&silo).is_none_or(|row| row.status == SiloStatus::Dead)
    }

    pub(crate) fn row(&self, silo: SiloAddress) -> Option<&MembershipRow> {
        self.table.rows.get(&silo)
    }

    /// A vote against a silo that is not Dead, by one that is not Dead either.
    pub(crate) fn open_vote(&self) -> Option<(SiloAddress, SiloAddress)> {
        let living = self.table.rows.values().filter(|row| row.status != SiloStatus::Dead);
        let mut votes = living.flat_map(|row| row.votes.iter().map(|vote| (vote.voter, row.address)));
        votes.find(|(voter, _)| !self.is_dead(*voter))
    }

    /// The silos that the table has as Active.
    pub(crate) fn active(&self) -> impl Iterator<Item = SiloAddress> + '_ {
        let active = self.table.rows.values().filter(|row| row.status == SiloStatus::Active);
        active.map(|row| row.address)
    }

    /// Whether the silo has not renewed its row for the fencing time, or had not a moment ago. (A renewal between
    /// the last read of those who declare a death and their write is not seen: it changes no version.)
    pub(crate) fn was_silent(&self, now: u64, silo: SiloAddress) -> bool {
        let since = |times: &BTreeMap<SiloAddress, u64>| times.get(&silo).map_or(0, |at| now - at);
        since(&self.renewed_at) >= SILENCE_MIN
            || (self.back_at.contains_key(&silo) && since(&self.back_at) < UNSEEN_MAX)
    }

    pub(crate) fn go_down(&mut self, now: u64, rng: &mut Rng) {
        self.down_until = now + rng.between(200 * MS, 8 * SECOND);
    }

    pub(crate) fn heal(&mut self) {
        self.healed = true;
    }

    /// Draws how an operation that starts now goes.
    pub(crate) fn way(&self, now: u64, request: &StoreRequest, plan: &Plan, rng: &mut Rng) -> Way {
        let quick = |rng: &mut Rng| rng.between(MS, 6 * MS);
        if self.healed {
            let applied_at = now + quick(rng);
            return Way { applied_at, answered_at: applied_at + quick(rng), fate: Fate::Fine };
        }
        if now < self.down_until {
            let answered_at = now + quick(rng);
            return Way { applied_at: answered_at, answered_at, fate: Fate::Refused };
        }
        let is_write = !matches!(request, StoreRequest::Read);
        let is_cas = matches!(request, StoreRequest::Insert { .. } | StoreRequest::Update { .. });
        let slow = |rng: &mut Rng| if rng.chance(plan.store_slow) { rng.below(3 * SECOND) } else { 0 };
        let applied_at = now + quick(rng) + slow(rng);
        let answered_at = applied_at + quick(rng) + slow(rng);
        let fate = if is_write && rng.chance(plan.store_ack_lost) {
            if rng.chance(500) { Fate::AckLost } else { Fate::Silent }
        } else if is_cas && rng.chance(plan.store_conflict) {
            Fate::Conflict
        } else {
            Fate::Fine
        };
        Way { applied_at, answered_at, fate }
    }

    /// Applies an operation as its fate wants; `None` when no answer comes.
    pub(crate) fn apply(&mut self, now: u64, request: &StoreRequest, fate: Fate) -> Option<StoreReply> {
        let applied = match fate {
            Fate::Fine | Fate::AckLost | Fate::Silent => Some(self.carry_out(now, request)),
            Fate::Refused | Fate::Conflict => None,
        };
        match (fate, applied) {
            (Fate::Silent, _) => None,
            (Fate::Fine, Some(reply)) => Some(reply),
            (Fate::Conflict, _) => Some(StoreReply::Written(Ok(CasOutcome::Conflict))),
            _ => Some(failure(request)),
        }
    }

    fn carry_out(&mut self, now: u64, request: &StoreRequest) -> StoreReply {
        match request {
            StoreRequest::Read => StoreReply::Read(Ok(self.table.clone())),
            StoreRequest::Insert { row, expected_version } => {
                let free = !self.table.rows.contains_key(&row.address);
                self.renewed_at.entry(row.address).or_insert(now);
                StoreReply::Written(Ok(self.put(row, *expected_version, free)))
            }
            StoreRequest::Update { row, expected_version } => {
                let same = self.table.rows.get(&row.address).is_some_and(|old| old.etag == row.etag);
                StoreReply::Written(Ok(self.put(row, *expected_version, same)))
            }
            StoreRequest::Renew(silo) => {
                let row = self.table.rows.get_mut(silo).filter(|row| row.status != SiloStatus::Dead);
                let renewed = row.map(|row| row.renewal += 1).is_some();
                if renewed {
                    let before = self.renewed_at.insert(*silo, now);
                    if before.is_some_and(|before| now - before >= SILENCE_MIN) {
                        self.back_at.insert(*silo, now);
                    }
                }
                StoreReply::Renewed(Ok(renewed))
            }
            StoreRequest::RemoveDead(silos) => {
                let rows = &mut self.table.rows;
                rows.retain(|silo, row| row.status != SiloStatus::Dead || !silos.contains(silo));
                StoreReply::Removed(Ok(()))
            }
        }
    }

    fn put(&mut self, row: &MembershipRow, expected_version: u64, row_fits: bool) -> CasOutcome {
        if !row_fits || self.table.version != expected_version {
            return CasOutcome::Conflict;
        }
        self.table.version += 1;
        self.last_etag += 1;
        let renewal = self.table.rows.get(&row.address).map_or(row.renewal, |old| old.renewal);
        let row = MembershipRow { etag: self.last_etag, renewal, ..row.clone() };
        self.table.rows.insert(row.address, row);
        CasOutcome::Written { version: self.table.version }
    }
}

fn failure(request: &StoreRequest) -> StoreReply {
    let error = StoreFailure::Unavailable("simulated".to_owned());
    match request {
        StoreRequest::Read => StoreReply::Read(Err(error)),
        StoreRequest::Insert { .. } | StoreRequest::Update { .. } => StoreReply::Written(Err(error)),
        StoreRequest::Renew(_) => StoreReply::Renewed(Err(error)),
        StoreRequest::RemoveDead(_) => StoreReply::Removed(Err(error)),
    }
}
