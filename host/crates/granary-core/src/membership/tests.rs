//! Transition tests of the membership machine: state and event to exact commands, and small scenarios.

mod chaos;
mod cluster;
mod join;
mod leave;
mod suspicion;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::{SiloAddress, Time};
use crate::membership::table::{CasOutcome, MembershipRow, SiloStatus, TableSnapshot};
use crate::membership::*;

fn ms(millis: u64) -> Time {
    Time(millis * 1000)
}

/// The silo with this number: its own port, generation and name.
fn silo(n: u16) -> SiloAddress {
    format!("10.0.0.{n}:7000@{n}").parse().unwrap()
}

fn identity(address: SiloAddress) -> SiloIdentity {
    let host = address.ip.to_string();
    SiloIdentity {
        address,
        name: format!("silo-{host}"),
        gateway: "127.0.0.1:8000".parse().unwrap(),
        admin: "127.0.0.1:9000".parse().unwrap(),
        host_id: host,
        boot_id: "boot".into(),
        process_id: 7,
    }
}

fn row(address: SiloAddress, status: SiloStatus) -> MembershipRow {
    let own = identity(address);
    MembershipRow {
        address,
        name: own.name,
        status,
        gateway: own.gateway,
        admin: own.admin,
        host_id: own.host_id,
        boot_id: own.boot_id,
        process_id: own.process_id,
        votes: Vec::new(),
        etag: 1,
        renewal: 0,
    }
}

fn table(version: u64, rows: impl IntoIterator<Item = MembershipRow>) -> TableSnapshot {
    TableSnapshot { version, rows: rows.into_iter().map(|row| (row.address, row)).collect() }
}

/// One machine, driven by hand.
struct Rig {
    machine: Membership,
    now: Time,
    /// The commands since the last look, without `WakeAt`.
    out: Vec<Command>,
    wake: Option<Time>,
    /// So many of the commands were looked at by `run`.
    seen: usize,
}

impl Rig {
    fn new(config: MembershipConfig) -> Self {
        Self { machine: Membership::new(config, 1), now: ms(0), out: Vec::new(), wake: None, seen: 0 }
    }

    /// A machine of silo 1 that has read the table and found itself Active among the others.
    fn active(others: impl IntoIterator<Item = u16>) -> Self {
        Self::active_with(MembershipConfig::new(identity(silo(1))), others)
    }

    fn active_with(config: MembershipConfig, others: impl IntoIterator<Item = u16>) -> Self {
        let mut rig = Self::new(config);
        rig.event(Event::Start);
        rig.answer(StoreReply::Read(Ok(table(0, []))));
        rig.answer(StoreReply::Written(Ok(CasOutcome::Written { version: 1 })));
        let rows = others.into_iter().map(|n| row(silo(n), SiloStatus::Active));
        let rows: Vec<_> = rows.chain([row(silo(1), SiloStatus::Active)]).collect();
        rig.answer(StoreReply::Read(Ok(table(2, rows))));
        assert!(rig.machine.is_active());
        rig.take();
        rig
    }

    fn event(&mut self, event: Event) {
        let mut out = Vec::new();
        self.machine.handle(self.now, event, &mut out);
        for command in out {
            match command {
                Command::WakeAt(at) => self.wake = Some(at),
                other => self.out.push(other),
            }
        }
    }

    /// Moves the clock, ticking whenever the machine asked for it, and answering what the machine asks of the
    /// store with `answer`.
    fn run(&mut self, until: Time, mut answer: impl FnMut(&StoreRequest) -> Option<StoreReply>) {
        for _ in 0..100_000 {
            if let Some(command) = self.out.get(self.seen) {
                self.seen += 1;
                let Command::Store { op, request } = command.clone() else { continue };
                if let Some(reply) = answer(&request) {
                    self.event(Event::Store { op, reply });
                }
                continue;
            }
            match self.wake {
                Some(at) if at <= until => {
                    self.now = self.now.max(at);
                    self.wake = None;
                    self.event(Event::Tick);
                }
                _ => {
                    self.now = until;
                    return;
                }
            }
        }
        panic!("the machine spins at {:?}: {:?}", self.now, self.out.last());
    }

    /// Answers the store operation in flight.
    fn answer(&mut self, reply: StoreReply) {
        let asked = self.out.iter().rev().find_map(|command| match command {
            Command::Store { op, .. } => Some(*op),
            _ => None,
        });
        self.seen = self.out.len();
        self.event(Event::Store { op: asked.expect("an operation was asked for"), reply });
    }

    fn message(&mut self, from: SiloAddress, message: MembershipMessage) {
        self.event(Event::Message { from, message });
    }

    /// Answers the last probe of this silo.
    fn ack(&mut self, from: SiloAddress, view_version: u64) {
        let sequence = self.last_probe(from);
        self.message(from, MembershipMessage::ProbeAck { sequence, view_version, generation: 0 });
    }

    fn last_probe(&self, silo: SiloAddress) -> u64 {
        let mut probes = self.out.iter().filter_map(|command| match command {
            Command::Send { to, message: MembershipMessage::Probe { sequence, .. } } if *to == silo => {
                Some(*sequence)
            }
            _ => None,
        });
        probes.next_back().expect("a probe was sent")
    }

    fn take(&mut self) -> Vec<Command> {
        self.seen = 0;
        std::mem::take(&mut self.out)
    }

    /// The commands since the last look that are not probes and not renewals or plain reads.
    fn telling(&mut self) -> Vec<Command> {
        let dull = |command: &Command| match command {
            Command::Store { request, .. } => {
                matches!(request, StoreRequest::Read | StoreRequest::Renew(_))
            }
            Command::Send { message, .. } => !matches!(message, MembershipMessage::TableChanged { .. }),
            _ => false,
        };
        self.take().into_iter().filter(|command| !dull(command)).collect()
    }
}

fn after(time: Time, millis: u64) -> Time {
    time.after(Duration::from_millis(millis))
}

/// A store that answers every read with this table, and renewals with success; writes are left open.
fn store_with(table: TableSnapshot) -> impl FnMut(&StoreRequest) -> Option<StoreReply> {
    move |request| match request {
        StoreRequest::Read => Some(StoreReply::Read(Ok(table.clone()))),
        StoreRequest::Renew(_) => Some(StoreReply::Renewed(Ok(true))),
        _ => None,
    }
}

/// A store that does what it is asked.
fn apply(table: &mut TableSnapshot, request: &StoreRequest) -> StoreReply {
    let (row, expected_version) = match request {
        StoreRequest::Read => return StoreReply::Read(Ok(table.clone())),
        StoreRequest::Renew(silo) => {
            let row = table.rows.get_mut(silo).filter(|row| row.status != SiloStatus::Dead);
            return StoreReply::Renewed(Ok(row.map(|row| row.renewal += 1).is_some()));
        }
        StoreRequest::RemoveDead(silos) => {
            table.rows.retain(|silo, _| !silos.contains(silo));
            return StoreReply::Removed(Ok(()));
        }
        StoreRequest::Insert { row, expected_version } | StoreRequest::Update { row, expected_version } => {
            (row, *expected_version)
        }
    };
    if expected_version != table.version {
        return StoreReply::Written(Ok(CasOutcome::Conflict));
    }
    table.version += 1;
    let renewal = table.rows.get(&row.address).map_or(0, |row| row.renewal);
    table.rows.insert(row.address, MembershipRow { etag: table.version, renewal, ..row.clone() });
    StoreReply::Written(Ok(CasOutcome::Written { version: table.version }))
}

#[test]
fn a_probe_for_an_earlier_start_is_not_answered() {
    let mut rig = Rig::active([2]);
    let probe = |to| MembershipMessage::Probe { to, sequence: 4, view_version: 2, generation: 9 };
    rig.message(silo(2), probe("10.0.0.1:7000@0".parse().unwrap()));
    assert_eq!(rig.telling(), []);
    rig.event(Event::ManifestGeneration(3));
    rig.message(silo(2), probe(silo(1)));
    let ack = MembershipMessage::ProbeAck { sequence: 4, view_version: 2, generation: 3 };
    let expected = [
        Command::Send { to: silo(2), message: ack },
        Command::PeerGeneration { silo: silo(2), generation: 9 },
    ];
    assert_eq!(rig.take(), expected);
}

#[test]
fn an_older_view_is_not_accepted() {
    let mut rig = Rig::active([2]);
    rig.run(ms(6000), store_with(table(1, [row(silo(1), SiloStatus::Dead)])));
    assert_eq!(rig.machine.view().version, 2);
    assert!(rig.machine.is_active());
}

#[test]
fn own_death_in_the_table_is_fatal() {
    let mut rig = Rig::active([2]);
    rig.message(silo(2), MembershipMessage::TableChanged { version: 3 });
    rig.answer(StoreReply::Read(Ok(table(3, [row(silo(1), SiloStatus::Dead)]))));
    let fatal = Command::Fatal(FatalReason::DeclaredDead { version: 3 });
    assert_eq!(rig.telling().last(), Some(&fatal));
    assert!(rig.machine.is_over());
}

#[test]
fn a_missing_own_row_in_a_newer_view_is_fatal() {
    let mut rig = Rig::active([2]);
    rig.message(silo(2), MembershipMessage::TableChanged { version: 3 });
    rig.answer(StoreReply::Read(Ok(table(3, [row(silo(2), SiloStatus::Active)]))));
    assert_eq!(rig.telling().last(), Some(&Command::Fatal(FatalReason::RowMissing { version: 3 })));
}

#[test]
fn a_refused_renewal_is_fatal() {
    let mut rig = Rig::active([]);
    rig.run(ms(3000), |request| match request {
        StoreRequest::Renew(_) => Some(StoreReply::Renewed(Ok(false))),
        _ => None,
    });
    assert_eq!(rig.telling(), [Command::Fatal(FatalReason::RenewalRefused)]);
}

#[test]
fn a_store_that_fails_is_asked_again_with_growing_pauses_and_the_view_stays() {
    let mut rig = Rig::active([]);
    let failure = StoreFailure::Unavailable("down".into());
    rig.run(ms(30_000), |request| match request {
        StoreRequest::Read => Some(StoreReply::Read(Err(failure.clone()))),
        StoreRequest::Renew(_) => Some(StoreReply::Renewed(Err(failure.clone()))),
        _ => None,
    });
    let count = |wanted: fn(&StoreRequest) -> bool, out: &[Command]| {
        out.iter().filter(|c| matches!(c, Command::Store { request, .. } if wanted(request))).count()
    };
    let reads = count(|request| *request == StoreRequest::Read, &rig.out);
    let renewals = count(|request| matches!(request, StoreRequest::Renew(_)), &rig.out);
    assert!((12..=30).contains(&reads), "{reads} reads");
    assert!((28..=31).contains(&renewals), "{renewals} renewals: an outage must not slow them");
    assert_eq!(rig.telling(), [Command::Report(Fact::StoreFailed("unavailable: down".into()))]);
    assert_eq!(rig.machine.view().version, 2);
    rig.run(ms(33_000), store_with(table(2, [row(silo(1), SiloStatus::Active)])));
    assert_eq!(rig.telling(), [Command::Report(Fact::StoreRecovered)]);
}

#[test]
fn an_operation_without_an_answer_is_given_up_and_its_late_reply_ignored() {
    let mut rig = Rig::active([2]);
    rig.message(silo(2), MembershipMessage::TableChanged { version: 3 });
    let Some(Command::Store { op, request: StoreRequest::Read }) = rig.take().pop() else {
        panic!("no read")
    };
    rig.run(ms(2500), |_| None);
    let lost = Command::Report(Fact::StoreFailed("unavailable: no answer within 2s".into()));
    assert!(rig.telling().contains(&lost));
    let dead = table(3, [row(silo(1), SiloStatus::Dead)]);
    rig.event(Event::Store { op, reply: StoreReply::Read(Ok(dead)) });
    assert!(rig.machine.is_active());
}

#[test]
fn only_the_lowest_active_silo_removes_the_oldest_dead_rows_beyond_the_bound() {
    let mut config = MembershipConfig::new(identity(silo(1)));
    config.dead_rows_max = 2;
    let dead = [11, 12, 13].map(|n| row(silo(n), SiloStatus::Dead));
    for (other, expected) in [(2, vec![silo(11)]), (0, vec![])] {
        let mut rig = Rig::active_with(config.clone(), [other]);
        rig.message(silo(other), MembershipMessage::TableChanged { version: 3 });
        let living = [1, other].map(|n| row(silo(n), SiloStatus::Active));
        rig.answer(StoreReply::Read(Ok(table(3, living.into_iter().chain(dead.clone())))));
        let removed: Vec<SiloAddress> = rig.take().into_iter().find_map(removal).unwrap_or_default();
        assert_eq!(removed, expected);
    }
}

fn removal(command: Command) -> Option<Vec<SiloAddress>> {
    match command {
        Command::Store { request: StoreRequest::RemoveDead(rows), .. } => Some(rows),
        _ => None,
    }
}

#[test]
fn a_large_cluster_is_probed_by_a_bounded_number_of_silos_each_and_nobody_is_forgotten() {
    let all: Vec<u16> = (1..=30).collect();
    let mut probed = BTreeMap::<SiloAddress, usize>::new();
    for own in &all {
        let mut config = MembershipConfig::new(identity(silo(1)));
        config.identity.address = silo(*own);
        let mut machine = Membership::new(config, 1);
        machine.phase = Phase::Active;
        let rows = all.iter().map(|n| row(silo(*n), SiloStatus::Active));
        machine.adopt(ms(1), ms(0), table(1, rows), &mut Vec::new());
        assert_eq!(machine.peers.len(), 10);
        for peer in machine.peers.keys() {
            *probed.entry(*peer).or_default() += 1;
        }
    }
    assert_eq!(probed.len(), 30);
    assert!(probed.values().all(|probers| *probers >= 3), "{probed:?}");
}

#[test]
fn equal_seeds_give_equal_commands() {
    let run = || {
        let mut rig = Rig::active([2, 3, 4]);
        rig.run(ms(20_000), store_with(table(2, [1, 2, 3, 4].map(|n| row(silo(n), SiloStatus::Active)))));
        rig.take()
    };
    assert_eq!(run(), run());
}
