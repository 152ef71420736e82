//! Migration by explicit dehydrate and rehydrate, committed at the directory (decision B10).
//!
//! The source stops its turns, dehydrates, and has the target restore a frozen activation. Then it asks the directory
//! to move the registration. That is the commit: before it any failure leaves the source running with its instance
//! untouched; after it the source never runs again, even if the target is lost. While the directory's answer is
//! unknown both are frozen. The target runs when it reads its own registration, which it does on `Go`, or by itself
//! now and then.

pub(crate) mod source;
pub(crate) mod target;

use std::sync::Arc;
use std::time::Duration;

use granary_core::hosting::GrainClass;
use granary_core::id::{GrainId, GrainType, SiloAddress};
use tokio::sync::oneshot;

use crate::activation::Activation;
use crate::grains::Inner;

/// Where a migration goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrateTarget {
    Silo(SiloAddress),
    /// The silo of that name.
    Name(String),
    /// Any other Active silo that serves the type.
    Any,
}

/// A finished migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    pub from: SiloAddress,
    pub to: SiloAddress,
    /// From the last turn here until the target said that it runs.
    pub pause: Duration,
    /// Size of the dehydrated state.
    pub bytes: usize,
}

/// Why an activation did not move. It runs on where it was, with its state, unless the variant says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrateError {
    #[error("{0} has no activation on this silo")]
    NotHere(GrainId),
    #[error("{0} is immovable: it exports no granary:grain/migration")]
    Immovable(GrainType),
    #[error("there is no silo {0}")]
    UnknownSilo(String),
    #[error("silo {0} is not active")]
    NotActive(String),
    #[error("silo {silo} does not serve the grain type {grain_type}")]
    NotServed { silo: String, grain_type: GrainType },
    #[error("no other active silo serves the grain type {0}")]
    NoTarget(GrainType),
    #[error("{0} is moving or ending already")]
    Busy(GrainId),
    /// `dehydrate` returned this error.
    #[error("the grain refused: {0}")]
    GrainRefused(String),
    #[error("the dehydrated state has {bytes} bytes, at most {bytes_max} are moved")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("silo {silo} refused: {reason}")]
    TargetRefused { silo: SiloAddress, reason: String },
    #[error("silo {silo} did not restore the grain: {reason}")]
    TargetUnreachable { silo: SiloAddress, reason: String },
    /// An earlier migration was given up, and its target did not say that it dropped its copy.
    #[error("the last migration's copy on silo {silo} is not known to be gone: {reason}")]
    Unsettled { silo: SiloAddress, reason: String },
    #[error("the directory did not commit: {0}")]
    NotCommitted(String),
    /// The activation ended: it trapped in `dehydrate`, or another activation won.
    #[error("the activation of {0} ended before it could move")]
    Ended(GrainId),
    /// Committed, and the source is gone; whether the target runs is not known.
    #[error("moved to silo {silo}, which did not answer since: {reason}")]
    TargetSilent { silo: SiloAddress, reason: String },
}

impl MigrateError {
    /// Whether another target, or the same one a moment later, may do better.
    pub(crate) fn is_of_target(&self) -> bool {
        matches!(
            self,
            Self::TargetRefused { .. }
                | Self::TargetUnreachable { .. }
                | Self::NotCommitted(_)
                | Self::Unsettled { .. }
        )
    }
}

/// A migration that the activation's task shall do.
#[derive(Debug)]
pub(crate) struct MigrateCommand {
    pub(crate) target: MigrateTarget,
    /// Whoever waits for the end.
    pub(crate) reply: Option<oneshot::Sender<Result<MigrationReport, MigrateError>>>,
}

impl MigrateCommand {
    pub(crate) fn answer(self, result: Result<MigrationReport, MigrateError>) {
        if let Some(reply) = self.reply {
            let _ = reply.send(result);
        }
    }
}

/// Moves the grain's activation, which must be on this silo.
pub(crate) async fn migrate(
    inner: &Arc<Inner>,
    grain: &GrainId,
    target: MigrateTarget,
) -> Result<MigrationReport, MigrateError> {
    let activation = inner.catalog.get(grain).ok_or_else(|| MigrateError::NotHere(grain.clone()))?;
    // Found out here already, so that a mistake does not stop any turn.
    let to = resolve(inner, activation.class().as_ref(), &target)?;
    let here = inner.options.silo;
    if to == here {
        return Ok(MigrationReport { from: here, to, pause: Duration::ZERO, bytes: 0 });
    }
    request(&activation, MigrateTarget::Silo(to)).await
}

/// Asks the activation to move and waits for the end of that.
pub(crate) async fn request(
    activation: &Activation,
    target: MigrateTarget,
) -> Result<MigrationReport, MigrateError> {
    let (reply, end) = oneshot::channel();
    let command = MigrateCommand { target, reply: Some(reply) };
    let grain = activation.grain();
    if activation.request_migration(command).is_err() {
        return Err(MigrateError::Busy(grain.clone()));
    }
    end.await.unwrap_or_else(|_| Err(MigrateError::Ended(grain.clone())))
}

/// The silo to move to. This very silo when it is named.
fn resolve(
    inner: &Inner,
    class: &dyn GrainClass,
    target: &MigrateTarget,
) -> Result<SiloAddress, MigrateError> {
    let (types, here) = (&inner.seams.types, inner.options.silo);
    let grain_type = &class.info().grain_type;
    let serving = types.silos_for(grain_type);
    let (silo, name) = match target {
        MigrateTarget::Silo(silo) => (*silo, silo.to_string()),
        MigrateTarget::Name(name) => {
            let silo = types.silo_by_name(name).ok_or_else(|| MigrateError::UnknownSilo(name.clone()))?;
            (silo, name.clone())
        }
        MigrateTarget::Any => {
            let others: Vec<_> = serving.into_iter().filter(|silo| *silo != here).collect();
            movable(class)?;
            return inner.random.choose(&others).ok_or_else(|| MigrateError::NoTarget(grain_type.clone()));
        }
    };
    if silo == here {
        return Ok(silo);
    }
    if !types.is_active(silo) {
        return Err(MigrateError::NotActive(name));
    }
    if !serving.contains(&silo) {
        return Err(MigrateError::NotServed { silo: name, grain_type: grain_type.clone() });
    }
    movable(class)?;
    Ok(silo)
}

fn movable(class: &dyn GrainClass) -> Result<(), MigrateError> {
    let info = class.info();
    if info.has_migration { Ok(()) } else { Err(MigrateError::Immovable(info.grain_type.clone())) }
}
