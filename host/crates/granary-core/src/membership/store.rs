//! The machine's side of the store: one operation at a time, deadlines, back-off, and the reading again after
//! every outcome that is not known.

use std::time::Duration;

use crate::id::{SiloAddress, Time};
use crate::membership::judge::Intent;
use crate::membership::table::{CasOutcome, MembershipRow, SiloStatus, TableSnapshot};
use crate::membership::{
    Command, Fact, FatalReason, JoinError, Membership, MembershipMessage, Mutant, Phase, StoreFailure,
    StoreReply, StoreRequest,
};

/// The first back-off after a store failure; it doubles up to the configured longest.
const FAILURE_BACKOFF: Duration = Duration::from_millis(50);
/// The longest random back-off after the first lost race for a version; it doubles six times.
const CONFLICT_BACKOFF: Duration = Duration::from_millis(10);
/// How often [`CONFLICT_BACKOFF`] and [`FAILURE_BACKOFF`] double at most.
const BACKOFF_DOUBLINGS_MAX: u32 = 6;

/// What an operation in flight is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    Read,
    Renew,
    RemoveDead,
    /// The row is kept for the planted fault that writes it again.
    Write(Intent, Box<MembershipRow>),
}

#[derive(Debug)]
struct InFlight {
    op: u64,
    purpose: Purpose,
    started: Time,
    /// The version that this read was to find.
    wanted_version: u64,
}

/// Everything the machine remembers about its dealings with the store.
#[derive(Debug, Default)]
pub(super) struct Store {
    last_op: u64,
    in_flight: Option<InFlight>,
    /// The snapshot in hand may be older than an own write or a lost race: read before writing.
    pub(super) must_read: bool,
    /// Somebody said that the table has this version.
    wanted_version: u64,
    last_read: Time,
    renew_due: Time,
    /// Nothing but renewals before this time: the store failed.
    not_before: Time,
    /// No writes before this time: a race was lost.
    write_not_before: Time,
    failures: u32,
    conflicts: u32,
    pub(super) last_failure: Option<StoreFailure>,
    overwrite: Option<(Intent, Box<MembershipRow>)>,
}

impl Store {
    #[cfg(test)]
    pub(super) fn last_op(&self) -> u64 {
        self.last_op
    }

    /// Somebody has seen this version of the table.
    pub(super) fn want_version(&mut self, version: u64) {
        self.wanted_version = self.wanted_version.max(version);
    }
}

impl Membership {
    /// Starts the most urgent store operation, if none is in flight.
    pub(super) fn pump(&mut self, now: Time, out: &mut Vec<Command>) {
        if self.store.in_flight.is_some() || matches!(self.phase, Phase::Idle | Phase::Over) {
            return;
        }
        if self.renews() && self.store.renew_due <= now {
            self.store.renew_due = now.after(self.config.renewal_period);
            self.begin(now, Purpose::Renew, StoreRequest::Renew(self.address()), out);
        } else if now < self.store.not_before {
            // The store failed a moment ago.
        } else if self.must_read() {
            self.begin_read(now, out);
        } else if let Some((intent, row)) = self.next_write(now) {
            self.begin_write(now, intent, row, out);
        } else if let Some(rows) = self.dead_rows_to_remove() {
            self.begin(now, Purpose::RemoveDead, StoreRequest::RemoveDead(rows), out);
        } else if self.read_due() <= now {
            self.begin_read(now, out);
        }
    }

    fn must_read(&self) -> bool {
        self.store.must_read || self.store.wanted_version > self.table.version
    }

    /// The silo renews its row from the moment that it has seen it until it begins to write it Dead.
    fn renews(&self) -> bool {
        self.row_seen && matches!(self.phase, Phase::Joining { .. } | Phase::Active | Phase::Leaving { .. })
    }

    /// The row was inserted a moment ago, which is as good as a renewal.
    pub(super) fn postpone_renewal(&mut self, now: Time) {
        self.store.renew_due = now.after(self.config.renewal_period);
    }

    /// When the table is read next without a reason of its own: often while something is decided by it.
    fn read_due(&self) -> Time {
        let interval = match self.phase {
            Phase::Joining { .. } => self.config.probe_period,
            _ if self.anyone_missing() => self.config.renewal_period / 2,
            _ => self.config.table_refresh,
        };
        self.store.last_read.after(interval)
    }

    fn next_write(&self, now: Time) -> Option<(Intent, MembershipRow)> {
        if now < self.store.write_not_before {
            return None;
        }
        if let Some((intent, row)) = &self.store.overwrite {
            let etag = self.table.rows.get(&row.address)?.etag;
            return Some((*intent, MembershipRow { etag, ..row.as_ref().clone() }));
        }
        self.wanted(now)
    }

    fn begin_read(&mut self, now: Time, out: &mut Vec<Command>) {
        self.store.must_read = false;
        self.store.last_read = now;
        self.begin(now, Purpose::Read, StoreRequest::Read, out);
    }

    fn begin_write(&mut self, now: Time, intent: Intent, row: MembershipRow, out: &mut Vec<Command>) {
        self.store.overwrite = None;
        let expected_version = self.table.version;
        let purpose = Purpose::Write(intent, Box::new(row.clone()));
        let request = if intent == Intent::Insert {
            self.insert_tried = true;
            StoreRequest::Insert { row, expected_version }
        } else {
            StoreRequest::Update { row, expected_version }
        };
        self.begin(now, purpose, request, out);
    }

    fn begin(&mut self, now: Time, purpose: Purpose, request: StoreRequest, out: &mut Vec<Command>) {
        self.store.last_op += 1;
        let op = self.store.last_op;
        let wanted_version = self.store.wanted_version;
        self.store.in_flight = Some(InFlight { op, purpose, started: now, wanted_version });
        out.push(Command::Store { op, request });
    }

    /// Gives an operation up whose time is over; its outcome is not known.
    pub(super) fn expire_store(&mut self, now: Time, out: &mut Vec<Command>) {
        let timeout = self.config.store_timeout;
        if let Some(late) = self.store.in_flight.take_if(|it| it.started.after(timeout) <= now) {
            let failure = StoreFailure::Unavailable(format!("no answer within {timeout:?}"));
            self.store_failed(now, &late.purpose, failure, out);
        }
    }

    /// Takes the end of an operation.
    pub(super) fn on_store(&mut self, now: Time, op: u64, reply: StoreReply, out: &mut Vec<Command>) {
        let Some(ended) = self.store.in_flight.take_if(|it| it.op == op) else {
            return; // It was given up; what it may have changed is seen by the next read.
        };
        match (ended.purpose, reply) {
            (Purpose::Read, StoreReply::Read(Ok(table))) => {
                self.store_answered(out);
                self.on_read(now, ended.started, ended.wanted_version, table, out);
            }
            (Purpose::Write(intent, row), StoreReply::Written(Ok(outcome))) => {
                self.store_answered(out);
                self.on_written(now, intent, row, outcome, out);
            }
            (Purpose::Renew, StoreReply::Renewed(Ok(alive))) => {
                self.store_answered(out);
                if !alive {
                    self.on_renewal_refused(out);
                }
            }
            (Purpose::RemoveDead, StoreReply::Removed(Ok(()))) => {
                self.store_answered(out);
                self.store.must_read = true;
            }
            (
                purpose,
                StoreReply::Read(Err(failure))
                | StoreReply::Written(Err(failure))
                | StoreReply::Renewed(Err(failure))
                | StoreReply::Removed(Err(failure)),
            ) => self.store_failed(now, &purpose, failure, out),
            (purpose, _) => {
                let failure = StoreFailure::Unavailable("a reply of another operation".into());
                self.store_failed(now, &purpose, failure, out);
            }
        }
    }

    fn store_answered(&mut self, out: &mut Vec<Command>) {
        if self.store.last_failure.take().is_some() {
            out.push(Command::Report(Fact::StoreRecovered));
        }
        self.store.failures = 0;
        self.store.not_before = Time::default();
    }

    fn store_failed(&mut self, now: Time, purpose: &Purpose, failure: StoreFailure, out: &mut Vec<Command>) {
        if self.store.last_failure.is_none() {
            out.push(Command::Report(Fact::StoreFailed(failure.to_string())));
        }
        // Renewals keep their own pace, so they must not keep the others waiting either.
        if *purpose != Purpose::Renew {
            let doublings = self.store.failures.min(BACKOFF_DOUBLINGS_MAX);
            let backoff = (FAILURE_BACKOFF * (1 << doublings)).min(self.config.store_backoff_max);
            self.store.failures = self.store.failures.saturating_add(1);
            self.store.not_before = now.after(backoff / 2 + self.rng.below(backoff / 2));
            self.store.must_read = true;
        }
        let unusable = matches!(failure, StoreFailure::Unusable(_));
        self.store.last_failure = Some(failure.clone());
        if unusable && matches!(self.phase, Phase::Joining { .. }) {
            self.fail_join(now, JoinError::Store(failure), out);
        }
    }

    fn on_read(
        &mut self,
        now: Time,
        started: Time,
        wanted: u64,
        table: TableSnapshot,
        out: &mut Vec<Command>,
    ) {
        self.adopt(now, started, table, out);
        // Nobody has said more since the read began, and the store does not have it: wait to be told again.
        if self.store.wanted_version == wanted {
            self.store.wanted_version = 0;
        }
    }

    fn on_written(
        &mut self,
        now: Time,
        intent: Intent,
        row: Box<MembershipRow>,
        outcome: CasOutcome,
        out: &mut Vec<Command>,
    ) {
        self.store.must_read = true;
        let CasOutcome::Written { version } = outcome else {
            let doublings = self.store.conflicts.min(BACKOFF_DOUBLINGS_MAX);
            self.store.conflicts = self.store.conflicts.saturating_add(1);
            self.store.write_not_before = now.after(self.rng.below(CONFLICT_BACKOFF * (1 << doublings)));
            if self.mutant(Mutant::ConflictOverwritten) {
                self.store.overwrite = Some((intent, row));
            }
            return;
        };
        self.store.conflicts = 0;
        match intent {
            Intent::Vote(silo) => out.push(Command::Report(Fact::Voted(silo))),
            Intent::Retract(silo) => out.push(Command::Report(Fact::Retracted(silo))),
            Intent::Death(silo, cause) => out.push(Command::Report(Fact::DeclaredDead { silo, cause })),
            Intent::Insert => self.join_version = Some(version),
            Intent::Own(_) => {}
        }
        if !matches!(intent, Intent::Vote(_) | Intent::Retract(_)) {
            self.gossip(version, out);
        }
        if intent == Intent::Own(SiloStatus::Dead) {
            self.gone(true, out);
        }
    }

    /// Tells everybody that the table changed (spec MB-25). Who does not hear it sees the version in a probe.
    fn gossip(&self, version: u64, out: &mut Vec<Command>) {
        let others = self.view.living().filter(|silo| *silo != self.address());
        out.extend(
            others.map(|to| Command::Send { to, message: MembershipMessage::TableChanged { version } }),
        );
    }

    fn on_renewal_refused(&mut self, out: &mut Vec<Command>) {
        match self.phase {
            Phase::Joining { .. } => self.over(Command::JoinFailed(JoinError::DeclaredDead), out),
            Phase::Active | Phase::Leaving { .. } if !self.mutant(Mutant::OwnDeathIgnored) => {
                self.over(Command::Fatal(FatalReason::RenewalRefused), out);
            }
            _ => self.store.must_read = true,
        }
    }

    /// The lowest Active silo removes the oldest Dead rows beyond the bound (spec MB-83).
    fn dead_rows_to_remove(&self) -> Option<Vec<SiloAddress>> {
        let lowest = self.phase == Phase::Active && self.view.active().next() == Some(self.address());
        let dead = || self.table.rows.values().filter(|row| row.status == SiloStatus::Dead);
        let surplus = if lowest { dead().count().saturating_sub(self.config.dead_rows_max) } else { 0 };
        (surplus > 0).then(|| dead().take(surplus).map(|row| row.address).collect())
    }

    /// When the store's side next has something to do.
    pub(super) fn store_wake(&self, now: Time) -> Time {
        if let Some(op) = &self.store.in_flight {
            return op.started.after(self.config.store_timeout);
        }
        let mut wake = self.read_due().max(self.store.not_before);
        if self.renews() {
            wake = wake.min(self.store.renew_due);
        }
        for pause in [self.store.not_before, self.store.write_not_before] {
            if pause > now {
                wake = wake.min(pause);
            }
        }
        wake
    }
}
