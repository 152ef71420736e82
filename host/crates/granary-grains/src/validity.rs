//! Whether this silo may run turns at present (decision B2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// A silo-wide switch, set by the fencing part of the host; valid at first. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Validity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    valid: AtomicBool,
    /// Woken at each change.
    changed: Notify,
}

impl Default for Validity {
    fn default() -> Self {
        Self(Arc::new(Inner { valid: AtomicBool::new(true), changed: Notify::new() }))
    }
}

impl Validity {
    /// Tells whether the silo may run turns. Activations wait while it may not, and answer `Fenced` when that takes
    /// long.
    pub fn set(&self, valid: bool) {
        self.0.valid.store(valid, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.0.valid.load(Ordering::SeqCst)
    }

    /// Waits until the silo is valid, at most `hold` and until `deadline`; false when it still is not.
    pub(crate) async fn hold(&self, hold: Duration, deadline: Option<Instant>) -> bool {
        if self.is_valid() {
            return true;
        }
        let until = Instant::now() + hold;
        let until = deadline.map_or(until, |deadline| until.min(deadline));
        loop {
            let changed = self.0.changed.notified();
            if self.is_valid() {
                return true;
            }
            if timeout_at(until, changed).await.is_err() {
                return self.is_valid();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silo_that_becomes_valid_again_releases_who_waits() {
        let validity = Validity::default();
        validity.set(false);
        assert!(!validity.hold(Duration::from_millis(10), None).await);
        let waiting = tokio::spawn({
            let validity = validity.clone();
            async move { validity.hold(Duration::from_secs(5), None).await }
        });
        tokio::task::yield_now().await;
        validity.set(true);
        assert!(waiting.await.unwrap());
    }
}
