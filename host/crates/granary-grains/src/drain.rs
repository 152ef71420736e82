//! Emptying a silo before it stops (decision B8).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use granary_core::hosting::DeactivationReason;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::activation::Activation;
use crate::grains::Inner;
use crate::migration::{self, MigrateError, MigrateTarget};

/// How long no call must have come before a drained silo counts as left alone.
const QUIET: Duration = Duration::from_millis(100);

/// How long a drained silo waits to be left alone.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(3);

/// How often a drain tries to move one activation.
const MOVE_ATTEMPTS_MAX: u32 = 3;

/// The pause between two tries, in which a newer view may arrive.
const MOVE_PAUSE: Duration = Duration::from_millis(100);

/// What a drain did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainReport {
    /// Activations that moved to other silos, with their state.
    pub migrated: usize,
    /// Activations that ended.
    pub deactivated: usize,
    /// Activations that were still here when the time was up.
    pub remaining: usize,
    /// Calls of other silos, and calls passed on, that still waited for an answer when the time was up.
    pub waiting_calls: usize,
    pub took: Duration,
}

/// Counts what is under way. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    count: AtomicUsize,
    /// How often something was begun.
    begun: AtomicUsize,
    /// Woken each time the count falls to zero.
    zero: Notify,
}

/// One thing under way, until dropped.
#[derive(Debug)]
pub(crate) struct Entered(Arc<Counter>);

impl InFlight {
    pub(crate) fn enter(&self) -> Entered {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        Entered(Arc::clone(&self.0))
    }

    fn count(&self) -> usize {
        self.0.count.load(Ordering::SeqCst)
    }

    /// Waits for a moment with nothing under way.
    async fn zero(&self) {
        loop {
            let zero = self.0.zero.notified();
            if self.count() == 0 {
                return;
            }
            zero.await;
        }
    }

    /// Waits until nothing was under way for `quiet`.
    async fn quiet(&self, quiet: Duration) {
        loop {
            self.zero().await;
            let begun = self.0.begun.load(Ordering::SeqCst);
            sleep(quiet).await;
            if self.count() == 0 && self.0.begun.load(Ordering::SeqCst) == begun {
                return;
            }
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.zero.notify_waiters();
        }
    }
}

/// How an activation left.
enum Left {
    Migrated,
    Deactivated,
}

pub(crate) async fn drain(inner: &Arc<Inner>, within: Duration, migrate: bool) -> DrainReport {
    let began = Instant::now();
    let deadline = began + within;
    inner.draining.cancel();
    let mut report = DrainReport::default();
    let mut seen = HashSet::new();
    let mut leaving = JoinSet::new();
    loop {
        let mut todo = inner.catalog.snapshot();
        todo.retain(|activation| seen.insert(activation.id()));
        for activation in todo {
            while leaving.len() >= inner.options.drain_parallel.max(1) {
                if !count_one(&mut report, &mut leaving, deadline).await {
                    break;
                }
            }
            if Instant::now() >= deadline {
                break;
            }
            leaving.spawn(leave(activation, deadline, migrate));
        }
        // Who came meanwhile, from a call or a migration that was under way, leaves in the next round.
        if leaving.is_empty() || !count_one(&mut report, &mut leaving, deadline).await {
            break;
        }
    }
    // Silos that have an old idea of where a grain is learn better by one call each. Who exits under such a call
    // leaves its caller in doubt.
    let quiet = timeout_at(deadline.min(Instant::now() + QUIET_WAIT_MAX), inner.inbound.quiet(QUIET));
    let _ = quiet.await;
    report.remaining = inner.catalog.len();
    report.waiting_calls = inner.inbound.count();
    report.took = began.elapsed();
    tracing::info!(?report, "drained");
    report
}

/// Waits for one activation to leave; false when the time was up.
async fn count_one(report: &mut DrainReport, leaving: &mut JoinSet<Option<Left>>, deadline: Instant) -> bool {
    match timeout_at(deadline, leaving.join_next()).await {
        Ok(Some(Ok(Some(Left::Migrated)))) => report.migrated += 1,
        Ok(Some(Ok(Some(Left::Deactivated)))) => report.deactivated += 1,
        Ok(_) => {}
        Err(_) => return false,
    }
    true
}

/// Moves one activation to any other silo. A target that stops or died itself is no reason to lose the state while
/// there are others, so it is tried a few times.
async fn move_away(activation: &Activation, deadline: Instant) -> bool {
    for attempt in 1..=MOVE_ATTEMPTS_MAX {
        match timeout_at(deadline, migration::request(activation, MigrateTarget::Any)).await {
            Ok(Ok(_) | Err(MigrateError::TargetSilent { .. })) => return true,
            Ok(Err(error)) if attempt < MOVE_ATTEMPTS_MAX && error.is_of_target() => {
                tracing::debug!(grain = %activation.grain(), "moves again: {error}");
                sleep(MOVE_PAUSE).await;
            }
            Ok(Err(error)) => {
                tracing::debug!(grain = %activation.grain(), "deactivates instead of moving: {error}");
                return false;
            }
            Err(_) => return false,
        }
    }
    false
}

/// Has one activation leave, and waits until it is gone; `None` when the time was up.
async fn leave(activation: Arc<Activation>, deadline: Instant, migrate: bool) -> Option<Left> {
    let mut migrated = false;
    if migrate && activation.class().info().has_migration {
        migrated = move_away(&activation, deadline).await;
    }
    if !migrated {
        activation.request_end(DeactivationReason::ShuttingDown, None);
    }
    timeout_at(deadline, activation.ended()).await.ok()?;
    Some(if migrated { Left::Migrated } else { Left::Deactivated })
}
