//! Searches for cycles of calls across chains (decision A12); what is searched is decided in
//! [`granary_core::deadlock`].
//!
//! A call that a turn waits for is entered in [`Waits`] once it has taken [`PROBE_AFTER`], so that the common, quick
//! call pays for no timer and no table. From then on its silo sends a probe along it, at growing intervals: a probe
//! may be lost, or come before the other edges of its cycle are entered.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use granary_core::deadlock::{Break, DeadlockMessage, Probe, Step, Wait};
use granary_core::hosting::CallError;
use granary_core::id::GrainId;
use granary_core::wire::{CallReply, CallRequest};
use tokio::time::timeout;

use crate::grains::Inner;
use crate::options::FORWARDS_MAX;

/// How long a call waits before a cycle is looked for.
pub(crate) const PROBE_AFTER: Duration = Duration::from_millis(100);

/// The longest pause between two searches for one call; it doubles up to this.
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long the directory may take to name a callee's silo.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Searches that are served at once; more are dropped, since they are repeated.
pub(crate) const PROBES_MAX: usize = 1_024;

/// Calls for which turns of this silo wait, each by the grain that waits: there is one for each, since only grains
/// are entered that wait for one call at a time.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<HashMap<GrainId, Wait>>);

/// One entry of [`Waits`], until it is dropped.
struct Entered<'a> {
    waits: &'a Waits,
    wait: Wait,
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, HashMap<GrainId, Wait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, wait: Wait) -> Entered<'_> {
        self.lock().insert(wait.from.clone(), wait.clone());
        Entered { waits: self, wait }
    }

    fn of(&self, grain: &GrainId) -> Option<Wait> {
        self.lock().get(grain).cloned()
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut waits = self.waits.lock();
        if waits.get(&self.wait.from).is_some_and(|wait| wait.call_id == self.wait.call_id) {
            waits.remove(&self.wait.from);
        }
    }
}

/// What the search has to know of a call.
#[derive(Debug)]
pub(crate) struct Watched {
    call_id: u128,
    /// The grain whose turn waits; `None` when no grain made the call.
    from: Option<GrainId>,
    to: GrainId,
}

impl Watched {
    pub(crate) fn of(request: &CallRequest) -> Self {
        let from = request.context.chain.last().cloned();
        Self { call_id: request.call_id, from, to: request.to.clone() }
    }
}

/// Waits for a call of this silo, and looks for cycles when it takes long.
pub(crate) async fn watch(
    inner: &Arc<Inner>,
    watched: Watched,
    call: impl Future<Output = CallReply>,
) -> CallReply {
    let mut call = pin!(call);
    let Watched { call_id, from, to } = watched;
    let Some(from) = from else { return call.await };
    if let Poll::Ready(reply) = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await {
        return reply;
    }
    if let Ok(reply) = timeout(PROBE_AFTER, call.as_mut()).await {
        return reply;
    }
    match inner.catalog.get(&from) {
        // A turn of such a component may wait for other things too, and then it is no deadlock.
        Some(activation) if !activation.class().info().asynchronous => {}
        _ => return call.await,
    }
    let wait = Wait { call_id, from, to };
    let _entered = inner.waits.enter(wait.clone());
    let mut pause = PROBE_AFTER;
    loop {
        inner.search(Probe::new(wait.clone()));
        match timeout(pause, call.as_mut()).await {
            Ok(reply) => return reply,
            Err(_) => pause = (pause * 2).min(PROBE_PAUSE_MAX),
        }
    }
}

impl Inner {
    /// Takes a probe as far as it goes.
    fn search(self: &Arc<Self>, probe: Probe) {
        let Ok(permit) = Arc::clone(&self.probes).try_acquire_owned() else {
            self.metrics.probes_dropped.add();
            return;
        };
        let inner = Arc::clone(self);
        self.tracker.spawn(async move {
            let _permit = permit;
            inner.stop.run_until_cancelled(inner.follow(probe)).await;
        });
    }

    async fn follow(self: &Arc<Self>, mut probe: Probe) {
        self.metrics.probes.add();
        loop {
            let Some(activation) = self.catalog.get(&probe.next.to) else {
                return self.pass_probe(probe).await;
            };
            let (phase, callee) = (activation.phase_of(probe.next.call_id), self.waits.of(&probe.next.to));
            match probe.step(self.options.silo, phase, callee) {
                Step::Stop => return,
                Step::Follow(next) => probe = next,
                Step::Cycle(at, found) if at == self.options.silo => return self.break_cycle(found),
                Step::Cycle(at, found) => return self.seams.peers.tell(at, DeadlockMessage::Break(found)),
            }
        }
    }

    /// Sends a probe to the silo of the callee, which is not here.
    async fn pass_probe(&self, mut probe: Probe) {
        let lookup = self.seams.directory.lookup(probe.next.to.clone());
        let Ok(Ok(Some(entry))) = timeout(LOOKUP_TIMEOUT, lookup).await else { return };
        if entry.silo != self.options.silo && probe.forwards < FORWARDS_MAX {
            probe.forwards += 1;
            self.seams.peers.tell(entry.silo, DeadlockMessage::Probe(probe));
        }
    }

    /// Answers the call that was chosen, if it still waits.
    fn break_cycle(&self, found: Break) {
        let Some(activation) = self.catalog.get(&found.to) else { return };
        let names = found.cycle.iter().map(ToString::to_string).collect();
        if activation.refuse_queued(found.call_id, CallError::Deadlock(names)) {
            self.metrics.deadlocks.add();
        }
    }

    /// Hears of calls that wait for each other.
    pub(crate) fn handle_deadlock(self: &Arc<Self>, message: DeadlockMessage) {
        match message {
            DeadlockMessage::Probe(probe) => self.search(probe),
            DeadlockMessage::Break(found) => self.break_cycle(found),
        }
    }
}
