//! One activation: its state and its mailbox.
//!
//! States go forward: Creating → Activating → Valid → Deactivating or Migrating → Invalid, or, for a migration
//! target, Restoring → Frozen → Valid; only a migration that was not committed goes back, from Migrating to Valid
//! (decision B10). The activation's own task owns the instance (`activation/run.rs`), and everybody else speaks to that
//! task through the mailbox; while the task waits it parks the instance here, where one inline call may borrow it
//! (`inline.rs`). The first reason to end wins (spec AL-3).

pub(crate) mod mailbox;
pub(crate) mod overlap;
pub(crate) mod run;
mod summary;
mod waiting;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use granary_core::directory::GrainAddress;
use granary_core::hosting::{ActivationIdentity, DeactivationReason, GrainClass, GrainInstance, TurnContext};
use granary_core::id::{ActivationId, GrainId, SiloAddress};
use granary_core::wire::{CallRequest, MigrateReply};
use serde::Serialize;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::activation::mailbox::{Mailbox, PushError, QueuedCall};
use crate::migration::MigrateCommand;

pub use summary::ActivationSummary;

/// Where an activation is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActivationState {
    /// It registers at the directory.
    Creating,
    /// Its start code and `activate` run.
    Activating,
    /// A migration target whose state is being restored.
    Restoring,
    /// A migration target that waits for the commit.
    Frozen,
    /// It runs calls.
    Valid,
    /// It failed to start, and answers with the failure for a moment.
    Failed,
    /// It moves away; calls wait.
    Migrating,
    /// It ends; calls wait for its successor.
    Deactivating,
    /// It ended.
    Invalid,
}

/// Why and how an activation is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) reason: DeactivationReason,
    /// The activation that won, where the reason is `Duplicate`.
    pub(crate) winner: Option<GrainAddress>,
}

/// What a migration's source tells the frozen target.
#[derive(Debug)]
pub(crate) enum FrozenSignal {
    Go(oneshot::Sender<MigrateReply>),
    Abort(oneshot::Sender<MigrateReply>),
}

/// The next thing that the task of a valid activation has to do, and the instance to do it with.
pub(crate) enum Next {
    End(Ending, Box<dyn GrainInstance>),
    Migrate(MigrateCommand, Box<dyn GrainInstance>),
    Call(Box<QueuedCall>, Box<dyn GrainInstance>),
    /// Nothing; look again when woken, or at this time. The instance is parked, or lent.
    Wait(Option<Instant>),
    /// The turn to which the instance was lent ended it.
    Gone,
}

/// Where the instance is while the activation's task does not hold it.
enum Slot {
    /// With the task.
    Held,
    /// Here: the activation is idle.
    Parked(Box<dyn GrainInstance>),
    /// With an inline turn; true when the task waits for its end.
    Lent { awaited: bool },
    /// Nowhere: an inline turn ended it.
    Gone,
}

pub(crate) struct Activation {
    identity: ActivationIdentity,
    class: Arc<dyn GrainClass>,
    created: Instant,
    /// What the task and its clients share. Never held across an await.
    shared: Mutex<Shared>,
    /// Wakes the task; one permit is kept, since there is one task.
    wake: Notify,
    /// Cancelled when the activation is Invalid and out of the catalog.
    ended: CancellationToken,
}

struct Shared {
    state: ActivationState,
    mailbox: Mailbox,
    slot: Slot,
    ending: Option<Ending>,
    migrate: Option<MigrateCommand>,
    signals: Vec<FrozenSignal>,
    /// Why the activation failed; answers every call while it is Failed.
    failure: Option<String>,
    fence: u64,
    keep_alive_until: Option<Instant>,
    /// The target of a migration that was given up, until it has confirmed that it is gone.
    unsettled: Option<(SiloAddress, ActivationId)>,
    last_used: Instant,
    /// When the running call's time is up; `None` outside calls, and while several may run.
    turn_deadline: Option<Instant>,
    /// Calls whose turns run; more than one only in a reentrant activation.
    running: usize,
    /// The id of the call that runs, or ran last, where one runs at a time.
    call_id: u128,
    calls: u64,
}

/// Signals that wait at a frozen target, at most: a source sends one of each and repeats a few times.
const SIGNALS_MAX: usize = 16;

impl Activation {
    /// An activation that has no task yet.
    pub(crate) fn new(
        identity: ActivationIdentity,
        class: Arc<dyn GrainClass>,
        state: ActivationState,
    ) -> Self {
        let now = Instant::now();
        let mailbox = Mailbox::new(class.info().limits.mailbox_max);
        Self {
            identity,
            class,
            created: now,
            shared: Mutex::new(Shared {
                state,
                mailbox,
                slot: Slot::Held,
                ending: None,
                migrate: None,
                signals: Vec::new(),
                failure: None,
                fence: 0,
                unsettled: None,
                keep_alive_until: None,
                last_used: now,
                turn_deadline: None,
                running: 0,
                call_id: 0,
                calls: 0,
            }),
            wake: Notify::new(),
            ended: CancellationToken::new(),
        }
    }

    pub(crate) fn identity(&self) -> &ActivationIdentity {
        &self.identity
    }

    pub(crate) fn id(&self) -> ActivationId {
        self.identity.activation
    }

    pub(crate) fn grain(&self) -> &GrainId {
        &self.identity.grain
    }

    pub(crate) fn class(&self) -> &Arc<dyn GrainClass> {
        &self.class
    }

    pub(crate) fn state(&self) -> ActivationState {
        self.lock().state
    }

    pub(crate) fn set_state(&self, state: ActivationState) {
        self.lock().state = state;
    }

    /// The fencing number of the registration; zero before it.
    pub(crate) fn fence(&self) -> u64 {
        self.lock().fence
    }

    pub(crate) fn set_fence(&self, fence: u64) {
        self.lock().fence = fence;
    }

    /// The state, and when the running call's time is up.
    pub(crate) fn state_and_deadline(&self) -> (ActivationState, Option<Instant>) {
        let shared = self.lock();
        (shared.state, shared.turn_deadline)
    }

    /// The address to register.
    pub(crate) fn address(&self, previous: Option<ActivationId>) -> GrainAddress {
        GrainAddress {
            grain: self.identity.grain.clone(),
            activation: self.identity.activation,
            silo: self.identity.silo,
            fence: 0,
            previous,
        }
    }

    /// Queues a call.
    pub(crate) fn push(&self, call: QueuedCall) -> Result<(), PushError> {
        let mut shared = self.lock();
        if let Some(failure) = &shared.failure {
            return Err(PushError::Failed(failure.clone()));
        }
        shared.mailbox.push(call)?;
        drop(shared);
        self.wake.notify_one();
        Ok(())
    }

    /// What `activate` inherits: the context of the first call that waits (spec AL-20.2), so that a cycle through
    /// `activate` is seen too; but not that call's time, since others wait as well.
    pub(crate) fn start_context(&self, remaining: Duration) -> TurnContext {
        let first = self.lock().mailbox.front().map(|call| call.request.context.clone());
        let mut context = first.unwrap_or_default();
        context.chain.push(self.identity.grain.clone());
        context.remaining = Some(remaining);
        context
    }

    /// Takes the next thing to do, and changes the state accordingly. `held` is the instance, unless an earlier
    /// answer was to wait.
    pub(crate) fn next(&self, held: Option<Box<dyn GrainInstance>>) -> Next {
        let now = Instant::now();
        let mut shared = self.lock();
        let instance = match (held, std::mem::replace(&mut shared.slot, Slot::Held)) {
            (Some(instance), _) | (None, Slot::Parked(instance)) => instance,
            (None, Slot::Lent { .. }) => {
                shared.slot = Slot::Lent { awaited: true };
                return Next::Wait(None);
            }
            (None, Slot::Gone | Slot::Held) => return Next::Gone,
        };
        if let Some(ending) = shared.ending.take() {
            shared.state = ActivationState::Deactivating;
            return Next::End(ending, instance);
        }
        if let Some(command) = shared.migrate.take() {
            shared.state = ActivationState::Migrating;
            return Next::Migrate(command, instance);
        }
        if let Some(call) = shared.mailbox.pop() {
            shared.running = 1;
            shared.turn_deadline = (!self.class.info().reentrant).then_some(call.deadline);
            shared.call_id = call.request.call_id;
            return Next::Call(Box::new(call), instance);
        }
        let Some(age) = self.class.info().limits.idle_age else {
            shared.slot = Slot::Parked(instance);
            return Next::Wait(None);
        };
        let due = shared.last_used + age;
        let due = shared.keep_alive_until.map_or(due, |until| due.max(until));
        if due > now {
            shared.slot = Slot::Parked(instance);
            return Next::Wait(Some(due));
        }
        shared.state = ActivationState::Deactivating;
        Next::End(Ending { reason: DeactivationReason::Idle, winner: None }, instance)
    }

    /// Lends the instance to a call if the activation is valid and nothing waits for it.
    pub(crate) fn borrow_idle(
        &self,
        request: &CallRequest,
        deadline: Instant,
    ) -> Option<Box<dyn GrainInstance>> {
        let mut shared = self.lock();
        let idle = shared.state == ActivationState::Valid
            && shared.mailbox.len() == 0
            && shared.ending.is_none()
            && shared.migrate.is_none();
        if !idle {
            return None;
        }
        match std::mem::replace(&mut shared.slot, Slot::Lent { awaited: false }) {
            Slot::Parked(instance) => {
                shared.running = 1;
                shared.turn_deadline = Some(deadline);
                shared.call_id = request.call_id;
                Some(instance)
            }
            other => {
                shared.slot = other;
                None
            }
        }
    }

    /// Takes a lent instance back; `None` when it is gone.
    pub(crate) fn give_back(&self, instance: Option<Box<dyn GrainInstance>>) {
        let mut shared = self.lock();
        if shared.state == ActivationState::Invalid {
            // The silo stops. The instance is dropped here, without the lock.
            drop(shared);
            drop(instance);
            return;
        }
        let awaited = matches!(shared.slot, Slot::Lent { awaited: true });
        let gone = instance.is_none();
        if gone {
            shared.running = 0;
            shared.turn_deadline = None;
        }
        shared.slot = instance.map_or(Slot::Gone, Slot::Parked);
        drop(shared);
        if awaited || gone {
            self.wake.notify_one();
        }
    }

    /// Notes the end of a call's turn; `ran` is false when the call was answered without one.
    pub(crate) fn call_ended(&self, ran: bool) {
        let mut shared = self.lock();
        shared.running = shared.running.saturating_sub(1);
        shared.turn_deadline = None;
        shared.last_used = Instant::now();
        shared.calls += u64::from(ran);
    }

    /// Begins the idle time anew.
    pub(crate) fn touch(&self) {
        self.lock().last_used = Instant::now();
    }

    /// Asks the activation to end when no turn runs. The first reason wins; false when it ends already.
    pub(crate) fn request_end(&self, reason: DeactivationReason, winner: Option<GrainAddress>) -> bool {
        let mut shared = self.lock();
        let ends = matches!(
            shared.state,
            ActivationState::Deactivating | ActivationState::Invalid | ActivationState::Failed
        );
        let taken = !ends && shared.ending.is_none();
        if taken {
            shared.ending = Some(Ending { reason, winner });
        }
        drop(shared);
        self.wake.notify_one();
        taken
    }

    /// Why the activation is to end, if it is; for the waits before it becomes valid.
    pub(crate) fn pending_end(&self) -> Option<Ending> {
        self.lock().ending.clone()
    }

    /// Asks the activation to move when no turn runs. Gives the command back when it ends or moves already.
    pub(crate) fn request_migration(&self, command: MigrateCommand) -> Result<(), MigrateCommand> {
        use ActivationState as S;
        let mut shared = self.lock();
        let busy = matches!(shared.state, S::Migrating | S::Deactivating | S::Invalid | S::Failed);
        if busy || shared.migrate.is_some() || shared.ending.is_some() {
            return Err(command);
        }
        shared.migrate = Some(command);
        drop(shared);
        self.wake.notify_one();
        Ok(())
    }

    /// Tells a migration target what the source decided; gives the signal back when too many wait.
    pub(crate) fn signal(&self, signal: FrozenSignal) -> Result<(), FrozenSignal> {
        let mut shared = self.lock();
        let waits = matches!(shared.state, ActivationState::Restoring | ActivationState::Frozen);
        if !waits || shared.signals.len() >= SIGNALS_MAX {
            return Err(signal);
        }
        shared.signals.push(signal);
        drop(shared);
        self.wake.notify_one();
        Ok(())
    }

    /// The target of a migration that was given up and has not confirmed it.
    pub(crate) fn unsettled(&self) -> Option<(SiloAddress, ActivationId)> {
        self.lock().unsettled
    }

    /// A migration was given up, and its target may still be there.
    pub(crate) fn set_unsettled(&self, silo: SiloAddress, target: ActivationId) {
        self.lock().unsettled = Some((silo, target));
    }

    /// This target is gone. Late news of an earlier one changes nothing.
    pub(crate) fn settled(&self, target: ActivationId) {
        self.lock().unsettled.take_if(|(_, unsettled)| *unsettled == target);
    }

    /// Takes the signals of the source, oldest first.
    pub(crate) fn take_signals(&self) -> Vec<FrozenSignal> {
        std::mem::take(&mut self.lock().signals)
    }

    /// Keeps the activation from being idle for this long; zero takes it back.
    pub(crate) fn keep_alive(&self, duration: Duration) {
        /// Longer than any silo runs, and far from where time arithmetic overflows (spec AL-46).
        const KEEP_ALIVE_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);
        let until = (!duration.is_zero()).then(|| Instant::now() + duration.min(KEEP_ALIVE_MAX));
        self.lock().keep_alive_until = until;
        self.wake.notify_one();
    }

    /// Takes the calls that wait; more may come.
    pub(crate) fn take_calls(&self) -> Vec<QueuedCall> {
        self.lock().mailbox.take()
    }

    /// Enters the state Failed: calls that wait and that come are answered with the failure.
    pub(crate) fn fail(&self, failure: &str) -> Vec<QueuedCall> {
        let mut shared = self.lock();
        shared.state = ActivationState::Failed;
        shared.failure = Some(failure.to_owned());
        shared.mailbox.take()
    }

    /// Ends the activation, which must be out of the catalog; returns the calls and signals that wait.
    pub(crate) fn close(&self) -> (Vec<QueuedCall>, Option<MigrateCommand>) {
        let mut shared = self.lock();
        shared.state = ActivationState::Invalid;
        shared.signals.clear();
        let rest = (shared.mailbox.close(), shared.migrate.take());
        // The instance knows this activation: left here, neither would ever be dropped.
        let parked = std::mem::replace(&mut shared.slot, Slot::Gone);
        drop(shared);
        drop(parked);
        self.ended.cancel();
        rest
    }

    /// Waits until something may have to be done.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Waits until the activation ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Activation({} {} {:?})", self.identity.grain, self.identity.activation, self.state())
    }
}
