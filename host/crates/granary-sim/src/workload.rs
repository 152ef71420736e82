//! What is done to the cluster: calls, migrations and deactivations, and the faults of the plan.

use granary_core::id::{ActivationId, SiloAddress};

use crate::faults::{MS, SECOND};
use crate::invariants::Turn;
use crate::silo::{Fact, Life};
use crate::world::{Scheduled, World};

/// Things that happen again and again until the calm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Call,
    Migrate,
    Deactivate,
    Crash,
    Leave,
    Pause,
    Partition,
    StoreDown,
}

const ALL: [Work; 8] = [
    Work::Call,
    Work::Migrate,
    Work::Deactivate,
    Work::Crash,
    Work::Leave,
    Work::Pause,
    Work::Partition,
    Work::StoreDown,
];

impl World {
    /// Schedules the first of everything that the plan has.
    pub(crate) fn begin_work(&mut self) {
        for work in ALL {
            self.schedule_work(work);
        }
    }

    fn schedule_work(&mut self, work: Work) {
        let every = match work {
            Work::Call => self.plan.call_every,
            Work::Migrate => self.plan.migrate_every,
            Work::Deactivate => self.plan.deactivate_every,
            Work::Crash => self.plan.crash_every,
            Work::Leave => self.plan.leave_every,
            Work::Pause => self.plan.pause_every,
            Work::Partition => self.plan.partition_every,
            Work::StoreDown => self.plan.store_down_every,
        };
        if every > 0 {
            let at = self.now + self.rng.between(every / 2, every * 3 / 2);
            self.schedule(at, Scheduled::Work(work));
        }
    }

    pub(crate) fn work(&mut self, work: Work) {
        if self.calm {
            return;
        }
        match work {
            Work::Call => self.random_call(),
            Work::Migrate => {
                if let Some((place, grain, activation)) = self.random_running() {
                    self.with_silo(place, |silo, _, fx| silo.migrate(grain, activation, fx));
                }
            }
            Work::Deactivate => {
                if let Some((place, grain, activation)) = self.random_running() {
                    self.with_silo(place, |silo, now, fx| silo.deactivate(now, grain, activation, fx));
                }
            }
            Work::Crash => {
                let place = self.random_place();
                self.stop(place);
            }
            Work::Leave => {
                let place = self.random_place();
                self.with_silo(place, |silo, now, fx| silo.leave(now, fx));
            }
            Work::Pause => {
                let place = self.random_place();
                let until = self.now + self.rng.between(200 * MS, 7 * SECOND);
                if let Some(place) = self.places.get_mut(place) {
                    place.paused_until = until;
                }
            }
            Work::Partition => self.net.partition(self.now, &self.plan, &mut self.rng),
            Work::StoreDown => self.store.go_down(self.now, &mut self.rng),
        }
        self.schedule_work(work);
    }

    fn random_place(&mut self) -> usize {
        usize::try_from(self.rng.below(self.places.len() as u64)).unwrap_or(0)
    }

    fn random_call(&mut self) {
        let place = self.random_place();
        let grain = u32::try_from(self.rng.below(u64::from(self.plan.grains))).unwrap_or(0);
        self.call(place, grain);
    }

    /// Calls a grain through a silo; false when no process is there.
    pub(crate) fn call(&mut self, place: usize, grain: u32) -> bool {
        if self.places.get(place).is_none_or(|place| place.process.is_none()) {
            return false;
        }
        self.last_call += 1;
        let call = self.last_call;
        self.open_calls.insert(call);
        self.with_silo(place, |silo, now, fx| silo.call(now, call, grain, fx));
        true
    }

    fn random_running(&mut self) -> Option<(usize, u32, ActivationId)> {
        let mut running = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            if let Some(silo) = place.process.as_ref().filter(|silo| silo.life == Life::Active) {
                running.extend(silo.running().into_iter().map(|(grain, id)| (index, grain, id)));
            }
        }
        self.rng.pick(&running)
    }

    /// Takes what a step tells to the checkers.
    pub(crate) fn fact(&mut self, place: usize, silo: SiloAddress, fact: Fact) {
        match fact {
            Fact::View(view) => self.checks.view(silo, &view),
            Fact::Runs { grain, activation, restored_from } => {
                self.checks.runs(activation, restored_from, silo);
                self.check_single(place, silo, grain, activation);
            }
            Fact::Turn { grain, activation, value } => {
                let on_dead_silo = !self.check_single(place, silo, grain, activation);
                let turn = Turn { grain, activation, value, on_dead_silo };
                self.checks.turn(turn, &self.store);
            }
            Fact::Ended(activation) => self.checks.ended(activation),
            Fact::Moved { from, to, host } => self.checks.moved(from, to, host),
            Fact::Forgotten { activation, view } => self.checks.forgotten(activation, self.now, view),
            Fact::Named { activation, asked_at, view } => self.checks.named(activation, asked_at, view),
            Fact::Evicted => self.checks.evictions += 1,
            Fact::CallDone(call) => {
                self.calls_done += u64::from(self.open_calls.remove(&call));
            }
        }
    }

    /// No two silos that the table lets live may run the same grain. Says whether this one may.
    fn check_single(
        &mut self,
        place: usize,
        here: SiloAddress,
        grain: u32,
        activation: ActivationId,
    ) -> bool {
        let dead = self.store.is_dead(here);
        let mut rival = None;
        for (index, other) in self.places.iter().enumerate() {
            let Some(silo) = &other.process else { continue };
            let counts = dead || index == place || !self.store.is_dead(silo.address);
            if counts && silo.running_of(grain).any(|id| id != activation) {
                rival = Some(silo.address);
            }
        }
        match rival {
            Some(_) if dead => self.checks.overlaps += 1,
            Some(rival) => self.checks.fail(|| {
                format!("grain {grain} runs on {here} as {activation} and on {rival} as another one")
            }),
            None => {}
        }
        !dead
    }
}
