//! A seeded simulator that runs the core machines of many silos in one thread.
//!
//! [`run`] takes a seed and plays one schedule: 3 to 5 silos, each with its membership and its directory machine
//! and a model of grains on top, a membership table, a network, and faults in all of them. Some checks hold after
//! each step (`invariants.rs`); and some time after the faults have stopped all silos are Active in one view, all
//! calls succeed and the directories agree with what runs. The same seed is the same schedule, step by step.
//!
//! Deliberately not here: anything of the shell (sockets, files, wasm), which other tests cover.

mod calls;
mod faults;
mod grains;
mod invariants;
mod migrate;
mod net;
mod rng;
mod silo;
mod store;
mod workload;
mod world;

use std::fmt;

use granary_core::{directory, membership};

pub use faults::Plan;
pub use rng::Rng;

/// A planted fault in one of the machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    Membership(membership::Mutant),
    Directory(directory::Mutant),
}

/// What a schedule that kept all promises did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// A hash over all steps.
    pub trace: u64,
    pub steps: u64,
    /// How long the schedule was, in its own time.
    pub seconds: u64,
    pub calls: u64,
    pub calls_done: u64,
    pub turns: u64,
    /// Committed migrations.
    pub moves: u64,
    /// Activations that lost a conflict.
    pub evictions: u64,
    /// Running silos that were declared dead.
    pub deaths: u64,
    /// Turns of a silo that was declared dead but did not know it yet, while the grain ran elsewhere.
    pub overlaps: u64,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    pub seed: u64,
    /// When it was noticed, in microseconds of the schedule.
    pub at: u64,
    pub what: String,
    /// The last steps before; only from [`replay`].
    pub log: Vec<String>,
}

impl Failure {
    fn new(seed: u64, at: u64, what: String) -> Self {
        Self { seed, at, what, log: Vec::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.log {
            writeln!(f, "{line}")?;
        }
        let (seed, seconds) = (self.seed, self.at / faults::SECOND);
        writeln!(f, "seed {seed}, after {seconds} s: {}", self.what)?;
        write!(f, "replay: GRANARY_SIM_SEED={seed} cargo nextest run -p granary-sim --no-capture one_seed")
    }
}

/// Plays the schedule of a seed.
///
/// # Errors
/// The first promise that was broken.
pub fn run(seed: u64, mutant: Option<Mutant>) -> Result<Report, Failure> {
    world::World::new(seed, mutant, false)?.run(seed)
}

/// Plays the schedule of a seed again and keeps a log of its last steps.
///
/// # Errors
/// The first promise that was broken, with the log.
pub fn replay(seed: u64, mutant: Option<Mutant>) -> Result<Report, Failure> {
    world::World::new(seed, mutant, true)?.run(seed)
}
