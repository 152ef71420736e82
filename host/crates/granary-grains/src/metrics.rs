//! Counters of the grains on a silo.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        #[derive(Debug, Default)]
        pub(crate) struct Metrics { $(pub(crate) $name: Counter),+ }

        /// The counters at one moment. They only grow.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct MetricsSnapshot { $($(#[$doc])* pub $name: u64),+ }

        impl Metrics {
            pub(crate) fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot { $($name: self.$name.get()),+ }
            }
        }
    };
}

metrics! {
    /// Activations that became valid.
    activations_started,
    /// Activations that failed to start.
    activations_failed,
    /// Activations that ended, for whatever reason.
    activations_ended,
    /// Activations that found another one registered, or lost to one later.
    activations_duplicate,
    /// Registrations that the directory did not take.
    registrations_failed,
    /// Turns of calls that were started.
    turns,
    /// Turns that ended their activation.
    traps,
    /// Calls from this silo.
    calls,
    /// Calls from this silo that ended with an error of the platform.
    calls_failed,
    /// Repeated deliveries of calls that provably did not start.
    calls_repeated,
    /// Calls that came from other silos.
    calls_inbound,
    /// Calls passed on to another silo.
    calls_forwarded,
    /// Calls whose turn ran on the caller's task.
    calls_inline,
    /// Queued calls whose deadline passed before their turn.
    calls_expired,
    /// Times that calls waited since a reentrant activation ran as many turns as may overlap.
    overlaps_full,
    /// Calls refused because a queue was full.
    calls_overloaded,
    /// Calls answered as a cycle.
    deadlocks,
    /// Searches for cycles of calls that came here or began here.
    probes,
    /// Searches for cycles that were dropped, since too many were under way.
    probes_dropped,
    /// One-way calls that could not be delivered, or failed in the callee.
    one_way_failed,
    /// Turns or replies refused since the silo was not valid.
    fenced,
    /// Activations that moved away.
    migrations_out,
    /// Activations that moved in.
    migrations_in,
    /// Migrations that were given up before the commit.
    migrations_failed,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
