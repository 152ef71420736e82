//! The source's side of a migration; runs in the task of the activation, between two turns.

use std::sync::Arc;
use std::time::Duration;

use granary_core::directory::GrainAddress;
use granary_core::hosting::{DeactivationReason, GrainInstance, Turn, TurnFailure};
use granary_core::id::{ActivationId, SiloAddress};
use granary_core::wire::{MigrateReply, MigrateRequest, MigrationPackage};
use tokio::time::{Instant, sleep, timeout};

use crate::activation::run::{Calls, End, Entry, own_context};
use crate::activation::{Activation, ActivationState};
use crate::grains::Inner;
use crate::migration::{MigrateCommand, MigrateError, MigrationReport, resolve};
use crate::options::{GO_ATTEMPTS_MAX, GO_TIMEOUT, MIGRATION_STATE_BYTES_MAX};
use crate::seams::{DirectoryError, MoveOutcome, PeerError};

/// Why the activation did not leave.
enum Stay {
    /// It goes on.
    Resume(MigrateError),
    /// It ends.
    End(MigrateError, End),
}

/// Moves the activation; `None` when it stays and goes on with its turns.
pub(crate) async fn leave(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    instance: &mut dyn GrainInstance,
    command: MigrateCommand,
) -> Option<End> {
    let stopped = Instant::now();
    if let Err(error) = settle_last(inner, activation).await {
        return stay(inner, activation, command, Stay::Resume(error));
    }
    let to = match resolve(inner, activation.class().as_ref(), &command.target) {
        Ok(to) if to == inner.options.silo => {
            let report = MigrationReport { from: to, to, pause: Duration::ZERO, bytes: 0 };
            activation.set_state(ActivationState::Valid);
            command.answer(Ok(report));
            return None;
        }
        Ok(to) => to,
        Err(error) => return stay(inner, activation, command, Stay::Resume(error)),
    };
    let package = match pack(inner, activation, instance).await {
        Ok(package) => package,
        Err(why) => return stay(inner, activation, command, why),
    };
    let (bytes, target) = (package.state.len(), package.target_activation);
    if let Err(why) = restore_there(inner, activation, to, package).await {
        return stay(inner, activation, command, why);
    }
    if let Err(why) = commit(inner, activation, to, target).await {
        return stay(inner, activation, command, why);
    }

    // From here on the target has the grain, whatever becomes of it.
    inner.metrics.migrations_out.add();
    inner.locations.insert(activation.grain(), to);
    let (inner, activation) = (Arc::clone(inner), Arc::clone(activation));
    inner.tracker.clone().spawn(async move {
        let grain = activation.grain().clone();
        let told = tell(&inner, to, &MigrateRequest::Go { grain: grain.clone(), activation: target }).await;
        let report = MigrationReport { from: inner.options.silo, to, pause: stopped.elapsed(), bytes };
        if let Err(reason) = &told {
            tracing::warn!(%grain, "moved to silo {to}, which did not answer since: {reason}");
        }
        // Whoever is told finds the grain in one place only, and may move it back at once.
        activation.ended().await;
        command.answer(match told {
            Ok(()) => Ok(report),
            Err(reason) => Err(MigrateError::TargetSilent { silo: to, reason }),
        });
    });
    Some(End { reason: DeactivationReason::Migrating, entry: Entry::Leave, calls: Calls::Reroute })
}

fn stay(inner: &Inner, activation: &Activation, command: MigrateCommand, why: Stay) -> Option<End> {
    inner.metrics.migrations_failed.add();
    let (error, end) = match why {
        Stay::Resume(error) => {
            activation.set_state(ActivationState::Valid);
            (error, None)
        }
        Stay::End(error, end) => (error, Some(end)),
    };
    if command.reply.is_none() {
        // Nobody else would say what became of the grain's own wish.
        tracing::warn!(grain = %activation.grain(), "not migrated: {error}");
    }
    command.answer(Err(error));
    end
}

/// Dehydrates.
async fn pack(
    inner: &Inner,
    activation: &Activation,
    instance: &mut dyn GrainInstance,
) -> Result<MigrationPackage, Stay> {
    let limit = inner.options.migration_timeout;
    let turn = instance.turn(Turn::Dehydrate, own_context(activation, limit));
    let ended = || MigrateError::Ended(activation.grain().clone());
    let state = match timeout(limit, turn).await {
        Ok(Ok(state)) => state,
        Ok(Err(TurnFailure::Refused(text) | TurnFailure::BadRequest(text))) => {
            return Err(Stay::Resume(MigrateError::GrainRefused(text)));
        }
        Ok(Err(TurnFailure::Trapped { kind, message })) => {
            inner.metrics.traps.add();
            tracing::warn!(grain = %activation.grain(), ?kind, "the activation ends in dehydrate: {message}");
            return Err(Stay::End(ended(), End::trapped()));
        }
        Err(_) => {
            tracing::warn!(grain = %activation.grain(), "dehydrate did not end within {limit:?}; the activation ends");
            return Err(Stay::End(ended(), End::trapped()));
        }
    };
    if state.len() > MIGRATION_STATE_BYTES_MAX {
        let error = MigrateError::TooLarge { bytes: state.len(), bytes_max: MIGRATION_STATE_BYTES_MAX };
        return Err(Stay::Resume(error));
    }
    Ok(MigrationPackage {
        grain: activation.grain().clone(),
        digest: activation.class().info().digest,
        source: inner.options.silo,
        source_activation: activation.id(),
        target_activation: ActivationId(inner.random.id()),
        state,
        fence: activation.fence(),
    })
}

/// Has the target restore the state and stay frozen.
async fn restore_there(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    to: SiloAddress,
    package: MigrationPackage,
) -> Result<(), Stay> {
    let target = package.target_activation;
    let limit = inner.options.migration_timeout;
    let answer = timeout(limit, inner.seams.peers.migrate(to, MigrateRequest::Restore(package), limit)).await;
    let reason = match answer.unwrap_or(Err(PeerError::TimedOut)) {
        Ok(MigrateReply::Done) => return Ok(()),
        Ok(MigrateReply::Refused(reason)) => {
            return Err(Stay::Resume(MigrateError::TargetRefused { silo: to, reason }));
        }
        Err(PeerError::NotDelivered(reason)) => reason,
        Err(error) => {
            // It may be frozen there. Nothing can make it run, since only this silo asks for the commit.
            abort_there(inner, activation, to, target);
            error.to_string()
        }
    };
    Err(Stay::Resume(MigrateError::TargetUnreachable { silo: to, reason }))
}

/// Asks the directory to name the target, until there is an answer: in doubt the activation stays frozen.
async fn commit(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    to: SiloAddress,
    target: ActivationId,
) -> Result<(), Stay> {
    /// Pause before the question is asked again; doubles.
    const PAUSE_MIN: Duration = Duration::from_millis(20);
    const PAUSE_MAX: Duration = Duration::from_secs(1);

    let address = GrainAddress {
        grain: activation.grain().clone(),
        activation: target,
        silo: to,
        fence: 0,
        previous: Some(activation.id()),
    };
    let (mut pause, mut doubt) = (PAUSE_MIN, false);
    loop {
        match inner.seams.directory.move_to(activation.id(), address.clone()).await {
            Ok(MoveOutcome::Moved(_)) => return Ok(()),
            Ok(MoveOutcome::NotMoved) => {
                abort_there(inner, activation, to, target);
                let error = MigrateError::NotCommitted("the target is gone".to_owned());
                return Err(Stay::Resume(error));
            }
            Ok(MoveOutcome::Lost(winner)) if winner.as_ref().is_some_and(|it| it.activation == target) => {
                // An earlier question, whose answer was lost, was the commit.
                return Ok(());
            }
            Ok(MoveOutcome::Lost(winner)) => {
                inner.metrics.activations_duplicate.add();
                abort_there(inner, activation, to, target);
                if let Some(winner) = winner {
                    inner.locations.insert(&winner.grain, winner.silo);
                }
                let error = MigrateError::Ended(activation.grain().clone());
                return Err(Stay::End(error, End::duplicate(Entry::Leave)));
            }
            Err(DirectoryError::Refused(reason)) if !doubt => {
                abort_there(inner, activation, to, target);
                return Err(Stay::Resume(MigrateError::NotCommitted(reason)));
            }
            Err(error) => {
                doubt |= matches!(error, DirectoryError::Unavailable(_));
                tracing::warn!(grain = %activation.grain(), "frozen until the directory answers: {error}");
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// Tells the target to drop its activation. When it does not hear it, it drops it by itself later; until it has
/// confirmed that it did, the activation does not move again (see [`settle_last`]).
fn abort_there(inner: &Arc<Inner>, activation: &Arc<Activation>, to: SiloAddress, target: ActivationId) {
    activation.set_unsettled(to, target);
    let (inner, activation) = (Arc::clone(inner), Arc::clone(activation));
    inner.tracker.clone().spawn(async move {
        match tell(&inner, to, &abort_request(&activation, target)).await {
            Ok(()) => activation.settled(target),
            Err(reason) => {
                tracing::debug!("silo {to} was not told to drop its migration target: {reason}");
            }
        }
    });
}

fn abort_request(activation: &Activation, target: ActivationId) -> MigrateRequest {
    MigrateRequest::Abort { grain: activation.grain().clone(), activation: target }
}

/// Makes sure that no target of an earlier migration is left. A source has at most one: after the source's death a
/// directory could not tell which of two frozen copies is the newer.
async fn settle_last(inner: &Inner, activation: &Activation) -> Result<(), MigrateError> {
    let Some((silo, target)) = activation.unsettled() else { return Ok(()) };
    match tell(inner, silo, &abort_request(activation, target)).await {
        Ok(()) => {}
        // The copy died with its silo.
        Err(_) if inner.seams.types.is_gone(silo) => {}
        Err(reason) => return Err(MigrateError::Unsettled { silo, reason }),
    }
    activation.settled(target);
    Ok(())
}

/// Sends a step that may be repeated, a few times.
async fn tell(inner: &Inner, to: SiloAddress, request: &MigrateRequest) -> Result<(), String> {
    const PAUSE: Duration = Duration::from_millis(100);

    let mut reason = String::new();
    for attempt in 0..GO_ATTEMPTS_MAX {
        if attempt > 0 {
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = inner.stop.cancelled() => break,
            }
        }
        let asked = inner.seams.peers.migrate(to, request.clone(), GO_TIMEOUT);
        reason = match timeout(GO_TIMEOUT, asked).await.unwrap_or(Err(PeerError::TimedOut)) {
            Ok(MigrateReply::Done) => return Ok(()),
            Ok(MigrateReply::Refused(reason)) => reason,
            Err(error) => error.to_string(),
        };
    }
    Err(reason)
}
