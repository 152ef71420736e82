//! Several machines on one table and a network without faults but crashes: the times that users see.

use std::collections::BTreeMap;

use super::*;

/// How long a message and a store operation take.
const DELAY_MS: u64 = 2;

#[derive(Default)]
struct Cluster {
    now: Time,
    silos: BTreeMap<SiloAddress, Membership>,
    wakes: BTreeMap<SiloAddress, Time>,
    events: BTreeMap<(Time, u64), (SiloAddress, Event)>,
    next_event: u64,
    table: TableSnapshot,
    /// Silos that were asked to stop, and the commands of note of each.
    told: BTreeMap<SiloAddress, Vec<Command>>,
}

impl Cluster {
    fn of(size: u16) -> Self {
        let mut cluster = Self::default();
        for n in 1..=size {
            cluster.start(MembershipConfig::new(identity(silo(n))));
        }
        cluster.run(ms(5000));
        for n in 1..=size {
            assert_eq!(cluster.view(n).active().count(), usize::from(size), "silo {n}");
        }
        cluster
    }

    fn start(&mut self, config: MembershipConfig) {
        let address = config.identity.address;
        self.silos.insert(
            address,
            Membership::new(config, u64::from(address.port) + u64::from(address.ip.is_ipv4())),
        );
        self.event_in(0, address, Event::Start);
    }

    fn view(&self, n: u16) -> &MembershipView {
        self.silos[&silo(n)].view()
    }

    fn crash(&mut self, n: u16) {
        self.silos.remove(&silo(n));
        self.wakes.remove(&silo(n));
    }

    fn event_in(&mut self, millis: u64, to: SiloAddress, event: Event) {
        self.next_event += 1;
        self.events.insert((after(self.now, millis), self.next_event), (to, event));
    }

    fn run(&mut self, until: Time) {
        loop {
            let wake = self.wakes.iter().map(|(silo, at)| (*at, *silo)).min();
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let (silo, event) = match (event, wake) {
                (Some(at), Some((tick, _))) if at <= tick && at <= until => self.pop(),
                (Some(at), None) if at <= until => self.pop(),
                (_, Some((tick, silo))) if tick <= until => {
                    self.now = self.now.max(tick);
                    self.wakes.remove(&silo);
                    (silo, Event::Tick)
                }
                _ => break,
            };
            self.deliver(silo, event);
        }
        self.now = until;
    }

    fn pop(&mut self) -> (SiloAddress, Event) {
        let ((at, _), event) = self.events.pop_first().unwrap();
        self.now = at;
        event
    }

    fn deliver(&mut self, silo: SiloAddress, event: Event) {
        let Some(machine) = self.silos.get_mut(&silo) else { return };
        let mut out = Vec::new();
        machine.handle(self.now, event, &mut out);
        for command in out {
            match command {
                Command::WakeAt(at) => {
                    self.wakes.insert(silo, at);
                }
                Command::Store { op, request } => {
                    let reply = apply(&mut self.table, &request);
                    self.event_in(DELAY_MS, silo, Event::Store { op, reply });
                }
                Command::Send { to, message } => {
                    self.event_in(DELAY_MS, to, Event::Message { from: silo, message });
                }
                other => self.told.entry(silo).or_default().push(other),
            }
        }
    }

    /// Runs until the silo sees `dead` dead, and says after how many milliseconds.
    fn time_of_death(&mut self, seen_by: u16, dead: u16) -> u64 {
        let start = self.now;
        while !self.view(seen_by).is_dead(silo(dead)) {
            assert!(self.now.since(start) < Duration::from_secs(60), "never dead: {:?}", self.table);
            self.run(after(self.now, 10));
        }
        u64::try_from(self.now.since(start).as_millis()).unwrap()
    }
}

#[test]
fn five_silos_that_start_at_once_all_join() {
    let cluster = Cluster::of(5);
    assert!(cluster.silos.values().all(Membership::is_active));
}

#[test]
fn a_crash_among_three_is_decided_by_two_votes_within_2500_ms() {
    let mut cluster = Cluster::of(3);
    cluster.crash(3);
    let took = cluster.time_of_death(1, 3);
    assert!((1000..2500).contains(&took), "{took} ms");
    cluster.run(after(cluster.now, 10));
    assert!(cluster.view(2).is_dead(silo(3)), "gossip tells the other at once");
}

#[test]
fn a_crash_among_two_is_decided_when_the_renewal_has_expired() {
    let mut cluster = Cluster::of(2);
    cluster.crash(2);
    let took = cluster.time_of_death(1, 2);
    assert!((4120..6000).contains(&took), "{took} ms");
}

#[test]
fn two_crashes_among_four_are_decided_when_the_renewals_have_expired() {
    let mut cluster = Cluster::of(4);
    cluster.crash(3);
    cluster.crash(4);
    let took = cluster.time_of_death(1, 3) + cluster.time_of_death(1, 4);
    assert!((4120..7000).contains(&took), "{took} ms");
}

#[test]
fn a_crashed_lone_silo_restarts_at_once_on_its_endpoint() {
    let mut cluster = Cluster::of(1);
    cluster.crash(1);
    let again: SiloAddress = "10.0.0.1:7000@2".parse().unwrap();
    cluster.start(MembershipConfig::new(identity(again)));
    cluster.run(after(cluster.now, 50));
    assert!(cluster.silos[&again].is_active());
}

#[test]
fn a_silo_that_left_is_dead_for_the_others_at_once() {
    let mut cluster = Cluster::of(3);
    cluster.event_in(0, silo(3), Event::Leave);
    cluster.run(after(cluster.now, 50));
    assert_eq!(cluster.view(1).status(silo(3)), Some(SiloStatus::ShuttingDown));
    cluster.event_in(0, silo(3), Event::Finish);
    cluster.run(after(cluster.now, 50));
    assert!(cluster.view(1).is_dead(silo(3)));
    assert_eq!(cluster.told[&silo(3)].last(), Some(&Command::Left { recorded: true }));
    cluster.run(after(cluster.now, 20_000));
    assert_eq!(cluster.view(1).active().count(), 2);
}

#[test]
fn a_quiet_cluster_writes_nothing_and_loses_nobody() {
    let mut cluster = Cluster::of(4);
    let version = cluster.table.version;
    cluster.run(ms(120_000));
    assert_eq!(cluster.table.version, version);
    assert!(cluster.silos.values().all(Membership::is_active));
}
