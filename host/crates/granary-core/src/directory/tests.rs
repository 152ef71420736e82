//! Promises of the directory machine, one by one, on a few machines with a queue between them.

use std::collections::{BTreeMap, VecDeque};

use super::*;

mod migration;

/// Machines and the messages between them, delivered in order unless a test takes them out.
struct Cluster {
    now: Time,
    machines: BTreeMap<SiloAddress, Directory>,
    wire: VecDeque<(SiloAddress, SiloAddress, DirectoryMessage)>,
    outcomes: BTreeMap<OpId, Outcome>,
    deactivated: Vec<(SiloAddress, ActivationId)>,
    refreshes: Vec<(SiloAddress, u64)>,
    last_op: u64,
}

fn silo(number: u16) -> SiloAddress {
    format!("127.0.0.1:{}@1", 11_110 + number).parse().unwrap()
}

fn grain(key: u32) -> GrainId {
    format!("counter/{key}").parse().unwrap()
}

fn address(key: u32, activation: u128, at: u16) -> GrainAddress {
    GrainAddress {
        grain: grain(key),
        activation: ActivationId(activation),
        silo: silo(at),
        fence: 0,
        previous: None,
    }
}

fn view(version: u64, active: &[u16], stopping: &[u16]) -> Arc<DirectoryView> {
    let active: BTreeSet<_> = active.iter().map(|number| silo(*number)).collect();
    let hosting = active.iter().copied().chain(stopping.iter().map(|number| silo(*number))).collect();
    Arc::new(DirectoryView { version, active, hosting })
}

/// A grain whose entry this silo owns in that view.
fn grain_owned_by(owner: u16, view: &DirectoryView) -> u32 {
    (0..).find(|key| view.ring().owner_of(&grain(*key)) == Some(silo(owner))).unwrap()
}

impl Cluster {
    /// Machines 1 to `count`, without a view.
    fn new(count: u16) -> Self {
        Self::with(count, &DirectoryConfig::default())
    }

    fn with(count: u16, config: &DirectoryConfig) -> Self {
        let machines = (1..=count).map(|n| (silo(n), Directory::new(silo(n), config.clone()))).collect();
        Self {
            now: Time(1),
            machines,
            wire: VecDeque::new(),
            outcomes: BTreeMap::new(),
            deactivated: Vec::new(),
            refreshes: Vec::new(),
            last_op: 0,
        }
    }

    /// Machines 1 to `count`, all Active and settled in view 1.
    fn settled(count: u16) -> (Self, Arc<DirectoryView>) {
        let mut cluster = Self::new(count);
        let first = view(1, &(1..=count).collect::<Vec<_>>(), &[]);
        cluster.install_everywhere(&first);
        (cluster, first)
    }

    fn handle(&mut self, at: u16, event: Event) {
        let me = silo(at);
        let mut out = Vec::new();
        if let Some(machine) = self.machines.get_mut(&me) {
            machine.handle(self.now, event, &mut out);
        }
        for command in out {
            match command {
                Command::Send { to, message } => self.wire.push_back((me, to, message)),
                Command::Complete { op, outcome } => {
                    assert!(self.outcomes.insert(op, outcome).is_none(), "{op:?} completed twice");
                }
                Command::Deactivate { activation, .. } => self.deactivated.push((me, activation)),
                Command::RefreshMembership { version } => self.refreshes.push((me, version)),
                Command::WakeAt(_) => {}
            }
        }
    }

    fn deliver(&mut self, (from, to, message): (SiloAddress, SiloAddress, DirectoryMessage)) {
        self.handle(to.port - 11_110, Event::Message { from, message });
    }

    fn pump(&mut self) {
        for _ in 0..100_000 {
            let Some(next) = self.wire.pop_front() else { return };
            self.deliver(next);
        }
        panic!("the machines never come to rest");
    }

    fn install(&mut self, at: u16, view: &Arc<DirectoryView>) {
        self.handle(at, Event::View(Arc::clone(view)));
    }

    fn install_everywhere(&mut self, view: &Arc<DirectoryView>) {
        let silos: Vec<u16> = self.machines.keys().map(|silo| silo.port - 11_110).collect();
        for at in silos {
            self.install(at, view);
        }
        self.pump();
    }

    fn start(&mut self, at: u16, request: LocalOp) -> OpId {
        self.last_op += 1;
        let op = OpId(self.last_op);
        self.handle(at, Event::Local { op, request });
        op
    }

    /// Starts an operation, lets all messages through, and returns the outcome.
    fn run(&mut self, at: u16, request: LocalOp) -> Outcome {
        let op = self.start(at, request);
        self.pump();
        self.outcomes.remove(&op).expect("the operation did not complete")
    }

    fn register(&mut self, key: u32, activation: u128, at: u16) -> Outcome {
        self.run(at, LocalOp::Register { address: address(key, activation, at), previous: None })
    }

    fn lookup(&mut self, key: u32, at: u16) -> Option<u128> {
        match self.run(at, LocalOp::Lookup { grain: grain(key) }) {
            Outcome::Found(entry) => entry.map(|entry| entry.activation.0),
            other => panic!("{other:?}"),
        }
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
        let silos: Vec<u16> = self.machines.keys().map(|silo| silo.port - 11_110).collect();
        for at in silos {
            self.handle(at, Event::Tick);
        }
        self.pump();
    }
}

fn registered(outcome: &Outcome) -> u128 {
    match outcome {
        Outcome::Registered(address) => address.activation.0,
        other => panic!("{other:?}"),
    }
}

fn existing(outcome: &Outcome) -> u128 {
    match outcome {
        Outcome::Exists(address) => address.activation.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_registration_wins_wherever_it_comes_from() {
    let (mut cluster, _) = Cluster::settled(3);
    for key in 0..30 {
        assert_eq!(registered(&cluster.register(key, 100 + u128::from(key), 1)), 100 + u128::from(key));
        assert_eq!(existing(&cluster.register(key, 200 + u128::from(key), 2)), 100 + u128::from(key));
        assert_eq!(cluster.lookup(key, 3), Some(100 + u128::from(key)));
    }
}

#[test]
fn fences_grow_with_each_registration_and_across_views() {
    let (mut cluster, _) = Cluster::settled(2);
    let mut last = 0;
    for round in 0..6_u16 {
        let at = round % 2 + 1;
        let Outcome::Registered(entry) = cluster.register(7, 10 + u128::from(round), at) else { panic!() };
        assert!(entry.fence > last);
        last = entry.fence;
        cluster.run(at, LocalOp::Unregister { grain: grain(7), activation: entry.activation });
        cluster.install_everywhere(&view(u64::from(round) + 2, &[1, 2], &[]));
        assert_eq!(last >> 32, u64::from(round) + 1);
    }
}

#[test]
fn a_removal_counts_only_for_its_own_activation() {
    let (mut cluster, _) = Cluster::settled(2);
    cluster.register(1, 10, 1);
    cluster.run(2, LocalOp::Unregister { grain: grain(1), activation: ActivationId(11) });
    assert_eq!(cluster.lookup(1, 2), Some(10));
    cluster.run(1, LocalOp::Unregister { grain: grain(1), activation: ActivationId(10) });
    assert_eq!(cluster.lookup(1, 2), None);
}

#[test]
fn a_request_in_an_older_view_changes_nothing() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    let second = view(2, &[1, 2], &[]);
    cluster.install(2, &second);
    let op = cluster.start(1, LocalOp::Register { address: address(key, 10, 1), previous: None });
    cluster.pump();
    assert_eq!(cluster.outcomes.get(&op), None);
    assert_eq!(cluster.machines[&silo(2)].entries().count(), 0);
    assert_eq!(cluster.refreshes, vec![(silo(1), 2)]);

    cluster.install(1, &second);
    cluster.pump();
    assert_eq!(registered(&cluster.outcomes[&op]), 10);
}

#[test]
fn a_request_in_a_newer_view_waits_for_it() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    let second = view(2, &[1, 2], &[]);
    cluster.install(1, &second);
    let op = cluster.start(1, LocalOp::Register { address: address(key, 10, 1), previous: None });
    cluster.pump();
    assert_eq!(cluster.outcomes.get(&op), None);
    assert_eq!(cluster.refreshes, vec![(silo(2), 2)]);
    cluster.install(2, &second);
    cluster.pump();
    assert_eq!(registered(&cluster.outcomes[&op]), 10);
}

#[test]
fn an_owner_serves_nobody_until_all_silos_have_reported() {
    let (mut cluster, _) = Cluster::settled(2);
    let both = view(1, &[1, 2], &[]);
    let joined = view(2, &[1, 2, 3], &[]);
    let key = (0..)
        .find(|key| {
            both.ring().owner_of(&grain(*key)) == Some(silo(1))
                && joined.ring().owner_of(&grain(*key)) == Some(silo(3))
        })
        .unwrap();
    cluster.register(key, 10, 2);
    cluster.machines.insert(silo(3), Directory::new(silo(3), DirectoryConfig::default()));
    cluster.install(1, &joined);
    cluster.install(3, &joined);
    let op = cluster.start(1, LocalOp::Register { address: address(key, 11, 1), previous: None });
    cluster.pump();
    assert_eq!(cluster.outcomes.get(&op), None, "silo 2 has not reported");
    cluster.install(2, &joined);
    cluster.pump();
    assert_eq!(existing(&cluster.outcomes[&op]), 10);
}

#[test]
fn an_answer_from_an_older_view_is_not_believed() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    let op = cluster.start(1, LocalOp::Register { address: address(key, 10, 1), previous: None });
    let request = cluster.wire.pop_front().unwrap();
    cluster.deliver(request);
    let answer = cluster.wire.pop_front().unwrap();
    assert!(matches!(answer.2, DirectoryMessage::Answer { view: 1, .. }));
    cluster.install(1, &view(2, &[1, 2], &[]));
    cluster.deliver(answer);
    assert_eq!(cluster.outcomes.get(&op), None);
    cluster.install(2, &view(2, &[1, 2], &[]));
    cluster.pump();
    assert_eq!(registered(&cluster.outcomes[&op]), 10);
}

#[test]
fn nobody_is_deactivated_because_silos_come_or_leave() {
    let (mut cluster, _) = Cluster::settled(3);
    for key in 0..60 {
        cluster.register(key, u128::from(key) + 1, u16::try_from(key % 3).unwrap() + 1);
    }
    cluster.machines.insert(silo(4), Directory::new(silo(4), DirectoryConfig::default()));
    for next in [view(2, &[1, 2, 3, 4], &[]), view(3, &[2, 3, 4], &[1]), view(4, &[3, 4], &[1, 2])] {
        cluster.install_everywhere(&next);
        for key in 0..60 {
            assert_eq!(cluster.lookup(key, 4), Some(u128::from(key) + 1));
        }
    }
    assert_eq!(cluster.deactivated, vec![]);
}

#[test]
fn after_a_death_survivors_keep_their_activations_and_the_dead_ones_are_gone() {
    let (mut cluster, _) = Cluster::settled(3);
    for key in 0..60 {
        cluster.register(key, u128::from(key) + 1, u16::try_from(key % 3).unwrap() + 1);
    }
    cluster.machines.remove(&silo(2));
    cluster.install_everywhere(&view(2, &[1, 3], &[]));
    for key in 0..60 {
        let expected = (key % 3 != 1).then_some(u128::from(key) + 1);
        assert_eq!(cluster.lookup(key, 1), expected);
        if expected.is_none() {
            assert_eq!(registered(&cluster.register(key, 1_000, 1)), 1_000);
        }
    }
    assert_eq!(cluster.deactivated, vec![]);
}

#[test]
fn a_lone_silo_that_shuts_down_still_finds_its_grains() {
    let (mut cluster, _) = Cluster::settled(1);
    cluster.register(1, 10, 1);
    cluster.install_everywhere(&view(2, &[], &[1]));
    assert_eq!(cluster.lookup(1, 1), Some(10));
    assert_eq!(registered(&cluster.register(2, 20, 1)), 20);
}

#[test]
fn a_stale_entry_of_the_own_silo_locks_nobody_out() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    cluster.register(key, 10, 1);
    // As if the removal had been lost for good.
    cluster.machines.get_mut(&silo(1)).unwrap().local = local::Local::default();
    assert_eq!(registered(&cluster.register(key, 11, 1)), 11);
    assert_eq!(cluster.lookup(key, 2), Some(11));
}

#[test]
fn a_lookup_never_names_an_activation_of_the_own_silo_that_is_gone() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    cluster.register(key, 10, 1);
    let fresh = Directory::new(silo(1), DirectoryConfig::default());
    cluster.machines.insert(silo(1), fresh);
    cluster.install(1, &first);
    cluster.pump();
    assert_eq!(cluster.lookup(key, 1), None);
    assert_eq!(cluster.lookup(key, 2), None, "the stale entry was removed");
}

#[test]
fn a_late_copy_of_a_registration_revives_nothing() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    cluster.start(1, LocalOp::Register { address: address(key, 10, 1), previous: None });
    let copy = cluster.wire.front().cloned().unwrap();
    cluster.pump();
    cluster.run(1, LocalOp::Unregister { grain: grain(key), activation: ActivationId(10) });
    cluster.deliver(copy);
    cluster.pump();
    assert_eq!(cluster.lookup(key, 2), None);
}

#[test]
fn a_late_copy_of_a_registration_that_lost_does_not_win_later() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    cluster.register(key, 10, 2);
    let op = cluster.start(1, LocalOp::Register { address: address(key, 11, 1), previous: None });
    let copy = cluster.wire.front().cloned().unwrap();
    cluster.pump();
    assert_eq!(existing(&cluster.outcomes[&op]), 10);
    cluster.run(2, LocalOp::Unregister { grain: grain(key), activation: ActivationId(10) });
    cluster.deliver(copy);
    cluster.pump();
    assert_eq!(cluster.lookup(key, 2), None);
    assert_eq!(registered(&cluster.register(key, 12, 1)), 12);
}

#[test]
fn a_cancelled_registration_is_undone() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    let op = cluster.start(1, LocalOp::Register { address: address(key, 10, 1), previous: None });
    let request = cluster.wire.pop_front().unwrap();
    cluster.deliver(request);
    cluster.handle(1, Event::Cancel(op));
    cluster.pump();
    assert_eq!(cluster.outcomes.get(&op), None);
    assert_eq!(cluster.lookup(key, 2), None);
}

#[test]
fn a_cancellation_that_crosses_with_the_completion_undoes_the_registration() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    let op = cluster.start(1, LocalOp::Register { address: address(key, 10, 1), previous: None });
    cluster.pump();
    assert_eq!(registered(&cluster.outcomes[&op]), 10);
    cluster.handle(1, Event::Cancel(op));
    cluster.pump();
    assert_eq!(cluster.lookup(key, 2), None);
    assert_eq!(cluster.machines[&silo(1)].activations().count(), 0);
}

#[test]
fn lost_messages_are_sent_again() {
    let mut cluster = Cluster::new(2);
    let first = view(1, &[1, 2], &[]);
    let key = grain_owned_by(2, &first);
    cluster.install(1, &first);
    cluster.install(2, &first);
    cluster.wire.clear();
    let op = cluster.start(1, LocalOp::Register { address: address(key, 10, 1), previous: None });
    cluster.wire.clear();
    cluster.wait(1);
    assert_eq!(registered(&cluster.outcomes[&op]), 10);
}

#[test]
fn reports_longer_than_a_page_arrive_whole() {
    let config = DirectoryConfig { report_page_max: 3, ..DirectoryConfig::default() };
    let mut cluster = Cluster::with(3, &config);
    cluster.install_everywhere(&view(1, &[1, 2, 3], &[]));
    for key in 0..100 {
        cluster.register(key, u128::from(key) + 1, 1);
    }
    cluster.install_everywhere(&view(2, &[1, 2], &[]));
    assert_eq!(cluster.machines.values().take(2).map(|m| m.entries().count()).sum::<usize>(), 100);
}

#[test]
fn a_view_without_change_of_silos_keeps_the_entries() {
    let (mut cluster, first) = Cluster::settled(2);
    let key = grain_owned_by(2, &first);
    cluster.register(key, 10, 1);
    cluster.install(2, &view(5, &[1, 2], &[]));
    assert!(cluster.machines[&silo(2)].is_settled());
    assert_eq!(cluster.machines[&silo(2)].entries().count(), 1);
}

#[test]
fn an_owner_that_skipped_a_view_does_not_hold_up_the_others() {
    let (mut cluster, _) = Cluster::settled(2);
    for key in 0..30 {
        cluster.register(key, u128::from(key) + 1, 1);
    }
    // Silo 3 comes and goes; silo 1 never sees it.
    cluster.install(2, &view(2, &[1, 2, 3], &[]));
    cluster.pump();
    cluster.install_everywhere(&view(3, &[1, 2], &[]));
    for key in 0..30 {
        assert_eq!(cluster.lookup(key, 2), Some(u128::from(key) + 1));
    }
}

#[test]
fn operations_beyond_the_bound_are_refused() {
    let config = DirectoryConfig { operations_max: 1, ..DirectoryConfig::default() };
    let mut cluster = Cluster::with(1, &config);
    cluster.start(1, LocalOp::Lookup { grain: grain(1) });
    let second = cluster.start(1, LocalOp::Lookup { grain: grain(1) });
    assert_eq!(cluster.outcomes[&second], Outcome::Refused(Refusal::Overloaded));
}

#[test]
fn an_address_of_another_silo_cannot_be_registered() {
    let (mut cluster, _) = Cluster::settled(2);
    let outcome = cluster.run(1, LocalOp::Register { address: address(1, 10, 2), previous: None });
    assert_eq!(outcome, Outcome::Refused(Refusal::WrongSilo));
}

#[test]
fn the_next_tick_is_asked_for_and_stops_when_nothing_is_open() {
    let mut machine = Directory::new(silo(1), DirectoryConfig::default());
    let mut out = Vec::new();
    machine.handle(Time(0), Event::View(view(1, &[1, 2], &[])), &mut out);
    assert!(out.contains(&Command::WakeAt(Time(200_000))));
    out.clear();
    let report = DirectoryMessage::Report { view: 1, after: None, entries: vec![], more: false };
    machine.handle(Time(1), Event::Message { from: silo(2), message: report }, &mut out);
    machine.handle(Time(200_000), Event::Tick, &mut out);
    assert_eq!(out, vec![]);
}
