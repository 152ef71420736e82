//! The task of one activation: it owns the instance from its start to its end.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use granary_core::hosting::{
    ActivationHost, CallError, DeactivationReason, GrainInstance, Turn, TurnContext, TurnFailure,
};
use granary_core::id::ActivationId;
use granary_core::wire::{MigrateReply, MigrationPackage};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::activation::{Activation, ActivationState, Ending, Next, overlap};
use crate::grains::Inner;
use crate::host::Host;
use crate::migration::{source, target};
use crate::options::UNREGISTER_TIMEOUT;
use crate::seams::DirectoryError;
use crate::turns::AfterCall;

/// How an activation starts.
#[derive(Debug)]
pub(crate) enum Start {
    /// From nothing.
    Fresh,
    /// From a migrated state; the source is told when it is frozen, or why not. The permit is kept until it runs.
    Restore(Box<MigrationPackage>, oneshot::Sender<MigrateReply>, OwnedSemaphorePermit),
}

/// How an activation ends: what is left to do when its instance is gone.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) reason: DeactivationReason,
    pub(crate) entry: Entry,
    pub(crate) calls: Calls,
}

/// What happens to the entry in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It is removed.
    Unregister,
    /// The announcement as a migration target is taken back.
    DropFrozen,
    /// It names another activation, or there is none.
    Leave,
}

/// What happens to the calls that wait.
#[derive(Debug)]
pub(crate) enum Calls {
    /// They did not start, so they go where the grain is now.
    Reroute,
    /// They are told that they were not delivered.
    NotDelivered(String),
    /// They, and those that come within the failure hold, are told that the activation failed.
    Fail(String),
}

impl End {
    /// The end of an activation whose instance is gone.
    pub(crate) fn trapped() -> Self {
        Self { reason: DeactivationReason::RuntimeRequested, entry: Entry::Unregister, calls: Calls::Reroute }
    }

    fn failed(text: String) -> Self {
        Self {
            reason: DeactivationReason::ActivationFailed,
            entry: Entry::Unregister,
            calls: Calls::Fail(text),
        }
    }

    /// The end of an activation that another one won against.
    pub(crate) fn duplicate(entry: Entry) -> Self {
        Self { reason: DeactivationReason::Duplicate, entry, calls: Calls::Reroute }
    }
}

/// Starts the activation's task. It ends with the activation, or when the silo stops.
pub(crate) fn spawn(inner: &Arc<Inner>, activation: Arc<Activation>, start: Start) {
    let inner = Arc::clone(inner);
    let stop = inner.stop.clone();
    inner.tracker.clone().spawn(async move {
        // Removes the activation should its task be dropped or panic, so that the grain is not locked out.
        let guard = Guard { inner: &inner, activation: &activation };
        stop.run_until_cancelled(Box::pin(run(&inner, &activation, start))).await;
        drop(guard);
    });
}

struct Guard<'a> {
    inner: &'a Inner,
    activation: &'a Activation,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.inner.catalog.remove(self.activation.grain(), self.activation.id());
        let _ = self.activation.close();
    }
}

async fn run(inner: &Arc<Inner>, activation: &Arc<Activation>, start: Start) {
    let started = match start {
        Start::Fresh => create(inner, activation).await,
        Start::Restore(package, done, permit) => {
            target::restore(inner, activation, *package, done, permit).await
        }
    };
    let end = match started {
        Ok(instance) => {
            inner.metrics.activations_started.add();
            tracing::debug!(grain = %activation.grain(), activation = %activation.id(), "activation is valid");
            serve(inner, activation, instance).await
        }
        Err(end) => end,
    };
    finish(inner, activation, end).await;
}

/// Registers, instantiates and activates, in this order (spec AL-20, B4.1).
async fn create(inner: &Arc<Inner>, activation: &Arc<Activation>) -> Result<Box<dyn GrainInstance>, End> {
    let limit = inner.options.activation_timeout;
    let deadline = Instant::now() + limit;
    register(inner, activation, deadline).await?;
    activation.set_state(ActivationState::Activating);
    let mut instance = instantiate(inner, activation, deadline).await.map_err(End::failed)?;
    if activation.class().info().has_lifecycle {
        let context = activation.start_context(deadline.saturating_duration_since(Instant::now()));
        match timeout_at(deadline, instance.turn(Turn::Activate, context)).await {
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => return Err(End::failed(failure.to_string())),
            Err(_) => return Err(End::failed(format!("activate did not end within {limit:?}"))),
        }
    }
    activation.set_state(ActivationState::Valid);
    Ok(instance)
}

/// Makes the instance; the error is one line for the callers.
pub(crate) async fn instantiate(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    deadline: Instant,
) -> Result<Box<dyn GrainInstance>, String> {
    let host: Arc<dyn ActivationHost> = Arc::new(Host::new(Arc::clone(inner), Arc::clone(activation)));
    match timeout_at(deadline, activation.class().instantiate(host)).await {
        Ok(Ok(instance)) => Ok(instance),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(_) => Err("the component's start code did not end in time".to_owned()),
    }
}

/// Registers until the directory names this activation, or one on another silo (spec B4.1–B4.4).
async fn register(inner: &Arc<Inner>, activation: &Arc<Activation>, deadline: Instant) -> Result<(), End> {
    /// An entry of this very silo is of an activation that ended; each attempt replaces one.
    const ATTEMPTS_MAX: usize = 4;

    let mut previous: Option<ActivationId> = None;
    let mut problem = "entries of ended activations keep coming back".to_owned();
    let mut entry = Entry::Leave;
    for _ in 0..ATTEMPTS_MAX {
        let asked = inner.seams.directory.register(activation.address(None), previous);
        match timeout_at(deadline, asked).await {
            Ok(Ok(winner)) if winner.activation == activation.id() => {
                activation.set_fence(winner.fence);
                return Ok(());
            }
            Ok(Ok(winner)) if winner.silo == activation.identity().silo => previous = Some(winner.activation),
            Ok(Ok(winner)) => {
                inner.metrics.activations_duplicate.add();
                inner.locations.insert(&winner.grain, winner.silo);
                return Err(End::duplicate(Entry::Leave));
            }
            Ok(Err(error)) => {
                if matches!(error, DirectoryError::Unavailable(_)) {
                    entry = Entry::Unregister;
                }
                problem = error.to_string();
                break;
            }
            Err(_) => {
                // The registration may still arrive, so it is taken back.
                entry = Entry::Unregister;
                problem =
                    format!("the directory did not answer within {:?}", inner.options.activation_timeout);
                break;
            }
        }
    }
    inner.metrics.registrations_failed.add();
    tracing::warn!(grain = %activation.grain(), "registration failed: {problem}");
    let calls = Calls::NotDelivered(format!("{} could not be registered: {problem}", activation.grain()));
    Err(End { reason: DeactivationReason::DirectoryFailure, entry, calls })
}

/// Runs turns until the activation ends.
async fn serve(inner: &Arc<Inner>, activation: &Arc<Activation>, instance: Box<dyn GrainInstance>) -> End {
    let mut held = Some(instance);
    // One timer for all waits: it is moved only when it fires or lies too late, not with each call.
    let mut timer = pin!(sleep_until(Instant::now()));
    loop {
        match activation.next(held.take()) {
            Next::Call(call, mut instance) => {
                if overlap::run_calls(inner, activation, instance.as_mut(), *call).await == AfterCall::Gone {
                    return End::trapped();
                }
                held = Some(instance);
            }
            Next::Migrate(command, mut instance) => {
                if let Some(end) = source::leave(inner, activation, instance.as_mut(), command).await {
                    return end;
                }
                held = Some(instance);
            }
            Next::Gone => return End::trapped(),
            Next::End(ending, instance) => return deactivate(inner, activation, instance, ending).await,
            Next::Wait(None) => activation.woken().await,
            Next::Wait(Some(until)) => {
                if timer.is_elapsed() || timer.deadline() > until {
                    timer.as_mut().reset(until);
                }
                tokio::select! {
                    () = activation.woken() => {}
                    () = timer.as_mut() => {}
                }
            }
        }
    }
}

/// Tells the grain that it ends. What goes wrong is logged and stops nothing (spec AL-31).
async fn deactivate(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    mut instance: Box<dyn GrainInstance>,
    ending: Ending,
) -> End {
    if activation.class().info().has_lifecycle {
        let limit = inner.options.deactivation_timeout;
        let context = own_context(activation, limit);
        let turn = instance.turn(Turn::Deactivate(ending.reason), context);
        log_failure(activation, "deactivate", timeout(limit, turn)).await;
    }
    let entry = match ending.reason {
        DeactivationReason::Duplicate => {
            inner.metrics.activations_duplicate.add();
            Entry::Leave
        }
        _ => Entry::Unregister,
    };
    if let Some(winner) = ending.winner {
        inner.locations.insert(&winner.grain, winner.silo);
    }
    End { reason: ending.reason, entry, calls: Calls::Reroute }
}

/// The context of a turn that no call caused.
pub(crate) fn own_context(activation: &Activation, remaining: std::time::Duration) -> TurnContext {
    TurnContext {
        chain: vec![activation.grain().clone()],
        remaining: Some(remaining),
        request_context: Vec::new(),
        trace_parent: None,
    }
}

async fn log_failure<T>(
    activation: &Activation,
    what: &str,
    turn: impl Future<Output = Result<Result<T, TurnFailure>, tokio::time::error::Elapsed>>,
) {
    match turn.await {
        Ok(Ok(_)) => {}
        Ok(Err(failure)) => tracing::warn!(grain = %activation.grain(), "{what} failed: {failure}"),
        Err(_) => tracing::warn!(grain = %activation.grain(), "{what} did not end in time"),
    }
}

/// Everything after the instance: failure hold, directory, catalog, the calls that wait.
async fn finish(inner: &Arc<Inner>, activation: &Arc<Activation>, end: End) {
    if let Calls::Fail(text) = &end.calls {
        inner.metrics.activations_failed.add();
        tracing::warn!(grain = %activation.grain(), "activation failed: {text}");
        for call in activation.fail(text) {
            call.answer(Err(CallError::Failed(text.clone())));
        }
        let held = inner.draining.run_until_cancelled(tokio::time::sleep(inner.options.failure_hold));
        // A draining silo cuts the hold short; either way the activation ends now.
        let _ = held.await;
    }
    let (grain, id) = (activation.grain().clone(), activation.id());
    match timeout(UNREGISTER_TIMEOUT, leave_directory(inner, activation, end.entry)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%grain, "the entry stays for now: {error}"),
        Err(_) => tracing::debug!(%grain, "the entry stays for now: the directory did not answer"),
    }
    // First out of the catalog, then closed: whoever finds the mailbox closed does not find the activation again.
    inner.catalog.remove(&grain, id);
    let (calls, command) = activation.close();
    inner.metrics.activations_ended.add();
    tracing::debug!(%grain, activation = %id, reason = ?end.reason, "activation ended");
    if let Some(command) = command {
        command.answer(Err(crate::migration::MigrateError::Ended(grain)));
    }
    match end.calls {
        Calls::Reroute => inner.reroute(calls),
        Calls::NotDelivered(text) => {
            calls.into_iter().for_each(|call| call.answer(Err(CallError::NotDelivered(text.clone()))));
        }
        Calls::Fail(text) => {
            calls.into_iter().for_each(|call| call.answer(Err(CallError::Failed(text.clone()))));
        }
    }
}

async fn leave_directory(inner: &Inner, activation: &Activation, entry: Entry) -> Result<(), DirectoryError> {
    let (directory, grain, id) = (&inner.seams.directory, activation.grain(), activation.id());
    match entry {
        Entry::Leave => Ok(()),
        Entry::Unregister => directory.unregister(grain.clone(), id).await,
        Entry::DropFrozen => match directory.drop_frozen(grain.clone(), id).await {
            Ok(()) => Ok(()),
            // It may have become live under a question whose answer was lost.
            Err(_) => directory.unregister(grain.clone(), id).await,
        },
    }
}
