//! Progress lines: what is being done, and how long it took.
//!
//! Everything goes to standard error, one plain line each, so that logs of CI and terminals show the same.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Prints one progress line.
pub(crate) fn line(text: impl fmt::Display) {
    eprintln!("[xtask] {text}");
}

/// Runs one step, and says that it began, how it ended and how long it took.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    line(format_args!("{name} ..."));
    let started = Instant::now();
    let result = work();
    let ending = if result.is_ok() { "done in" } else { "FAILED after" };
    line(format_args!("{name}: {ending} {}", seconds(started.elapsed())));
    result
}

/// A duration for people: tenths of a second below a minute, else minutes and seconds.
pub(crate) fn seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(60) {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", duration.as_secs() / 60, duration.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_durations_show_tenths_and_long_ones_minutes() {
        assert_eq!(seconds(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(seconds(Duration::from_millis(59_900)), "59.9 s");
        assert_eq!(seconds(Duration::from_secs(60)), "1 min 00 s");
        assert_eq!(seconds(Duration::from_secs(605)), "10 min 05 s");
    }
}
