//! Keeps a flood of bad connections from becoming a flood of log lines.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Admits `burst` lines at once and then one for each `interval`, and counts what it held back.
#[derive(Debug)]
pub(crate) struct LogLimit {
    interval: Duration,
    burst: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: u32,
    refilled: Option<Instant>,
    suppressed: u64,
}

impl LogLimit {
    pub(crate) fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst, state: Mutex::new(State { tokens: burst, refilled: None, suppressed: 0 }) }
    }

    /// Whether a line may be written now; if so, how many were held back since the last one.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *state.refilled.get_or_insert(now);
        let periods = now.saturating_duration_since(since).as_millis() / self.interval.as_millis().max(1);
        if periods > 0 {
            let added = u32::try_from(periods).unwrap_or(u32::MAX);
            state.tokens = state.tokens.saturating_add(added).min(self.burst);
            state.refilled = Some(now);
        }
        if state.tokens == 0 {
            state.suppressed += 1;
            return None;
        }
        state.tokens -= 1;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gives_a_few_lines_and_the_count_of_the_rest() {
        let limit = LogLimit::new(Duration::from_secs(1), 2);
        let start = Instant::now();
        let lines: Vec<_> = (0..100).filter_map(|_| limit.admit(start)).collect();
        assert_eq!(lines, [0, 0]);
        assert_eq!(limit.admit(start + Duration::from_secs(1)), Some(98));
        assert_eq!(limit.admit(start + Duration::from_secs(1)), None);
    }
}
