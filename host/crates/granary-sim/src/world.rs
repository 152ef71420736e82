//! The world: one queue of things to come, one time, and all processes in one thread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use granary_core::directory;
use granary_core::id::{GrainId, SiloAddress};
use granary_core::membership::table::{MembershipRow, SiloStatus};
use granary_core::membership::{self, DeathProof, StoreReply, StoreRequest};

use crate::faults::{MS, Plan, SECOND};
use crate::grains::Names;
use crate::invariants::Checks;
use crate::net::{Net, Packet, Wire};
use crate::rng::{Rng, mix};
use crate::silo::{Effect, Life, Machine, Silo, Timer};
use crate::store::{Store, Way};
use crate::workload::Work;
use crate::{Failure, Mutant, Report};

/// The port of the first place; others follow.
const FIRST_PORT: u16 = 11_111;
/// After the faults have stopped, everything must be well within this time.
const RECOVERY_MAX: u64 = 30 * SECOND;
/// How often the calm world is looked at.
const LOOK_EVERY: u64 = 250 * MS;
/// Lines of the log that a failure shows.
const LOG_LINES: usize = 3_000;
/// A place where processes of one silo run, one after the other.
#[derive(Debug)]
pub(crate) struct Place {
    generation: i32,
    pub(crate) process: Option<Silo>,
    pub(crate) paused_until: u64,
}

/// Something to come.
#[derive(Debug, Clone)]
pub(crate) enum Scheduled {
    Deliver(Packet),
    Start(usize),
    Work(Work),
    /// Something for one process; void when it is gone.
    For {
        silo: SiloAddress,
        what: Due,
    },
}

/// Something to come for a process.
#[derive(Debug, Clone)]
pub(crate) enum Due {
    Refused(SiloAddress),
    StoreApplied { op: u64, request: Box<StoreRequest>, way: Way },
    StoreAnswered { op: u64, reply: StoreReply },
    Proof { silo: SiloAddress, proof: DeathProof },
    Wake(Machine),
    Timer(Timer),
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    queue: BTreeMap<(u64, u64), Scheduled>,
    sequence: u64,
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) net: Net,
    pub(crate) store: Store,
    pub(crate) places: Vec<Place>,
    names: Arc<Names>,
    mutant: Option<Mutant>,
    pub(crate) checks: Checks,
    /// The faults have stopped.
    pub(crate) calm: bool,
    pub(crate) last_call: u64,
    pub(crate) open_calls: BTreeSet<u64>,
    pub(crate) calls_done: u64,
    steps: u64,
    trace: u64,
    log: Option<VecDeque<String>>,
}

impl World {
    pub(crate) fn new(seed: u64, mutant: Option<Mutant>, with_log: bool) -> Result<Self, Failure> {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(&mut rng);
        let names = Names::new(plan.grains).map_err(|error| Failure::new(seed, 0, error.to_string()))?;
        let place = || Place { generation: 0, process: None, paused_until: 0 };
        let mut world = Self {
            now: 1,
            queue: BTreeMap::new(),
            sequence: 0,
            places: (0..plan.silos).map(|_| place()).collect(),
            plan,
            rng,
            net: Net::default(),
            store: Store::default(),
            names: Arc::new(names),
            mutant,
            checks: Checks::default(),
            calm: false,
            last_call: 0,
            open_calls: BTreeSet::new(),
            calls_done: 0,
            steps: 0,
            trace: seed,
            log: with_log.then(VecDeque::new),
        };
        for place in 0..world.places.len() {
            let at = world.now + world.rng.below(world.plan.start_spread);
            world.schedule(at, Scheduled::Start(place));
        }
        world.begin_work();
        Ok(world)
    }

    pub(crate) fn schedule(&mut self, at: u64, what: Scheduled) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), what);
    }

    /// Runs until everything is well after the faults, or a promise is broken.
    pub(crate) fn run(mut self, seed: u64) -> Result<Report, Failure> {
        let calm_at = self.plan.calm_at;
        self.run_until(calm_at);
        self.calm_down();
        let mut asked = false;
        loop {
            if let Some(broken) = self.checks.broken.take() {
                return Err(self.failure(seed, broken));
            }
            // An entry of a migration target that has ended may be left; it goes with the next call to its grain. So
            // the directories are compared only after calls to all grains.
            match self.complaint().or_else(|| if asked { self.audit() } else { None }) {
                None if asked => return Ok(self.report()),
                None => {
                    asked = true;
                    self.call_everything();
                }
                Some(complaint) if self.now >= calm_at + RECOVERY_MAX => {
                    return Err(self.failure(seed, format!("not well in time: {complaint}")));
                }
                Some(_) => {}
            }
            self.run_until(self.now + LOOK_EVERY);
        }
    }

    fn failure(&mut self, seed: u64, what: String) -> Failure {
        let log = self.log.take().map(Vec::from).unwrap_or_default();
        Failure { log, ..Failure::new(seed, self.now, what) }
    }

    fn report(&self) -> Report {
        Report {
            trace: mix(self.trace ^ self.steps),
            steps: self.steps,
            seconds: self.now / SECOND,
            calls: self.last_call,
            calls_done: self.calls_done,
            turns: self.checks.turns,
            moves: self.checks.moves,
            evictions: self.checks.evictions,
            deaths: self.checks.deaths,
            overlaps: self.checks.overlaps,
        }
    }

    fn run_until(&mut self, until: u64) {
        while self.checks.broken.is_none() {
            match self.queue.first_entry() {
                Some(entry) if entry.key().0 <= until => {
                    let ((at, _), what) = entry.remove_entry();
                    self.now = at;
                    self.step(what);
                }
                _ => {
                    self.now = until;
                    return;
                }
            }
        }
    }

    fn step(&mut self, what: Scheduled) {
        self.steps += 1;
        self.trace = mix(self.trace ^ self.now).wrapping_add(self.store.version());
        if let Some(log) = &mut self.log {
            if log.len() >= LOG_LINES {
                log.pop_front();
            }
            log.push_back(format!("{:>12} {what:?}", self.now));
        }
        match what {
            Scheduled::Deliver(packet) => self.deliver(packet),
            Scheduled::Start(place) => self.start(place),
            Scheduled::Work(work) => self.work(work),
            Scheduled::For { silo, what } => self.due(silo, what),
        }
    }

    /// The process of that incarnation, if it runs.
    fn place_of(&self, silo: SiloAddress) -> Option<usize> {
        let place = usize::from(silo.port.checked_sub(FIRST_PORT)?);
        let process = self.places.get(place)?.process.as_ref()?;
        (process.address == silo).then_some(place)
    }

    /// Puts something off while the process is paused; false when it is not.
    fn postponed(&mut self, place: usize, what: &Scheduled) -> bool {
        let until = self.places.get(place).map_or(0, |place| place.paused_until);
        let paused = until > self.now;
        if paused {
            self.schedule(until, what.clone());
        }
        paused
    }

    fn deliver(&mut self, packet: Packet) {
        let Some(place) = self.place_of(packet.to) else {
            if self.plan.refusals && !self.calm {
                let what = Due::Refused(packet.to);
                self.schedule(self.now + MS, Scheduled::For { silo: packet.from, what });
            }
            return;
        };
        let what = Scheduled::Deliver(packet);
        if !self.postponed(place, &what)
            && let Scheduled::Deliver(packet) = what
        {
            self.with_silo(place, |silo, now, fx| silo.deliver(now, packet, fx));
        }
    }

    fn due(&mut self, address: SiloAddress, what: Due) {
        if let Due::StoreApplied { op, request, way } = what {
            return self.store_applied(address, op, &request, way);
        }
        let Some(place) = self.place_of(address) else { return };
        let what = Scheduled::For { silo: address, what };
        if self.postponed(place, &what) {
            return;
        }
        let Scheduled::For { what, .. } = what else { return };
        self.with_silo(place, |silo, now, fx| match what {
            Due::Refused(peer) => silo.membership(now, membership::Event::PeerUnreachable(peer), fx),
            Due::StoreAnswered { op, reply } => {
                silo.membership(now, membership::Event::Store { op, reply }, fx);
            }
            Due::Proof { silo: dead, proof } => {
                silo.membership(now, membership::Event::DeathProof { silo: dead, proof }, fx);
            }
            Due::Timer(timer) => silo.timer(now, timer, fx),
            Due::Wake(machine) => silo.wake(now, machine, fx),
            Due::StoreApplied { .. } => {}
        });
    }

    /// An operation reaches the store, whether or not its process still lives.
    fn store_applied(&mut self, by: SiloAddress, op: u64, request: &StoreRequest, way: Way) {
        let before = match request {
            StoreRequest::Update { row, .. } => self.store.row(row.address).map(|row| row.status),
            _ => None,
        };
        let reply = self.store.apply(self.now, request, way.fate);
        if let StoreRequest::Update { row, .. } = request
            && before.is_some_and(|before| before < row.status)
            && self.store.row(row.address).is_some_and(|now| now.status == row.status)
        {
            self.check_status(by, row, before);
        }
        if let Some(reply) = reply {
            let what = Due::StoreAnswered { op, reply };
            self.schedule(way.answered_at, Scheduled::For { silo: by, what });
        }
    }

    /// Was a silo allowed to give this row its new status?
    fn check_status(&mut self, by: SiloAddress, row: &MembershipRow, before: Option<SiloStatus>) {
        let silo = row.address;
        if row.status == SiloStatus::Active {
            let active: Vec<_> = self.store.active().filter(|other| *other != silo).collect();
            for other in active {
                let process = self.place_of(other).and_then(|at| self.places.get(at)?.process.as_ref());
                if process.is_some_and(|process| process.view.status(silo).is_none()) {
                    self.checks.fail(|| format!("{silo} became Active, but {other} has not seen it join"));
                }
            }
        } else if row.status == SiloStatus::Dead && silo != by && self.place_of(silo).is_some() {
            let victim = (before == Some(SiloStatus::Active)).then_some(silo);
            let active: BTreeSet<_> = self.store.active().chain(victim).collect();
            let voters: BTreeSet<_> = row.votes.iter().map(|vote| vote.voter).chain([by]).collect();
            let votes = voters.intersection(&active).count();
            let silent = self.store.was_silent(self.now, silo);
            self.checks.declared_dead(silo, votes, active.len(), silent);
        }
    }

    fn start(&mut self, index: usize) {
        let Some(place) = self.places.get_mut(index) else { return };
        if place.process.is_some() {
            return;
        }
        place.generation += 1;
        place.paused_until = 0;
        let port = FIRST_PORT + u16::try_from(index).unwrap_or(0);
        let ip = std::net::IpAddr::from([127, 0, 0, 1]);
        let address = SiloAddress { ip, port, generation: place.generation };
        let silo = Silo::new(self.now, address, &self.plan, &self.names, self.mutant, &mut self.rng);
        place.process = Some(silo);
        self.with_silo(index, |silo, now, fx| silo.membership(now, membership::Event::Start, fx));
    }

    /// Ends a process at once; another one starts in its place some time later.
    pub(crate) fn stop(&mut self, index: usize) {
        let Some(silo) = self.places.get_mut(index).and_then(|place| place.process.take()) else { return };
        for (_, activation) in silo.activations.keys() {
            self.checks.ended(*activation);
        }
        for call in silo.calls.keys() {
            self.open_calls.remove(call);
        }
        let at = self.now + self.rng.between(100 * MS, 2 * SECOND);
        self.schedule(at, Scheduled::Start(index));
    }

    /// Lets a process do something, and carries out what it wants.
    pub(crate) fn with_silo(&mut self, index: usize, act: impl FnOnce(&mut Silo, u64, &mut Vec<Effect>)) {
        let mut fx = Vec::new();
        let Some(silo) = self.places.get_mut(index).and_then(|place| place.process.as_mut()) else { return };
        let address = silo.address;
        act(silo, self.now, &mut fx);
        self.trace = mix(self.trace ^ silo.directory.version()).wrapping_add(fx.len() as u64);
        for effect in fx {
            self.carry_out(index, address, effect);
        }
    }

    fn carry_out(&mut self, place: usize, by: SiloAddress, effect: Effect) {
        match effect {
            Effect::Send { to, wire } => self.send(place, by, to, wire),
            Effect::Store { op, request } => {
                let way = self.store.way(self.now, &request, &self.plan, &mut self.rng);
                let what = Due::StoreApplied { op, request: Box::new(request), way };
                self.schedule(way.applied_at, Scheduled::For { silo: by, what });
            }
            Effect::Prove(row) => {
                let free = self.place_of(row.address).is_none();
                let proof = if free && self.plan.proofs { DeathProof::Proved } else { DeathProof::Unknown };
                let what = Due::Proof { silo: row.address, proof };
                self.schedule(self.now + MS, Scheduled::For { silo: by, what });
            }
            Effect::Wake { machine, at } => {
                let Some(silo) = self.places.get_mut(place).and_then(|place| place.process.as_mut()) else {
                    return;
                };
                let at = silo.world(at).max(self.now);
                silo.set_wake(machine, at);
                self.schedule(at, Scheduled::For { silo: by, what: Due::Wake(machine) });
            }
            Effect::Timer { after, timer } => {
                let what = Due::Timer(timer);
                self.schedule(self.now + after, Scheduled::For { silo: by, what });
            }
            Effect::Fact(fact) => self.fact(place, by, fact),
            Effect::Exit => self.stop(place),
        }
    }

    fn send(&mut self, from_place: usize, from: SiloAddress, to: SiloAddress, wire: Wire) {
        let Some(to_place) = to.port.checked_sub(FIRST_PORT).map(usize::from) else { return };
        let link = (from_place, to_place);
        let arrivals = self.net.arrivals(self.now, link, &self.plan, &mut self.rng);
        for at in arrivals {
            self.schedule(at, Scheduled::Deliver(Packet { from, to, wire: wire.clone() }));
        }
    }

    fn calm_down(&mut self) {
        self.calm = true;
        self.net.heal();
        self.store.heal();
        self.open_calls.clear();
    }

    fn call_everything(&mut self) {
        for place in 0..self.places.len() {
            for grain in 0..self.plan.grains {
                self.call(place, grain);
            }
        }
    }

    /// What is not yet well in the calm world, if anything.
    fn complaint(&self) -> Option<String> {
        let mut silos = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            match &place.process {
                Some(silo) if silo.life == Life::Active => silos.push(silo),
                Some(silo) => return Some(format!("{} is {:?}", silo.address, silo.life)),
                None => return Some(format!("place {index} has no process")),
            }
        }
        for silo in &silos {
            let version = self.store.version();
            if silo.view.version != version || silo.directory.version() != version {
                return Some(format!("{} has view {} of {version}", silo.address, silo.view.version));
            }
            if let Some(other) = silos.iter().find(|other| !silo.view.is_active(other.address)) {
                return Some(format!("{} does not see {} as Active", silo.address, other.address));
            }
            if !silo.directory.is_settled() {
                return Some(format!("the directory of {} waits for reports", silo.address));
            }
            if !silo.operations.is_empty() {
                return Some(format!("{} waits for {:?}", silo.address, silo.operations));
            }
            if let Some(((grain, id), _)) = silo.activations.iter().find(|(_, it)| !it.is_running()) {
                return Some(format!("grain {grain}: {id} on {} does not run", silo.address));
            }
        }
        if let Some((voter, silo)) = self.store.open_vote() {
            return Some(format!("the vote of {voter} against {silo} is still there"));
        }
        if !self.open_calls.is_empty() {
            return Some(format!("calls {:?} are open", self.open_calls));
        }
        None
    }

    /// Compares the directories with what really runs.
    fn audit(&self) -> Option<String> {
        let silos: Vec<_> = self.places.iter().filter_map(|place| place.process.as_ref()).collect();
        audit(&silos, &self.names)
    }
}

fn audit(silos: &[&Silo], names: &Names) -> Option<String> {
    let mut real: BTreeMap<GrainId, (SiloAddress, granary_core::id::ActivationId)> = BTreeMap::new();
    for silo in silos {
        for (grain, id) in silo.running() {
            if real.insert(names.get(grain), (silo.address, id)).is_some() {
                return Some(format!("grain {grain} runs twice"));
            }
        }
        let known: BTreeSet<_> = silo.directory.activations().map(|it| it.address.activation).collect();
        let own: BTreeSet<_> = silo.running().into_iter().map(|(_, id)| id).collect();
        if known != own {
            return Some(format!("{} runs {own:?}, its directory thinks {known:?}", silo.address));
        }
    }
    let mut entries = BTreeMap::new();
    for silo in silos {
        for entry in silo.directory.entries() {
            let directory::GrainAddress { grain, silo: at, activation, .. } = entry.clone();
            if silo.directory.owner_of(&grain) != Some(silo.address) {
                return Some(format!("{} keeps an entry of {grain}, which it does not own", silo.address));
            }
            entries.insert(grain, (at, activation));
        }
    }
    (entries != real).then(|| format!("the directory has {entries:?}, there is {real:?}"))
}
