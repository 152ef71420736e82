//! The silo's monotonic time, as the machines are told it.

use std::time::Duration;

use granary_core::id::Time;
use rustix::time::{ClockId, clock_gettime};

/// Time since the host's boot, suspended time included: a silo that was asleep must see that time went by.
#[must_use]
pub(crate) fn now() -> Time {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let micros = u64::try_from(now.tv_nsec / 1_000).unwrap_or(0);
    Time(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

/// How long it is until `time`; zero when it has passed.
#[must_use]
pub(crate) fn until(time: Time) -> Duration {
    time.since(now())
}
