//! Random faults: lost, slow and repeated messages, a store that fails, loses answers and reads stale, crashes,
//! deaths by vote, leaves and restarts. Checked at each step, and for each planted fault that the checks bite.

use super::*;
use crate::membership::rng::Rng;

const SILOS: u16 = 4;
/// Faults happen until then; afterwards the cluster must become whole.
const FAULTS_END: Time = Time(40_000_000);
const END: Time = Time(110_000_000);

struct Chaos {
    seed: u64,
    rng: Rng,
    mutant: Option<Mutant>,
    now: Time,
    /// The living processes.
    silos: BTreeMap<SiloAddress, Membership>,
    wakes: BTreeMap<SiloAddress, Time>,
    events: BTreeMap<(Time, u64), (SiloAddress, Event)>,
    next_event: u64,
    generation: i32,
    table: TableSnapshot,
    older: TableSnapshot,
    renewed: BTreeMap<SiloAddress, Time>,
    /// Pairs that cannot talk, while faults last.
    cut: Vec<(u16, u16)>,
}

type Broken = Result<(), String>;

impl Chaos {
    fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut chaos = Self {
            seed,
            rng: Rng::new(seed),
            mutant,
            now: ms(1),
            silos: BTreeMap::new(),
            wakes: BTreeMap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            generation: 0,
            table: TableSnapshot::default(),
            older: TableSnapshot::default(),
            renewed: BTreeMap::new(),
            cut: Vec::new(),
        };
        (1..=SILOS).for_each(|n| chaos.restart(n, 0));
        chaos
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.now < FAULTS_END && self.pick(100) < percent
    }

    fn pick(&mut self, limit: u64) -> u64 {
        u64::try_from(self.rng.below(Duration::from_micros(limit)).as_micros()).unwrap()
    }

    /// Silos 1 and 2 share a host.
    fn restart(&mut self, n: u16, in_ms: u64) {
        self.generation += 1;
        let address: SiloAddress = format!("10.0.0.{n}:7000@{}", self.generation).parse().unwrap();
        let mut config = MembershipConfig::new(identity(address));
        config.mutant = self.mutant;
        if n == 2 {
            config.identity.host_id = identity(silo(1)).host_id;
        }
        let seed = self.seed ^ u64::from(n);
        self.silos.insert(address, Membership::new(config, seed));
        self.event_in(in_ms, address, Event::Start);
    }

    fn event_in(&mut self, millis: u64, to: SiloAddress, event: Event) {
        self.next_event += 1;
        self.events.insert((after(self.now, millis), self.next_event), (to, event));
    }

    fn number(silo: SiloAddress) -> u16 {
        silo.ip.to_string().rsplit('.').next().unwrap().parse().unwrap()
    }

    fn run(&mut self) -> Broken {
        let mut next_fault = ms(8000);
        while self.now < END {
            let wake = self.wakes.iter().map(|(silo, at)| (*at, *silo)).min();
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            if next_fault < FAULTS_END && Some(next_fault) <= event && Some(next_fault) <= wake.map(|it| it.0)
            {
                self.now = next_fault;
                next_fault = after(self.now, 500 + self.pick(6000));
                self.fault();
                continue;
            }
            let (silo, event) = match (event, wake) {
                (Some(at), Some((tick, _))) if at <= tick => self.pop(),
                (Some(_), None) => self.pop(),
                (_, Some((tick, silo))) => {
                    self.now = self.now.max(tick);
                    self.wakes.remove(&silo);
                    (silo, Event::Tick)
                }
                (None, None) => return Err("nothing happens any more".into()),
            };
            self.deliver(silo, event)?;
        }
        self.check_end()
    }

    fn pop(&mut self) -> (SiloAddress, Event) {
        let ((at, _), event) = self.events.pop_first().unwrap();
        self.now = self.now.max(at);
        event
    }

    fn fault(&mut self) {
        let n = u16::try_from(self.pick(u64::from(SILOS))).unwrap() + 1;
        let Some(victim) = self.silos.keys().find(|silo| Self::number(**silo) == n).copied() else { return };
        match self.pick(6) {
            0 => self.crash(victim),
            1 => self.event_in(0, victim, Event::Leave),
            2 => self.event_in(0, victim, Event::Finish),
            3 => self.cut.clear(),
            _ => {
                let other = u16::try_from(self.pick(u64::from(SILOS))).unwrap() + 1;
                self.cut.push((n, other));
            }
        }
    }

    fn crash(&mut self, silo: SiloAddress) {
        self.silos.remove(&silo);
        self.wakes.remove(&silo);
        let pause = 100 + self.pick(9000);
        self.restart(Self::number(silo), pause);
        let others: Vec<SiloAddress> = self.silos.keys().copied().collect();
        for other in others {
            self.event_in(2, other, Event::PeerUnreachable(silo));
        }
    }

    fn deliver(&mut self, silo: SiloAddress, event: Event) -> Broken {
        let Some(machine) = self.silos.get_mut(&silo) else { return Ok(()) };
        let before = machine.view().version;
        let mut out = Vec::new();
        machine.handle(self.now, event, &mut out);
        for command in out {
            match command {
                Command::WakeAt(at) => {
                    self.wakes.insert(silo, at);
                }
                Command::Store { op, request } => self.store(silo, op, &request)?,
                Command::Send { to, message } => self.send(silo, to, &message),
                Command::ProveDeath(row) => {
                    let gone = !self.silos.contains_key(&row.address);
                    let proof = if gone { DeathProof::Proved } else { DeathProof::Unknown };
                    self.event_in(3, silo, Event::DeathProof { silo: row.address, proof });
                }
                Command::ViewChanged(view) if view.version <= before => {
                    return Err(format!("{silo} went back from view {before} to {}", view.version));
                }
                Command::ShuttingDown { .. } => self.event_in(300, silo, Event::Finish),
                Command::JoinFailed(_) | Command::Left { .. } | Command::Fatal(_) => {
                    self.silos.remove(&silo);
                    self.wakes.remove(&silo);
                    self.restart(Self::number(silo), 200);
                    break;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn send(&mut self, from: SiloAddress, to: SiloAddress, message: &MembershipMessage) {
        let ends = (Self::number(from), Self::number(to));
        let cut = self.now < FAULTS_END && self.cut.contains(&ends);
        if cut || self.chance(5) {
            return;
        }
        let slow = if self.chance(5) { self.pick(1200) } else { self.pick(10) };
        let copies = if self.chance(3) { 2 } else { 1 };
        for copy in 0..copies {
            self.event_in(slow + copy * 70, to, Event::Message { from, message: message.clone() });
        }
    }

    fn store(&mut self, silo: SiloAddress, op: u64, request: &StoreRequest) -> Broken {
        let down = || StoreFailure::Unavailable("fault".into());
        let failed = match request {
            StoreRequest::Read => StoreReply::Read(Err(down())),
            StoreRequest::Renew(_) => StoreReply::Renewed(Err(down())),
            StoreRequest::RemoveDead(_) => StoreReply::Removed(Err(down())),
            _ => StoreReply::Written(Err(down())),
        };
        let delay = 1 + self.pick(8);
        if self.chance(2) {
            self.event_in(delay, silo, Event::Store { op, reply: failed });
            return Ok(());
        }
        if *request == StoreRequest::Read && self.chance(3) {
            let reply = StoreReply::Read(Ok(self.older.clone()));
            self.event_in(delay, silo, Event::Store { op, reply });
            return Ok(());
        }
        let before = self.table.clone();
        let reply = apply(&mut self.table, request);
        if let StoreReply::Written(Ok(CasOutcome::Written { .. })) = reply {
            self.check_write(silo, request, &before)?;
            self.older = before;
        }
        if let StoreReply::Renewed(Ok(true)) = reply {
            self.renewed.insert(silo, self.now);
        }
        match self.pick(100) {
            // The answer is lost after the write, loudly or silently.
            0 if self.now < FAULTS_END => self.event_in(delay, silo, Event::Store { op, reply: failed }),
            1 if self.now < FAULTS_END => {}
            _ => self.event_in(delay, silo, Event::Store { op, reply }),
        }
        Ok(())
    }

    /// What a write may change, seen by somebody who knows everything.
    fn check_write(&self, writer: SiloAddress, request: &StoreRequest, before: &TableSnapshot) -> Broken {
        let StoreRequest::Update { row, .. } = request else { return Ok(()) };
        let Some(old) = before.rows.get(&row.address) else { return Err("an update of no row".into()) };
        if row.status < old.status {
            return Err(format!("{} went back from {:?} to {:?}", row.address, old.status, row.status));
        }
        if row.status == SiloStatus::Active && old.status != SiloStatus::Active {
            self.check_join(row.address, before)?;
        }
        if row.status != SiloStatus::Dead || row.address == writer || old.status == SiloStatus::Dead {
            return Ok(());
        }
        let active =
            |silo: &SiloAddress| before.rows.get(silo).is_some_and(|r| r.status == SiloStatus::Active);
        let n = before.rows.keys().filter(|silo| active(silo)).count();
        let votes = row.votes.iter().filter(|vote| active(&vote.voter)).count();
        let lives = self.silos.contains_key(&row.address);
        let since = self.now.since(self.renewed.get(&row.address).copied().unwrap_or_default());
        let expired = since >= Duration::from_secs(4);
        if lives && votes < n / 2 + 1 && !expired {
            return Err(format!(
                "{writer} declared {} dead with {votes} votes of {n}, {since:?} after its renewal",
                row.address
            ));
        }
        if lives && !expired && votes < 2 {
            return Err(format!("{writer} declared {} dead alone", row.address));
        }
        Ok(())
    }

    fn check_join(&self, joiner: SiloAddress, before: &TableSnapshot) -> Broken {
        for (silo, row) in &before.rows {
            let Some(machine) = self.silos.get(silo).filter(|_| row.status == SiloStatus::Active) else {
                continue;
            };
            if machine.view().status(joiner).is_none() {
                return Err(format!("{joiner} became active and {silo} never saw it"));
            }
        }
        Ok(())
    }

    /// All live, all agree, and nobody is accused.
    fn check_end(&self) -> Broken {
        for (silo, machine) in &self.silos {
            if !machine.is_active() {
                return Err(format!("{silo} is not active: {:?}", machine.phase));
            }
            if machine.view().version != self.table.version {
                return Err(format!("{silo} has an old view"));
            }
        }
        for row in self.table.rows.values() {
            let (lives, dead) = (self.silos.contains_key(&row.address), row.status == SiloStatus::Dead);
            if lives == dead {
                return Err(format!("{} lives: {lives}, and its row says {:?}", row.address, row.status));
            }
            if !dead && row.votes.iter().any(|vote| self.silos.contains_key(&vote.voter)) {
                return Err(format!("{} is still accused", row.address));
            }
        }
        Ok(())
    }
}

/// So many seeds are tried; the variable is for long runs.
fn seeds() -> u64 {
    std::env::var("GRANARY_CHAOS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60)
}

#[test]
fn random_faults_break_no_promise_and_the_cluster_becomes_whole_again() {
    for seed in 0..seeds() {
        if let Err(broken) = Chaos::new(seed, None).run() {
            panic!("seed {seed}: {broken}");
        }
    }
}

#[test]
fn every_planted_fault_is_found() {
    let mutants = [
        Mutant::OneVoteKills,
        Mutant::OwnDeathIgnored,
        Mutant::JoinWithoutProbing,
        Mutant::ConflictOverwritten,
        Mutant::OlderViewAccepted,
        Mutant::DeadVotersCount,
        Mutant::UnknownProofBelieved,
        Mutant::VoteNotRetracted,
        Mutant::RenewalNotWatched,
    ];
    for mutant in mutants {
        let found =
            (0..5000).find_map(|seed| Chaos::new(seed, Some(mutant)).run().err().map(|it| (seed, it)));
        assert!(found.is_some(), "{mutant:?} survives");
        println!("{mutant:?}: {found:?}");
    }
}
