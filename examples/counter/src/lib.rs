//! A counter. Its number lives in memory only: it moves along when the grain migrates, and is gone when its silo
//! dies.

use granary_guest::prelude::*;
use serde::{Deserialize, Serialize};

/// Counts.
#[grain(interface = "granary-examples:counter/counter", migration)]
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CounterGrain {
    value: u64,
}

impl contract::Counter for CounterGrain {
    fn increment(&mut self, by: u64) -> u64 {
        self.value = self.value.saturating_add(by);
        self.value
    }

    fn get(&mut self) -> u64 {
        self.value
    }

    fn reset(&mut self) {
        log::info!("reset at {}", self.value);
        self.value = 0;
    }
}

#[cfg(test)]
mod tests {
    use granary_guest::logging::Level;
    use granary_guest::testing::TestContext;

    use super::contract::Counter as _;
    use super::*;

    #[test]
    fn increments_add_up() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<CounterGrain>("alice").unwrap();
        assert_eq!(alice.call(|counter| counter.increment(5)), 5);
        assert_eq!(alice.call(|counter| counter.increment(5)), 10);
        let bob = ctx.activate::<CounterGrain>("bob").unwrap();
        assert_eq!(bob.call(CounterGrain::get), 0);
    }

    #[test]
    fn the_largest_number_is_the_end() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<CounterGrain>("alice").unwrap();
        alice.call(|counter| counter.increment(u64::MAX));
        assert_eq!(alice.call(|counter| counter.increment(1)), u64::MAX);
    }

    #[test]
    fn the_number_survives_a_migration_and_not_a_death() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<CounterGrain>("alice").unwrap();
        alice.call(|counter| counter.increment(7));
        alice.migrate().unwrap();
        assert_eq!(alice.call(CounterGrain::get), 7);
        alice.kill();
        assert_eq!(alice.call(CounterGrain::get), 0);
    }

    #[test]
    fn a_reset_is_logged() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<CounterGrain>("alice").unwrap();
        alice.call(|counter| counter.increment(3));
        alice.call(CounterGrain::reset);
        assert_eq!(alice.call(CounterGrain::get), 0);
        let logs = ctx.logs();
        assert_eq!(logs.len(), 1);
        assert_eq!((logs[0].level, logs[0].message.as_str()), (Level::Info, "reset at 3"));
    }
}
