//! Random numbers from one seed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// A cryptographic generator, seeded by the host; shared by all tasks of a silo.
pub(crate) struct Random {
    rng: Mutex<StdRng>,
    /// What the ids of this silo's calls begin with.
    calls_of: u64,
    /// Calls that got an id.
    calls: AtomicU64,
}

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let mut rng = StdRng::from_seed(seed);
        let calls_of = rng.random();
        Self { rng: Mutex::new(rng), calls_of, calls: AtomicU64::new(0) }
    }

    /// An id.
    pub(crate) fn id(&self) -> u128 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// The id of a call: random for each start of a silo, counted within it. Each call gets one, so that has to be cheap.
    pub(crate) fn call_id(&self) -> u128 {
        let count = self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        u128::from(self.calls_of) << 64 | u128::from(count)
    }

    /// One of the items; `None` when there is none.
    pub(crate) fn choose<T: Copy>(&self, items: &[T]) -> Option<T> {
        if items.is_empty() {
            return None;
        }
        let index = self.rng.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..items.len());
        items.get(index).copied()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}
