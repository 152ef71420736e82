//! Taking a snapshot of the table in: the view, the own row, and what follows from both.

use std::sync::Arc;

use crate::id::Time;
use crate::membership::table::{MembershipRow, SiloStatus, TableSnapshot};
use crate::membership::{Command, FatalReason, JoinError, Membership, MembershipView, Mutant, Phase};

impl Membership {
    /// Takes what a read from `started` to `now` found. An older snapshot is ignored (spec MB-20); an equal
    /// version may bring later renewals, and fewer Dead rows.
    pub(super) fn adopt(&mut self, now: Time, started: Time, table: TableSnapshot, out: &mut Vec<Command>) {
        let older = table.version < self.table.version;
        if older && !self.mutant(Mutant::OlderViewAccepted) {
            return;
        }
        self.watch_rows(started, now, &table.rows.values().collect::<Vec<_>>());
        let newer = older || table.version > self.table.version;
        self.table = table;
        if newer {
            self.view = Arc::new(MembershipView::from(&self.table));
            out.push(Command::ViewChanged(Arc::clone(&self.view)));
            self.check_own_row(now, out);
            self.choose_peers(now);
        }
        if matches!(self.phase, Phase::Finishing { .. } | Phase::Abandoning { .. }) {
            self.check_gone(out);
        }
    }

    fn is_own(&self, row: &MembershipRow) -> bool {
        let own = &self.config.identity;
        row.name == own.name
            && row.process_id == own.process_id
            && row.host_id == own.host_id
            && row.boot_id == own.boot_id
    }

    fn check_own_row(&mut self, now: Time, out: &mut Vec<Command>) {
        if let Phase::Joining { .. } = self.phase {
            return self.check_join(now, out);
        }
        let status = self.table.rows.get(&self.address()).map(|row| row.status);
        let version = self.table.version;
        let immortal = self.mutant(Mutant::OwnDeathIgnored);
        match (&mut self.phase, status) {
            (Phase::Active | Phase::Leaving { .. }, Some(SiloStatus::Dead)) if !immortal => {
                self.over(Command::Fatal(FatalReason::DeclaredDead { version }), out);
            }
            (Phase::Active | Phase::Leaving { .. }, None) if self.row_seen && !immortal => {
                self.over(Command::Fatal(FatalReason::RowMissing { version }), out);
            }
            (Phase::Leaving { announced, .. }, Some(SiloStatus::ShuttingDown)) if !*announced => {
                *announced = true;
                out.push(Command::ShuttingDown { recorded: true });
            }
            _ => {}
        }
        self.row_seen |= status.is_some();
    }

    fn check_join(&mut self, now: Time, out: &mut Vec<Command>) {
        let own = self.address();
        let conflicting = self.table.rows.values().find(|row| {
            row.address.endpoint() == own.endpoint()
                && if row.address == own {
                    !self.insert_tried || !self.is_own(row)
                } else {
                    row.address.generation > own.generation
                }
        });
        if let Some(row) = conflicting {
            let error = JoinError::LaterGeneration { silo: row.address };
            return self.fail_join(now, error, out);
        }
        match self.table.rows.get(&own).map(|row| row.status) {
            Some(SiloStatus::Dead) => self.over(Command::JoinFailed(JoinError::DeclaredDead), out),
            None if self.row_seen => self.over(Command::JoinFailed(JoinError::DeclaredDead), out),
            None => {}
            Some(SiloStatus::Active) => {
                if !self.row_seen {
                    self.row_seen = true;
                    self.postpone_renewal(now);
                }
                self.phase = Phase::Active;
                out.push(Command::Joined);
            }
            Some(_) if self.row_seen => {}
            Some(_) => {
                self.row_seen = true;
                self.join_version.get_or_insert(self.table.version);
                self.postpone_renewal(now);
                self.probe_all_soon(now);
            }
        }
    }

    /// The silo wants to be gone and has read the table: is it?
    fn check_gone(&mut self, out: &mut Vec<Command>) {
        match self.table.rows.get(&self.address()).map(|row| row.status) {
            Some(SiloStatus::Dead) => self.gone(true, out),
            // Removed after its death; or never seen, and then an insert may still be on its way.
            None => self.gone(self.row_seen, out),
            Some(_) => {}
        }
    }

    /// Ends the join. A row that may be in the table is written Dead first.
    pub(super) fn fail_join(&mut self, now: Time, error: JoinError, out: &mut Vec<Command>) {
        if self.insert_tried && !matches!(error, JoinError::LaterGeneration { .. }) {
            self.phase = Phase::Abandoning { deadline: now.after(self.config.leave_timeout), error };
            self.store.must_read = true;
            self.choose_peers(now);
        } else {
            self.over(Command::JoinFailed(error), out);
        }
    }

    /// The end of a leave, or of a join that failed.
    pub(super) fn gone(&mut self, recorded: bool, out: &mut Vec<Command>) {
        let last = match &self.phase {
            Phase::Abandoning { error, .. } => Command::JoinFailed(error.clone()),
            _ => Command::Left { recorded },
        };
        self.over(last, out);
    }

    /// The machine's last command.
    pub(super) fn over(&mut self, last: Command, out: &mut Vec<Command>) {
        self.phase = Phase::Over;
        self.peers.clear();
        out.push(last);
    }
}
