//! Bounds and times of the grains on a silo.

use std::time::Duration;

use granary_core::id::SiloAddress;

/// After how many tasks a tokio runtime that runs grains looks at I/O and timers: a grain that computes for long then
/// delays others by a tick or two of the epoch, and not by tokio's 61. With 1, hardly two frames would share a write.
pub const EVENT_INTERVAL: u32 = 2;

/// After how many tasks it looks at its global queue, where wake-ups from outside wait.
pub const GLOBAL_QUEUE_INTERVAL: u32 = 1;

/// How often a call is passed on by silos that do not have the activation (spec B4.7).
pub const FORWARDS_MAX: u8 = 2;

/// How often the caller's silo tries to deliver a call. With the pauses below this takes about 14 s, more than a
/// silo's death takes to be noticed.
pub(crate) const DELIVERY_ATTEMPTS_MAX: u32 = 64;

/// Pause before the second repeated delivery; doubles up to [`DELIVERY_PAUSE_MAX`]. The first has none.
pub(crate) const DELIVERY_PAUSE_MIN: Duration = Duration::from_millis(5);

/// The longest pause between deliveries.
pub(crate) const DELIVERY_PAUSE_MAX: Duration = Duration::from_millis(250);

/// The longest time of a call, whatever its caller asks for.
pub const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// The longest chain of grains that wait for each other.
pub(crate) const CHAIN_MAX: usize = granary_core::deadlock::PATH_MAX;

/// Bytes of arguments and request contexts that wait for one activation. One call always may, however large.
pub(crate) const MAILBOX_BYTES_MAX: usize = 32 << 20;

/// Entries and bytes of a request context (`TurnContext::request_context`).
pub(crate) const REQUEST_CONTEXT_MAX: usize = 32;
pub(crate) const REQUEST_CONTEXT_BYTES_MAX: usize = 8 << 10;

/// What an overloaded activation tells its callers to wait, in milliseconds.
pub(crate) const OVERLOAD_RETRY_AFTER_MS: u32 = 100;

/// The longest that a removal from the directory is waited for.
pub(crate) const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest dehydrated state in bytes.
pub(crate) const MIGRATION_STATE_BYTES_MAX: usize = 16 << 20;

/// How often the source tells a target to run; after that the target asks the directory itself.
pub(crate) const GO_ATTEMPTS_MAX: u32 = 5;

/// The longest wait for the answer to one `Go` or `Abort`.
pub(crate) const GO_TIMEOUT: Duration = Duration::from_secs(2);

/// Given-up migration targets that are remembered; the oldest is forgotten first. A package is late by seconds at
/// most.
pub(crate) const ABORTED_MAX: usize = 4_096;

/// Bounds and times; [`GrainsOptions::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct GrainsOptions {
    /// This silo.
    pub silo: SiloAddress,
    pub silo_name: String,
    /// Seed of activation ids, call ids and random placement. Must be unpredictable and new for each start of a
    /// silo, since activation ids are unique for all time; tests pass a constant.
    pub seed: [u8; 32],
    /// Time of a call that says nothing else; default 30 s.
    pub call_timeout: Duration,
    /// Registration, start code and `activate` together; default 30 s.
    pub activation_timeout: Duration,
    /// `deactivate`; default 30 s.
    pub deactivation_timeout: Duration,
    /// How long an activation that failed to start keeps its grain's id and answers calls with the failure; default
    /// 1 s. Long enough that callers who retry at once do not start it again and again, short enough that a person
    /// who mended the cause need not wait (the spec's 5 s are felt).
    pub failure_hold: Duration,
    /// `dehydrate`, and the restoration at the target, each; default 10 s. Both together are less than the time of a
    /// call, so that a migration which hangs fails no caller.
    pub migration_timeout: Duration,
    /// How often a migration target that hears nothing asks the directory whether it was committed; default 500 ms.
    pub frozen_check: Duration,
    /// How long a migration target waits for the commit before it is dropped; default 60 s.
    pub frozen_age_max: Duration,
    /// Migration targets that are being restored or wait for their commit, at once; default 256.
    pub frozen_max: usize,
    /// How long a turn's start or a reply is held back while the silo is not valid; then `Fenced`. Default 2 s.
    pub fence_hold: Duration,
    /// Entries of the location cache; default 65 536.
    pub location_cache_max: usize,
    /// Turns that run inside each other on one caller's task; deeper calls go through the mailbox (decision C4).
    /// Default 8; with 0 all calls do.
    pub inline_depth_max: u8,
    /// One-way calls on their way, at once; default 10 000.
    pub one_way_max: usize,
    /// Activations that move or end at once while the silo drains; default 16.
    pub drain_parallel: usize,
    /// The longest that one access to persistent state takes; default 10 s.
    pub state_timeout: Duration,
}

impl GrainsOptions {
    /// The defaults for this silo.
    #[must_use]
    pub fn new(silo: SiloAddress, silo_name: &str, seed: [u8; 32]) -> Self {
        Self {
            silo,
            silo_name: silo_name.to_owned(),
            seed,
            call_timeout: Duration::from_secs(30),
            activation_timeout: Duration::from_secs(30),
            deactivation_timeout: Duration::from_secs(30),
            failure_hold: Duration::from_secs(1),
            migration_timeout: Duration::from_secs(10),
            frozen_check: Duration::from_millis(500),
            frozen_age_max: Duration::from_secs(60),
            frozen_max: 256,
            fence_hold: Duration::from_secs(2),
            location_cache_max: 65_536,
            inline_depth_max: 8,
            one_way_max: 10_000,
            drain_parallel: 16,
            state_timeout: Duration::from_secs(10),
        }
    }
}
