//! The target's side of a migration: restore, stay frozen, run when the directory says so.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use granary_core::directory::GrainAddress;
use granary_core::hosting::{DeactivationReason, GrainClass, GrainInstance, Turn, TurnContext};
use granary_core::id::{ActivationId, GrainId, SiloAddress};
use granary_core::wire::{MigrateReply, MigrateRequest, MigrationPackage};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout, timeout_at};

use crate::activation::run::{self, Calls, End, Entry, Start};
use crate::activation::{Activation, ActivationState, FrozenSignal};
use crate::catalog::Found;
use crate::grains::Inner;
use crate::options::{ABORTED_MAX, GO_TIMEOUT};
use crate::seams::ThawOutcome;

/// Serves a step that the source asks for.
pub(crate) async fn handle(inner: &Arc<Inner>, from: SiloAddress, request: MigrateRequest) -> MigrateReply {
    let result = match request {
        MigrateRequest::Restore(package) if package.source != from => {
            Err(format!("the package is of silo {}, not of the sender {from}", package.source))
        }
        MigrateRequest::Restore(package) => admit(inner, package).await,
        MigrateRequest::Go { grain, activation } => go(inner, &grain, activation).await,
        MigrateRequest::Abort { grain, activation } => abort(inner, &grain, activation).await,
    };
    match result {
        Ok(()) => MigrateReply::Done,
        Err(reason) => MigrateReply::Refused(reason),
    }
}

/// Starts the restoration and waits until the activation is frozen.
async fn admit(inner: &Arc<Inner>, package: MigrationPackage) -> Result<(), String> {
    if inner.aborted.lock().is_ok_and(|aborted| aborted.contains(&package.target_activation)) {
        return Err("the source gave this migration up before it arrived".to_owned());
    }
    let class = class_for(inner, &package)?;
    let Ok(permit) = Arc::clone(&inner.frozen).try_acquire_owned() else {
        return Err(format!("{} grains are moving in already", inner.options.frozen_max));
    };
    let make = || {
        let identity = inner.identity(package.grain.clone(), package.target_activation);
        Activation::new(identity, Arc::clone(&class), ActivationState::Restoring)
    };
    let mut found = inner.catalog.get_or_insert(&package.grain, make);
    if let Found::Existing(known) = &found
        && matches!(known.state(), ActivationState::Migrating | ActivationState::Deactivating)
    {
        // It left, or ends, a moment ago: a grain that comes back at once need not be refused for that.
        let _ = timeout(GO_TIMEOUT, known.ended()).await;
        found = inner.catalog.get_or_insert(&package.grain, make);
    }
    let activation = match found {
        Found::Created(activation) => activation,
        Found::Existing(known) if known.id() == package.target_activation => {
            return match known.state() {
                ActivationState::Frozen | ActivationState::Valid => Ok(()),
                state => Err(format!("it is {state:?} already")),
            };
        }
        Found::Existing(_) => return Err("another activation of the grain is here".to_owned()),
    };
    if inner.draining.is_cancelled() {
        inner.catalog.remove(activation.grain(), activation.id());
        inner.reroute(activation.close().0);
        return Err("the silo stops".to_owned());
    }
    let (done, frozen) = oneshot::channel();
    run::spawn(inner, activation, Start::Restore(Box::new(package), done, permit));
    match frozen.await {
        Ok(MigrateReply::Done) => Ok(()),
        Ok(MigrateReply::Refused(reason)) => Err(reason),
        Err(_) => Err("the silo stops".to_owned()),
    }
}

/// The class that takes the state: of the same component where it is here, else the current one of the type, whose
/// `rehydrate` decides whether it understands the state.
fn class_for(inner: &Inner, package: &MigrationPackage) -> Result<Arc<dyn GrainClass>, String> {
    let grain_type = package.grain.grain_type();
    if inner.draining.is_cancelled() {
        return Err("the silo stops".to_owned());
    }
    let types = &inner.seams.types;
    let class = types
        .class_by_digest(grain_type, &package.digest)
        .or_else(|| types.class(grain_type))
        .ok_or_else(|| format!("the grain type {grain_type} is not ready here"))?;
    if class.info().has_migration {
        return Ok(class);
    }
    Err(format!(
        "component {} is not here, and {} exports no granary:grain/migration",
        package.digest.short(),
        class.info().digest.short()
    ))
}

async fn go(inner: &Inner, grain: &GrainId, id: ActivationId) -> Result<(), String> {
    let activation =
        find(inner, grain, id).ok_or_else(|| format!("activation {id} of {grain} is not here"))?;
    let (reply, answer) = oneshot::channel();
    match activation.signal(FrozenSignal::Go(reply)) {
        Ok(()) => answered(answer).await,
        Err(_) if activation.state() == ActivationState::Invalid => Err("it ended".to_owned()),
        // Runs already, or did.
        Err(_) => Ok(()),
    }
}

async fn abort(inner: &Inner, grain: &GrainId, id: ActivationId) -> Result<(), String> {
    // Remembered first: the package travels on another connection, and may come after this.
    if let Ok(mut aborted) = inner.aborted.lock() {
        if aborted.len() >= ABORTED_MAX {
            aborted.pop_front();
        }
        aborted.push_back(id);
    }
    let Some(activation) = find(inner, grain, id) else { return Ok(()) };
    let (reply, answer) = oneshot::channel();
    match activation.signal(FrozenSignal::Abort(reply)) {
        Ok(()) => answered(answer).await,
        Err(_) if activation.state() == ActivationState::Invalid => Ok(()),
        Err(_) => Err("it runs".to_owned()),
    }
}

fn find(inner: &Inner, grain: &GrainId, id: ActivationId) -> Option<Arc<Activation>> {
    inner.catalog.get(grain).filter(|activation| activation.id() == id)
}

async fn answered(answer: oneshot::Receiver<MigrateReply>) -> Result<(), String> {
    match timeout(GO_TIMEOUT, answer).await {
        Ok(Ok(MigrateReply::Done)) => Ok(()),
        Ok(Ok(MigrateReply::Refused(reason))) => Err(reason),
        Ok(Err(_)) => Err("the activation ended".to_owned()),
        Err(_) => Err("the activation did not answer in time".to_owned()),
    }
}

/// The start of a migrated activation: ends when the directory names it, or when it has to go.
pub(crate) async fn restore(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    package: MigrationPackage,
    done: oneshot::Sender<MigrateReply>,
    permit: OwnedSemaphorePermit,
) -> Result<Box<dyn GrainInstance>, End> {
    let (source, source_activation) = (package.source, package.source_activation);
    let restored = unless_aborted(inner, activation, source, rehydrate(inner, activation, package)).await;
    let instance = match restored {
        Ok(instance) => instance,
        Err((reason, entry)) => {
            tracing::debug!(grain = %activation.grain(), "not restored: {reason}");
            inner.locations.insert(activation.grain(), source);
            let _ = done.send(MigrateReply::Refused(reason));
            return Err(End { reason: DeactivationReason::Migrating, entry, calls: Calls::Reroute });
        }
    };
    activation.set_state(ActivationState::Frozen);
    tracing::debug!(grain = %activation.grain(), from = %source, %source_activation, "restored, frozen");
    let _ = done.send(MigrateReply::Done);
    wait(inner, activation, source).await?;
    drop(permit);
    inner.metrics.migrations_in.add();
    inner.locations.remove(activation.grain(), source);
    activation.set_state(ActivationState::Valid);
    activation.touch();
    Ok(instance)
}

/// Drives the restoration, until the source gives up. Calls that come here by an old idea go back to the source
/// meanwhile, which still has the grain.
async fn unless_aborted(
    inner: &Arc<Inner>,
    activation: &Activation,
    source: SiloAddress,
    restoring: impl Future<Output = Result<Box<dyn GrainInstance>, (String, Entry)>>,
) -> Result<Box<dyn GrainInstance>, (String, Entry)> {
    let mut restoring = pin!(restoring);
    let mut tick = interval(inner.options.frozen_check);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            restored = restoring.as_mut() => return restored,
            () = activation.woken() => {}
            _ = tick.tick() => inner.send_back(activation.take_calls(), source),
        }
        let mut aborted = false;
        for signal in activation.take_signals() {
            let reply = match signal {
                FrozenSignal::Go(go) => go.send(MigrateReply::Refused("not restored yet".to_owned())),
                FrozenSignal::Abort(abort) => {
                    aborted = true;
                    abort.send(MigrateReply::Done)
                }
            };
            // The source may have given up waiting.
            let _ = reply;
        }
        if aborted {
            return Err(("the source gave up".to_owned(), Entry::DropFrozen));
        }
    }
}

/// Instantiates, announces the candidate, rehydrates. The error says what to do with the announcement.
async fn rehydrate(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    package: MigrationPackage,
) -> Result<Box<dyn GrainInstance>, (String, Entry)> {
    let limit = inner.options.migration_timeout;
    let deadline = Instant::now() + limit;
    // The source's fence: the target may read before the commit, and must not lock the source out.
    activation.set_fence(package.fence);
    let mut instance =
        run::instantiate(inner, activation, deadline).await.map_err(|reason| (reason, Entry::Leave))?;
    // With the source's fence, by which a barrier tells the newest of several copies.
    let address =
        GrainAddress { fence: package.fence, ..activation.address(Some(package.source_activation)) };
    match timeout_at(deadline, inner.seams.directory.add_frozen(address)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err((error.to_string(), Entry::DropFrozen)),
        Err(_) => return Err(("the directory did not answer in time".to_owned(), Entry::DropFrozen)),
    }
    let context = TurnContext {
        remaining: Some(deadline.saturating_duration_since(Instant::now())),
        ..run::own_context(activation, limit)
    };
    match timeout_at(deadline, instance.turn(Turn::Rehydrate(package.state), context)).await {
        Ok(Ok(_)) => Ok(instance),
        Ok(Err(failure)) => Err((format!("rehydrate failed: {failure}"), Entry::DropFrozen)),
        Err(_) => Err((format!("rehydrate did not end within {limit:?}"), Entry::DropFrozen)),
    }
}

/// Waits until the directory names this activation.
async fn wait(inner: &Arc<Inner>, activation: &Arc<Activation>, source: SiloAddress) -> Result<(), End> {
    let frozen = Instant::now();
    let end = |entry| End { reason: DeactivationReason::Migrating, entry, calls: Calls::Reroute };
    let mut check = frozen + inner.options.frozen_check;
    loop {
        let mut gos = Vec::new();
        for signal in activation.take_signals() {
            match signal {
                FrozenSignal::Go(reply) => gos.push(reply),
                FrozenSignal::Abort(reply) => {
                    inner.locations.insert(activation.grain(), source);
                    let _ = reply.send(MigrateReply::Done);
                    return Err(end(Entry::DropFrozen));
                }
            }
        }
        if let Some(ending) = activation.pending_end()
            && ending.reason == DeactivationReason::Duplicate
        {
            if let Some(winner) = ending.winner {
                inner.locations.insert(&winner.grain, winner.silo);
            }
            return Err(End::duplicate(Entry::DropFrozen));
        }
        if !gos.is_empty() || check <= Instant::now() {
            let answer = thaw(inner, activation).await;
            let reply = match &answer {
                Thaw::Run => MigrateReply::Done,
                Thaw::NotYet => MigrateReply::Refused("the directory still names the source".to_owned()),
                Thaw::Wait(reason) => MigrateReply::Refused(reason.clone()),
                Thaw::End => MigrateReply::Refused("the directory names another activation".to_owned()),
            };
            gos.into_iter().for_each(|go| {
                let _ = go.send(reply.clone());
            });
            match answer {
                Thaw::Run => return Ok(()),
                Thaw::End => return Err(End::duplicate(Entry::DropFrozen)),
                // Only when the directory says so: while it is silent, this may be the committed copy.
                Thaw::NotYet if frozen.elapsed() >= inner.options.frozen_age_max => {
                    tracing::warn!(grain = %activation.grain(), "dropped: the migration from {source} was not committed");
                    inner.locations.insert(activation.grain(), source);
                    return Err(end(Entry::DropFrozen));
                }
                Thaw::NotYet | Thaw::Wait(_) => {}
            }
            // The source has the grain still: calls that came here by an old idea wait for nothing here.
            inner.send_back(activation.take_calls(), source);
            check = Instant::now() + inner.options.frozen_check;
        }
        tokio::select! {
            () = activation.woken() => {}
            () = sleep_until(check) => {}
        }
    }
}

enum Thaw {
    Run,
    /// The source is registered.
    NotYet,
    /// It is not known who is.
    Wait(String),
    End,
}

async fn thaw(inner: &Inner, activation: &Activation) -> Thaw {
    let asked = inner.seams.directory.thaw(activation.grain().clone(), activation.id());
    match timeout(GO_TIMEOUT, asked).await {
        Ok(Ok(ThawOutcome::Registered(address))) => {
            activation.set_fence(address.fence);
            Thaw::Run
        }
        Ok(Ok(ThawOutcome::NotYet)) => Thaw::NotYet,
        Ok(Ok(ThawOutcome::Lost(winner))) => {
            if let Some(winner) = winner {
                inner.locations.insert(&winner.grain, winner.silo);
            }
            Thaw::End
        }
        Ok(Err(error)) => Thaw::Wait(error.to_string()),
        Err(_) => Thaw::Wait("the directory did not answer in time".to_owned()),
    }
}
