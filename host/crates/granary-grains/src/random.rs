//! Random numbers from one seed.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// A cryptographic generator, seeded by the host; shared by all tasks of a silo.
pub(crate) struct Random(Mutex<StdRng>);

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self(Mutex::new(StdRng::from_seed(seed)))
    }

    /// An id.
    pub(crate) fn id(&self) -> u128 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// One of the items; `None` when there is none.
    pub(crate) fn choose<T: Copy>(&self, items: &[T]) -> Option<T> {
        if items.is_empty() {
            return None;
        }
        let index = self.0.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..items.len());
        items.get(index).copied()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}
