//! Random worlds of grains that call each other while probes travel: every reported cycle is real at that moment, or
//! was broken already, and no cycle stays.

use std::collections::VecDeque;

use super::*;

const GRAINS: usize = 5;
const SEEDS: u64 = 3_000;

fn grain(n: usize) -> GrainId {
    format!("counter/{n}").parse().unwrap()
}

fn number(grain: &GrainId) -> usize {
    grain.key().parse().unwrap()
}

fn silo() -> SiloAddress {
    "127.0.0.1:1@1".parse().unwrap()
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

#[derive(Debug, Clone)]
struct Call {
    id: u128,
    /// Grains that wait for it, oldest first; empty for a call from outside.
    chain: Vec<usize>,
}

#[derive(Debug, Default)]
struct Grain {
    mailbox: VecDeque<Call>,
    running: Option<Call>,
    waits: Option<Wait>,
}

struct World {
    rng: Rng,
    grains: Vec<Grain>,
    probes: Vec<Probe>,
    breaks: Vec<Break>,
    calls: u128,
    found: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let grains = (0..GRAINS).map(|_| Grain::default()).collect();
        Self { rng: Rng(seed), grains, probes: Vec::new(), breaks: Vec::new(), calls: 0, found: 0 }
    }

    /// Ids are random in the product, so the youngest call is not always the largest here either.
    fn call(&mut self, to: usize, chain: Vec<usize>) -> u128 {
        self.calls += 1;
        let id = (u128::try_from(self.rng.below(1_000)).unwrap() << 64) | self.calls;
        self.grains[to].mailbox.push_back(Call { id, chain });
        id
    }

    fn answer(&mut self, call: &Call) {
        if let Some(caller) = call.chain.last() {
            let waits = self.grains[*caller].waits.take();
            assert_eq!(waits.unwrap().call_id, call.id);
        }
    }

    /// A grain begins a turn, makes a call, or ends its turn; false when it can do nothing.
    fn act(&mut self, n: usize, may_call: bool) -> bool {
        if self.grains[n].running.is_none() {
            self.grains[n].running = self.grains[n].mailbox.pop_front();
            return self.grains[n].running.is_some();
        }
        if self.grains[n].waits.is_some() {
            return false;
        }
        let mut chain = self.grains[n].running.clone().unwrap().chain;
        chain.push(n);
        let to = self.rng.below(GRAINS);
        if may_call && !chain.contains(&to) && self.rng.below(3) > 0 {
            let call_id = self.call(to, chain);
            self.grains[n].waits = Some(Wait { call_id, from: grain(n), to: grain(to) });
        } else {
            let call = self.grains[n].running.take().unwrap();
            self.answer(&call);
        }
        true
    }

    fn phase(&self, wait: &Wait) -> Option<CallPhase> {
        let callee = &self.grains[number(&wait.to)];
        if callee.running.as_ref().is_some_and(|call| call.id == wait.call_id) {
            return Some(CallPhase::Running);
        }
        callee.mailbox.iter().any(|call| call.id == wait.call_id).then_some(CallPhase::Queued)
    }

    fn deliver_probe(&mut self) {
        if self.probes.is_empty() {
            return;
        }
        let probe = self.probes.swap_remove(self.rng.below(self.probes.len()));
        let (phase, callee) = (self.phase(&probe.next), self.grains[number(&probe.next.to)].waits.clone());
        match probe.step(silo(), phase, callee) {
            Step::Stop => {}
            Step::Follow(probe) => self.probes.push(probe),
            Step::Cycle(at, found) => {
                assert_eq!(at, silo());
                let waits =
                    self.grains[number(&found.to)].mailbox.iter().any(|call| call.id == found.call_id);
                if waits {
                    self.check_cycle(&found);
                    self.found += 1;
                }
                self.breaks.push(found);
            }
        }
    }

    fn check_cycle(&self, found: &Break) {
        assert_eq!(found.cycle.first(), found.cycle.last());
        for pair in found.cycle.windows(2) {
            let waits = self.grains[number(&pair[0])].waits.as_ref();
            assert_eq!(waits.map(|wait| &wait.to), Some(&pair[1]), "{pair:?} of {found:?}");
        }
    }

    fn deliver_break(&mut self) {
        if self.breaks.is_empty() {
            return;
        }
        let found = self.breaks.swap_remove(self.rng.below(self.breaks.len()));
        let mailbox = &mut self.grains[number(&found.to)].mailbox;
        if let Some(index) = mailbox.iter().position(|call| call.id == found.call_id) {
            let call = mailbox.remove(index).unwrap();
            self.answer(&call);
        }
    }

    fn probe_from(&mut self, n: usize) {
        let wait = self.grains[n].waits.clone();
        self.probes.extend(wait.map(Probe::new));
    }

    fn run(&mut self) {
        for _ in 0..200 {
            let n = self.rng.below(GRAINS);
            match self.rng.below(8) {
                0 if self.calls < 60 => {
                    self.call(n, Vec::new());
                }
                1 => self.probe_from(n),
                2 | 3 => self.deliver_probe(),
                4 => self.deliver_break(),
                _ => {
                    self.act(n, true);
                }
            }
        }
        // No new calls from here on. Rounds of work, then one probe of each waiting call.
        for _ in 0..200 {
            while (0..GRAINS).filter(|n| self.act(*n, false)).count() > 0 {}
            (0..GRAINS).for_each(|n| self.probe_from(n));
            while !self.probes.is_empty() || !self.breaks.is_empty() {
                self.deliver_probe();
                self.deliver_break();
            }
        }
    }
}

#[test]
fn every_cycle_is_found_and_every_found_cycle_is_real() {
    let mut found = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.run();
        for (n, grain) in world.grains.iter().enumerate() {
            assert!(grain.waits.is_none() && grain.running.is_none(), "seed {seed}: {n} hangs: {grain:?}");
        }
        found += world.found;
    }
    assert!(found > 1_000, "only {found} cycles in {SEEDS} worlds: the test does not test");
}

#[test]
fn finders_of_one_cycle_break_the_same_call() {
    let wait = |call_id, from, to| Wait { call_id, from: grain(from), to: grain(to) };
    let (a, b) = (wait(7, 0, 1), wait(9, 1, 0));
    let mut broken = Vec::new();
    for (first, second) in [(&a, &b), (&b, &a)] {
        let Step::Follow(probe) =
            Probe::new(first.clone()).step(silo(), Some(CallPhase::Queued), Some(second.clone()))
        else {
            panic!("it goes on")
        };
        let Step::Cycle(_, found) = probe.step(silo(), Some(CallPhase::Queued), Some(first.clone())) else {
            panic!("it is a cycle")
        };
        broken.push(found);
    }
    assert_eq!(broken[0], broken[1]);
    assert_eq!(broken[0].call_id, 9);
    assert_eq!(broken[0].cycle, [grain(1), grain(0), grain(1)]);
}

#[test]
fn a_call_that_is_not_there_or_a_callee_that_waits_for_nothing_ends_the_search() {
    let wait = Wait { call_id: 1, from: grain(0), to: grain(1) };
    let next = Wait { call_id: 2, from: grain(1), to: grain(2) };
    let probe = || Probe::new(wait.clone());
    assert_eq!(probe().step(silo(), None, Some(next.clone())), Step::Stop);
    assert_eq!(probe().step(silo(), Some(CallPhase::Queued), None), Step::Stop);
    let mut long = probe();
    let edge = Edge { wait: next.clone(), phase: CallPhase::Running, at: silo() };
    long.path = vec![edge; PATH_MAX];
    assert_eq!(long.step(silo(), Some(CallPhase::Queued), Some(next)), Step::Stop);
}
