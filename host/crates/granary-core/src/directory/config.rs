//! Bounds and paces of a directory machine, and the planted faults of its tests.

use std::time::Duration;

/// Bounds and paces of a machine.
#[derive(Debug, Clone)]
pub struct DirectoryConfig {
    /// First repetition of an unanswered request; doubles up to `request_repeat_max`.
    pub request_repeat_min: Duration,
    pub request_repeat_max: Duration,
    /// First repetition of an unanswered question for a report, or of an eviction; doubles up to `report_repeat_max`.
    pub report_repeat_min: Duration,
    pub report_repeat_max: Duration,
    /// Local operations that may wait at once; more are refused.
    pub operations_max: usize,
    /// Requests of others that an owner keeps during a barrier; more are dropped, and come again.
    pub held_max: usize,
    /// Activations in one message of a report.
    pub report_page_max: usize,
    /// A planted fault, for tests of the tests.
    #[doc(hidden)]
    pub mutant: Option<Mutant>,
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        Self {
            request_repeat_min: Duration::from_millis(500),
            request_repeat_max: Duration::from_secs(2),
            report_repeat_min: Duration::from_millis(200),
            report_repeat_max: Duration::from_secs(2),
            operations_max: 100_000,
            held_max: 10_000,
            report_page_max: 1_000,
            mutant: None,
        }
    }
}

/// Planted faults: the simulator must notice each of them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// An owner serves before it has heard from every silo.
    NoBarrier,
    /// A removal does not look at the activation.
    UnregisterAnyActivation,
    /// An owner serves requests of an older view.
    StaleViewAccepted,
    /// A silo believes an answer that was given in an older view.
    OldAnswerBelieved,
    /// A frozen migration target wins against a live activation.
    FrozenBeatsLive,
    /// An owner keeps its old entries through a change of the silos.
    DeadEntriesKept,
    /// The source of a committed migration goes on reporting its activation.
    MovedSourceKept,
    /// Reports are asked for only once.
    ReportsNotRepeated,
    /// A late copy of a registration revives an activation that ended.
    EndedForgotten,
    /// A move replaces whatever is registered.
    MoveWithoutCompare,
    /// The source of a migration goes on when the target is gone, although the commit may be forgotten.
    DoubtfulSourceResumed,
    /// A migration target is announced without asking the owner.
    TargetNotAnnounced,
}
