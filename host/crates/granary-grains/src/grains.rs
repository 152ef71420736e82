//! The grains of one silo: the surface for the host, the gateway and the network.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use granary_core::deadlock::DeadlockMessage;
use granary_core::directory::GrainAddress;
use granary_core::hosting::{ActivationIdentity, DeactivationReason, GrainClass, TextFormat, TurnContext};
use granary_core::id::{ActivationId, GrainId, GrainType, SiloAddress};
use granary_core::wire::{CallReply, CallRequest, MigrateReply, MigrateRequest};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activation::ActivationSummary;
use crate::activation::mailbox::Arrival;
use crate::catalog::Catalog;
use crate::cycles::{PROBES_MAX, Waits};
use crate::drain::{DrainReport, InFlight};
use crate::invoke::text::CallTextError;
use crate::location_cache::LocationCache;
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::migration::{MigrateError, MigrateTarget, MigrationReport};
use crate::options::{CALL_TIMEOUT_MAX, GrainsOptions};
use crate::random::Random;
use crate::seams::{DirectoryError, Seams};
use crate::validity::Validity;

/// The grains of one silo. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Grains(Arc<Inner>);

/// What all parts of this crate share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: GrainsOptions,
    pub(crate) seams: Seams,
    pub(crate) catalog: Catalog,
    pub(crate) locations: LocationCache,
    pub(crate) random: Random,
    pub(crate) validity: Validity,
    pub(crate) metrics: Metrics,
    pub(crate) tracker: TaskTracker,
    /// Cancelled when the silo stops: all tasks end, running turns are dropped.
    pub(crate) stop: CancellationToken,
    /// Cancelled when the silo begins to drain: nothing is activated here any more.
    pub(crate) draining: CancellationToken,
    /// One permit for each one-way call on its way.
    pub(crate) one_way: Arc<Semaphore>,
    /// Calls of this silo's turns that take long.
    pub(crate) waits: Waits,
    /// One permit for each search for a cycle.
    pub(crate) probes: Arc<Semaphore>,
    /// One permit for each migration target that does not run yet.
    pub(crate) frozen: Arc<Semaphore>,
    /// Calls of other silos that wait here.
    pub(crate) inbound: InFlight,
    /// Migration targets that their sources gave up: a restoration that arrives later is refused.
    pub(crate) aborted: Mutex<VecDeque<ActivationId>>,
}

/// What came of asking activations to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeactivateOutcome {
    /// Activations that ended.
    pub ended: usize,
    /// Activations that had not ended when the time was up; they still will.
    pub pending: usize,
}

impl Grains {
    /// The grains of a silo, none at first. Tasks are spawned on `tracker`, and end when `stop` is cancelled.
    #[must_use]
    pub fn new(options: GrainsOptions, seams: Seams, tracker: TaskTracker, stop: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            catalog: Catalog::default(),
            locations: LocationCache::new(options.location_cache_max),
            random: Random::new(options.seed),
            validity: Validity::default(),
            metrics: Metrics::default(),
            tracker,
            stop,
            draining: CancellationToken::new(),
            one_way: Arc::new(Semaphore::new(options.one_way_max)),
            waits: Waits::default(),
            probes: Arc::new(Semaphore::new(PROBES_MAX)),
            frozen: Arc::new(Semaphore::new(options.frozen_max)),
            inbound: InFlight::default(),
            aborted: Mutex::default(),
            options,
            seams,
        }))
    }

    /// Calls a grain, wherever it is, and waits for the end of the call, at most `timeout` (`None`: the default; never more
    /// than [`CALL_TIMEOUT_MAX`]).
    /// Only `to`, `method`, `args`, `context` and `one_way` of the request are looked at; `call_id` is kept unless 0.
    ///
    /// Dropping the future drops the waiting, never a turn that started.
    pub async fn call(&self, request: CallRequest, timeout: Option<Duration>) -> CallReply {
        let timeout = timeout.unwrap_or(self.0.options.call_timeout).min(CALL_TIMEOUT_MAX);
        Box::pin(self.0.call(request, Instant::now() + timeout)).await
    }

    /// Calls a method by name, with arguments and result as text.
    ///
    /// # Errors
    /// [`CallTextError::Arguments`] when the arguments do not fit, before anything is delivered; else
    /// [`CallTextError::Call`].
    pub async fn call_text(
        &self,
        to: GrainId,
        method: &str,
        format: TextFormat,
        args: &str,
        context: TurnContext,
        timeout: Option<Duration>,
    ) -> Result<String, CallTextError> {
        let timeout = timeout.unwrap_or(self.0.options.call_timeout);
        Box::pin(self.0.call_text(to, method, format, args, context, timeout)).await
    }

    /// Serves a call that another silo sent here; `remaining` is the time that it has left.
    pub async fn handle_invoke(
        &self,
        from: SiloAddress,
        request: CallRequest,
        remaining: Duration,
    ) -> CallReply {
        let _waiting = self.0.inbound.enter();
        self.0.metrics.calls_inbound.add();
        let deadline = Instant::now() + remaining.min(CALL_TIMEOUT_MAX);
        Box::pin(self.0.route(request, Arrival::Inbound(from), deadline, None)).await.reply
    }

    /// Hears from another silo of calls that wait for each other (decision A12).
    pub fn handle_deadlock(&self, message: DeadlockMessage) {
        self.0.handle_deadlock(message);
    }

    /// Serves a step of a migration that another silo asks for.
    pub async fn handle_migrate(&self, from: SiloAddress, request: MigrateRequest) -> MigrateReply {
        Box::pin(crate::migration::target::handle(&self.0, from, request)).await
    }

    /// The directory found that this activation lost a conflict: it ends without touching the directory, and its
    /// calls go to the winner.
    pub fn deactivate_duplicate(
        &self,
        grain: &GrainId,
        activation: ActivationId,
        winner: Option<GrainAddress>,
    ) {
        if let Some(found) = self.0.catalog.get(grain)
            && found.id() == activation
        {
            found.request_end(DeactivationReason::Duplicate, winner);
        }
    }

    /// Moves the grain's activation, which must be on this silo, and waits until it runs at the target.
    ///
    /// # Errors
    /// See [`MigrateError`]. Unless it says otherwise the activation runs on here, untouched.
    pub async fn migrate(
        &self,
        grain: &GrainId,
        target: MigrateTarget,
    ) -> Result<MigrationReport, MigrateError> {
        Box::pin(crate::migration::migrate(&self.0, grain, target)).await
    }

    /// Ends the grain's activation on this silo when no turn runs, and waits for that, at most `within`. False when
    /// there is none here, or the time was up.
    pub async fn deactivate(&self, grain: &GrainId, reason: DeactivationReason, within: Duration) -> bool {
        let Some(activation) = self.0.catalog.get(grain) else { return false };
        activation.request_end(reason, None);
        tokio::time::timeout(within, activation.ended()).await.is_ok()
    }

    /// Ends all activations of a type on this silo, each when no turn runs, and waits for that, at most `within`.
    pub async fn deactivate_type(
        &self,
        grain_type: &GrainType,
        reason: DeactivationReason,
        within: Duration,
    ) -> DeactivateOutcome {
        let deadline = Instant::now() + within;
        let mut all = self.0.catalog.snapshot();
        all.retain(|activation| activation.grain().grain_type() == grain_type);
        for activation in &all {
            activation.request_end(reason, None);
        }
        let mut outcome = DeactivateOutcome { ended: 0, pending: 0 };
        for activation in &all {
            match timeout_at(deadline, activation.ended()).await {
                Ok(()) => outcome.ended += 1,
                Err(_) => outcome.pending += 1,
            }
        }
        outcome
    }

    /// Empties the silo for its shutdown (decision B8): nothing is activated here any more, what can move moves to
    /// other Active silos, the rest deactivates, and calls that still arrive are passed on. Cannot be undone.
    pub async fn drain(&self, within: Duration, migrate: bool) -> DrainReport {
        Box::pin(crate::drain::drain(&self.0, within, migrate)).await
    }

    /// True since [`Grains::drain`] was called.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    /// The activations on this silo, ordered by grain.
    #[must_use]
    pub fn list_activations(&self) -> Vec<ActivationSummary> {
        let mut all: Vec<_> =
            self.0.catalog.snapshot().iter().map(|activation| activation.summary()).collect();
        all.sort_by(|a, b| a.grain.cmp(&b.grain));
        all
    }

    /// The grain's activation on this silo.
    #[must_use]
    pub fn describe(&self, grain: &GrainId) -> Option<ActivationSummary> {
        self.0.catalog.get(grain).map(|activation| activation.summary())
    }

    /// Where the grain's activation is, in the whole cluster.
    ///
    /// # Errors
    /// Fails when the directory does not answer within `within`.
    pub async fn locate(
        &self,
        grain: &GrainId,
        within: Duration,
    ) -> Result<Option<SiloAddress>, DirectoryError> {
        if self.0.catalog.get(grain).is_some() {
            return Ok(Some(self.0.options.silo));
        }
        match tokio::time::timeout(within, self.0.seams.directory.lookup(grain.clone())).await {
            Ok(found) => found.map(|address| address.map(|address| address.silo)),
            Err(_) => Err(DirectoryError::Unavailable(format!("nothing within {within:?}"))),
        }
    }

    /// Tells that a silo is gone: no call is sent there from memory.
    pub fn forget_silo(&self, silo: SiloAddress) {
        self.0.locations.forget_silo(silo);
    }

    /// The switch that pauses turns while the silo is not valid.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.0.validity.clone()
    }

    #[must_use]
    pub fn metrics(&self) -> MetricsSnapshot {
        self.0.metrics.snapshot()
    }

    /// The number of activations on this silo.
    #[must_use]
    pub fn activation_count(&self) -> usize {
        self.0.catalog.len()
    }
}

impl Inner {
    /// The identity of an activation on this silo.
    pub(crate) fn identity(&self, grain: GrainId, activation: ActivationId) -> ActivationIdentity {
        ActivationIdentity {
            grain,
            activation,
            silo: self.options.silo,
            silo_name: self.options.silo_name.clone(),
        }
    }

    /// The class for new activations of the grain here; `None` when they may not start here.
    pub(crate) fn class_here(&self, grain_type: &GrainType) -> Option<Arc<dyn GrainClass>> {
        if self.draining.is_cancelled() { None } else { self.seams.types.class(grain_type) }
    }
}
