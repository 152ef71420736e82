//! What the table should say, by this silo's knowledge: the next row to write, computed from the newest
//! snapshot each time, and the arithmetic of votes (fencing rule 4).

use crate::id::{SiloAddress, Time};
use crate::membership::probe::Peer;
use crate::membership::table::{MembershipRow, SiloStatus, Vote};
use crate::membership::{DeathCause, Membership, Mutant, Phase};

/// How much longer than the fencing time a renewal is watched: two clocks may differ by 3 % in their speed.
const CLOCK_DRIFT_PERCENT: u32 = 103;

/// What a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// The own row appears, Joining.
    Insert,
    /// The own row gets this status.
    Own(SiloStatus),
    /// A vote against the silo is added.
    Vote(SiloAddress),
    /// The own vote is taken back.
    Retract(SiloAddress),
    /// The silo is declared dead.
    Death(SiloAddress, DeathCause),
}

/// What this silo remembers about a row beyond what the row says.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    renewal: u64,
    /// When a read with this renewal first ended, by the own clock.
    first_seen: Time,
    /// When the newest read with this renewal began, by the own clock.
    last_seen: Time,
    /// Since when the row is seen Joining.
    joining_since: Option<Time>,
    /// The highest number of an own vote in this row.
    vote_number: u64,
}

impl Watch {
    fn new(row: &MembershipRow, started: Time, ended: Time) -> Self {
        Self {
            renewal: row.renewal,
            first_seen: ended,
            last_seen: started,
            joining_since: None,
            vote_number: 0,
        }
    }

    /// Takes what a read from `started` to `ended` found.
    fn see(&mut self, row: &MembershipRow, own: SiloAddress, started: Time, ended: Time) {
        if row.renewal > self.renewal {
            self.renewal = row.renewal;
            self.first_seen = ended;
        }
        if row.renewal == self.renewal {
            self.last_seen = self.last_seen.max(started);
        }
        let joining = row.status == SiloStatus::Joining;
        self.joining_since = joining.then(|| self.joining_since.unwrap_or(ended));
        let numbers = row.votes.iter().filter(|vote| vote.voter == own).map(|vote| vote.number);
        self.vote_number = numbers.fold(self.vote_number, u64::max);
    }
}

/// A majority of `n`.
fn majority(n: usize) -> usize {
    n / 2 + 1
}

/// How many peers' promises keep a silo valid in a view of `n`, also while it grows by one (fencing rule 3).
fn promises(n: usize) -> usize {
    n.saturating_sub(majority(n)).max((n + 1).saturating_sub(majority(n + 1)))
}

/// Whether so many votes in a view of `n` Active silos declare a silo dead, and why.
///
/// A majority suffices, but never a single vote. Fewer suffice once the victim's renewal has expired and the
/// silos that did not vote are too few to keep it valid by their promises: one in a view of two, two of four.
fn verdict(votes: usize, n: usize, renewal_expired: bool) -> Option<DeathCause> {
    if votes >= majority(n).max(2) {
        Some(DeathCause::Majority)
    } else if renewal_expired && votes >= n.saturating_sub(promises(n)).max(1) {
        Some(DeathCause::RenewalExpired)
    } else {
        None
    }
}

impl Membership {
    /// Remembers what a read found about renewals, votes and joiners.
    pub(super) fn watch_rows(&mut self, started: Time, ended: Time, rows: &[&MembershipRow]) {
        let own = self.address();
        self.watches.retain(|silo, _| rows.iter().any(|row| row.address == *silo));
        for row in rows {
            let fresh = || Watch::new(row, started, ended);
            self.watches.entry(row.address).or_insert_with(fresh).see(row, own, started, ended);
        }
    }

    /// The silo's renewal was seen unchanged for longer than it can keep the silo valid. Counted from the end
    /// of the first read to the beginning of the last, so that slow reads make it later, never earlier.
    fn renewal_expired(&self, silo: SiloAddress) -> bool {
        let needed = self.config.fencing_time * CLOCK_DRIFT_PERCENT / 100;
        self.mutant(Mutant::RenewalNotWatched)
            || self.watches.get(&silo).is_some_and(|it| it.last_seen.since(it.first_seen) >= needed)
    }

    /// When the silo's join counts as stuck (spec MB-34), if it is joining.
    fn stuck_at(&self, silo: SiloAddress) -> Option<Time> {
        let since = self.watches.get(&silo)?.joining_since?;
        Some(since.after(self.config.stuck_joining))
    }

    /// When the next joiner becomes stuck.
    pub(super) fn stuck_wake(&self, now: Time) -> Option<Time> {
        let watching = self.phase == Phase::Active;
        let times = self.watches.keys().filter_map(|silo| self.stuck_at(*silo));
        times.filter(|at| watching && *at > now).min()
    }

    /// This silo would vote against the other: it missed its probes, or is stuck while joining.
    pub(super) fn suspected(&self, now: Time, silo: SiloAddress) -> bool {
        self.silent(silo) || self.stuck_at(silo).is_some_and(|at| at <= now)
    }

    /// The next row to write, if the table does not say what it should.
    pub(super) fn wanted(&self, now: Time) -> Option<(Intent, MembershipRow)> {
        let own = self.table.rows.get(&self.address());
        match self.phase {
            Phase::Idle | Phase::Over => None,
            Phase::Joining { .. } => self.wanted_by_joiner(),
            Phase::Active => self.proved_death().or_else(|| self.wanted_by_judge(now)),
            Phase::Leaving { .. } => own_status(own?, SiloStatus::ShuttingDown),
            Phase::Finishing { .. } | Phase::Abandoning { .. } => own_status(own?, SiloStatus::Dead),
        }
    }

    fn others(&self) -> impl Iterator<Item = &MembershipRow> {
        let own = self.address();
        self.table.rows.values().filter(move |row| row.status != SiloStatus::Dead && row.address != own)
    }

    fn proved_death(&self) -> Option<(Intent, MembershipRow)> {
        let proved = |row: &&MembershipRow| self.peers.get(&row.address).is_some_and(Peer::proved_dead);
        self.others().find(proved).map(|row| death(row, DeathCause::LockProof))
    }

    /// The joiner's own start makes this row's silo dead: it has the silo's endpoint (spec MB-26), or the lock
    /// of its name's directory (decision B7). A loopback endpoint is not the same on another host.
    pub(super) fn replaces(&self, row: &MembershipRow) -> bool {
        let own = &self.config.identity;
        let endpoint = row.address.endpoint() == own.address.endpoint()
            && row.address.generation < own.address.generation
            && (!own.address.ip.is_loopback() || row.host_id == own.host_id);
        endpoint || (row.name == own.name && self.config.holds_name_lock && self.same_boot(row))
    }

    fn wanted_by_joiner(&self) -> Option<(Intent, MembershipRow)> {
        if let Some(old) = self.others().find(|row| self.replaces(row)) {
            return Some(death(old, DeathCause::Replaced));
        }
        if let Some(found) = self.proved_death().or_else(|| self.nobody_left()) {
            return Some(found);
        }
        let Some(own) = self.table.rows.get(&self.address()) else {
            let name_free = self.others().all(|row| row.name != self.config.identity.name);
            return name_free.then(|| (Intent::Insert, self.own_row()));
        };
        if self.unreached().next().is_some() && !self.mutant(Mutant::JoinWithoutProbing) {
            return None;
        }
        own_status(own, SiloStatus::Active)
    }

    /// The Active silos that have not acknowledged a view with this joiner's row in it (fencing rule 6).
    pub(super) fn unreached(&self) -> impl Iterator<Item = SiloAddress> + '_ {
        let acked = |silo: SiloAddress| self.peers.get(&silo).and_then(|peer| peer.acked_version);
        let active = self.others().filter(|row| row.status == SiloStatus::Active).map(|row| row.address);
        active.filter(move |silo| self.join_version.is_none() || acked(*silo) < self.join_version)
    }

    /// The silos that have this joiner's name.
    pub(super) fn namesakes(&self) -> impl Iterator<Item = SiloAddress> + '_ {
        self.others().filter(|row| row.name == self.config.identity.name).map(|row| row.address)
    }

    /// All Active silos are silent and their renewals have expired, so nobody is left who could vote: the whole
    /// cluster crashed. The joiner then declares them dead one after the other (spec MB-36).
    fn nobody_left(&self) -> Option<(Intent, MembershipRow)> {
        let gone = |row: &&MembershipRow| self.silent(row.address) && self.renewal_expired(row.address);
        if self.others().filter(|row| row.status == SiloStatus::Active).any(|row| !gone(&row)) {
            return None;
        }
        self.others().find(gone).map(|row| death(row, DeathCause::NobodyLeft))
    }

    fn own_row(&self) -> MembershipRow {
        let own = &self.config.identity;
        MembershipRow {
            address: own.address,
            name: own.name.clone(),
            status: SiloStatus::Joining,
            gateway: own.gateway,
            admin: own.admin,
            host_id: own.host_id.clone(),
            boot_id: own.boot_id.clone(),
            process_id: own.process_id,
            votes: Vec::new(),
            etag: 0,
            renewal: 0,
        }
    }

    fn wanted_by_judge(&self, now: Time) -> Option<(Intent, MembershipRow)> {
        self.others().find_map(|row| {
            if self.suspected(now, row.address) { self.accuse(row) } else { self.retract(row) }
        })
    }

    /// The row with this silo's vote, or Dead if that vote decides.
    fn accuse(&self, row: &MembershipRow) -> Option<(Intent, MembershipRow)> {
        let silo = row.address;
        if self.peers.get(&silo).is_some_and(Peer::proof_comes) {
            return None;
        }
        let own = self.address();
        let counts = |vote: &&Vote| {
            vote.voter != own && (self.view.is_active(vote.voter) || self.mutant(Mutant::DeadVotersCount))
        };
        let mut votes: Vec<Vote> = row.votes.iter().filter(counts).cloned().collect();
        let mine = row.votes.iter().find(|vote| vote.voter == own);
        let next = self.watches.get(&silo).map_or(1, |watch| watch.vote_number + 1);
        votes.push(mine.cloned().unwrap_or(Vote { voter: own, number: next }));
        let verdict = if self.mutant(Mutant::OneVoteKills) {
            Some(DeathCause::Majority)
        } else {
            verdict(votes.len(), self.view.active().count(), self.renewal_expired(silo))
        };
        match verdict {
            Some(cause) => {
                let (intent, row) = death(row, cause);
                Some((intent, MembershipRow { votes, ..row }))
            }
            None if mine.is_none() => Some((Intent::Vote(silo), MembershipRow { votes, ..row.clone() })),
            None => None,
        }
    }

    /// The row without this silo's vote, if it has one: the target answers again.
    fn retract(&self, row: &MembershipRow) -> Option<(Intent, MembershipRow)> {
        let own = self.address();
        if self.mutant(Mutant::VoteNotRetracted) || row.votes.iter().all(|vote| vote.voter != own) {
            return None;
        }
        let votes = row.votes.iter().filter(|vote| vote.voter != own).cloned().collect();
        Some((Intent::Retract(row.address), MembershipRow { votes, ..row.clone() }))
    }
}

fn death(row: &MembershipRow, cause: DeathCause) -> (Intent, MembershipRow) {
    (Intent::Death(row.address, cause), MembershipRow { status: SiloStatus::Dead, ..row.clone() })
}

/// The own row with a later status; `None` if it has that or a later one already.
fn own_status(row: &MembershipRow, status: SiloStatus) -> Option<(Intent, MembershipRow)> {
    (row.status < status).then(|| (Intent::Own(status), MembershipRow { status, ..row.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_needed_are_a_majority_or_what_promises_cannot_outweigh() {
        // (n, votes, without expiry, with expiry)
        let table = [
            (1, 1, None, Some(DeathCause::RenewalExpired)),
            (2, 1, None, Some(DeathCause::RenewalExpired)),
            (3, 1, None, None),
            (3, 2, Some(DeathCause::Majority), Some(DeathCause::Majority)),
            (4, 1, None, None),
            (4, 2, None, Some(DeathCause::RenewalExpired)),
            (4, 3, Some(DeathCause::Majority), Some(DeathCause::Majority)),
            (5, 2, None, None),
            (5, 3, Some(DeathCause::Majority), Some(DeathCause::Majority)),
            (6, 2, None, None),
            (6, 3, None, Some(DeathCause::RenewalExpired)),
        ];
        for (n, votes, fresh, expired) in table {
            assert_eq!(verdict(votes, n, false), fresh, "{votes} votes of {n}, renewal fresh");
            assert_eq!(verdict(votes, n, true), expired, "{votes} votes of {n}, renewal expired");
        }
    }

    #[test]
    fn promises_needed_are_those_of_fencing_rule_3() {
        assert_eq!([2, 3, 4, 5].map(promises), [1, 1, 2, 2]);
    }
}
