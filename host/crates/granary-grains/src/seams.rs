//! What grains need of the rest of the silo, as traits that the host implements.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use granary_core::deadlock::DeadlockMessage;
use granary_core::directory::GrainAddress;
use granary_core::hosting::{ActivationIdentity, BoxFuture, CallError, GrainClass, LogLevel};
use granary_core::id::{ActivationId, Digest, GrainId, GrainType, SiloAddress};
use granary_core::wire::{CallReply, CallRequest, MigrateReply, MigrateRequest};
use granary_store::GrainStateStore;

/// Why the directory gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// Nothing was done, and nothing of this request will be done later.
    #[error("the directory refused: {0}")]
    Refused(String),
    /// It may or may not have been done.
    #[error("the directory did not answer: {0}")]
    Unavailable(String),
}

/// How the commit of a migration ended. Final: nothing of the same request takes effect afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveOutcome {
    /// Committed: the target is registered, and the source never runs again.
    Moved(GrainAddress),
    /// Not committed: the source is registered, and may go on.
    NotMoved,
    /// The directory names another activation, or none; the source must end.
    Lost(Option<GrainAddress>),
}

/// What the directory says about a migration target that does not run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThawOutcome {
    /// It is registered and may run; the address holds its fence.
    Registered(GrainAddress),
    /// The source is registered; stay frozen and ask again later.
    NotYet,
    /// The directory names another activation, or none, or does not know the candidate any more; the target must
    /// end.
    Lost(Option<GrainAddress>),
}

/// This silo's view of the grain directory.
///
/// Dropping the future of `register` or `lookup` cancels the operation. The host calls
/// [`Grains::deactivate_duplicate`](crate::Grains::deactivate_duplicate) when an activation lost a conflict.
pub trait Directory: Send + Sync {
    /// Registers an activation of this silo, in place of `previous` where that is registered. Returns the entry
    /// after that, with its fence: the caller's own, or that of another activation, which won.
    fn register(
        &self,
        address: GrainAddress,
        previous: Option<ActivationId>,
    ) -> BoxFuture<'_, Result<GrainAddress, DirectoryError>>;

    /// The registered activation of a grain.
    fn lookup(&self, grain: GrainId) -> BoxFuture<'_, Result<Option<GrainAddress>, DirectoryError>>;

    /// Removes the entry if it names this activation.
    fn unregister(
        &self,
        grain: GrainId,
        activation: ActivationId,
    ) -> BoxFuture<'_, Result<(), DirectoryError>>;

    /// Registers `to` if `from`, an activation of this silo, is registered. May be asked again when in doubt.
    fn move_to(
        &self,
        from: ActivationId,
        to: GrainAddress,
    ) -> BoxFuture<'_, Result<MoveOutcome, DirectoryError>>;

    /// Announces an activation on this silo that is restored and does not run yet. The source hears that it is
    /// restored only after this was answered by `Ok`; an `Err` when the source is not registered any more.
    fn add_frozen(&self, address: GrainAddress) -> BoxFuture<'_, Result<(), DirectoryError>>;

    /// Takes back [`Directory::add_frozen`].
    fn drop_frozen(
        &self,
        grain: GrainId,
        activation: ActivationId,
    ) -> BoxFuture<'_, Result<(), DirectoryError>>;

    /// Makes a frozen activation live if it is the registered one.
    fn thaw(
        &self,
        grain: GrainId,
        activation: ActivationId,
    ) -> BoxFuture<'_, Result<ThawOutcome, DirectoryError>>;
}

/// Why another silo gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// It certainly did not get the request.
    #[error("not delivered: {0}")]
    NotDelivered(String),
    /// The connection broke after the request was handed to it.
    #[error("unknown outcome: {0}")]
    UnknownOutcome(String),
    #[error("timed out")]
    TimedOut,
}

/// Questions to other silos.
pub trait Peers: Send + Sync {
    /// Delivers a call; the answer comes from [`Grains::handle_invoke`](crate::Grains::handle_invoke) there.
    fn invoke(
        &self,
        to: SiloAddress,
        request: CallRequest,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<CallReply, PeerError>>;

    /// Tells another silo about calls that wait for each other;
    /// [`Grains::handle_deadlock`](crate::Grains::handle_deadlock) hears it there, or it is lost.
    fn tell(&self, to: SiloAddress, message: DeadlockMessage);

    /// Asks for a step of a migration; [`Grains::handle_migrate`](crate::Grains::handle_migrate) answers it.
    fn migrate(
        &self,
        to: SiloAddress,
        request: MigrateRequest,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<MigrateReply, PeerError>>;
}

/// The deployed types, and who serves them.
pub trait Types: Send + Sync {
    /// The class that new activations of this silo get.
    fn class(&self, grain_type: &GrainType) -> Option<Arc<dyn GrainClass>>;

    /// A class of this component, current or not, if this silo has it ready.
    fn class_by_digest(&self, grain_type: &GrainType, digest: &Digest) -> Option<Arc<dyn GrainClass>>;

    /// The default grain type of an interface (spec A2.10).
    ///
    /// # Errors
    /// `NotFound` when no deployed type implements it, `Incompatible` when several do.
    fn resolve(&self, interface: &str) -> Result<GrainType, CallError>;

    /// The Active silos whose manifest has the type, in a fixed order.
    fn silos_for(&self, grain_type: &GrainType) -> Vec<SiloAddress>;

    /// Why no silo may serve a type that is deployed: silos died of its component.
    fn quarantined(&self, _grain_type: &GrainType) -> Option<String> {
        None
    }

    /// All grain types of the cluster, for error texts.
    fn known_types(&self) -> Vec<GrainType>;

    /// The newest silo of that name, whatever its status.
    fn silo_by_name(&self, name: &str) -> Option<SiloAddress>;

    /// True for a silo that is Active in the current view.
    fn is_active(&self, silo: SiloAddress) -> bool;

    /// True for a silo that is Dead in the current view, or not in it: nothing of it runs any more.
    fn is_gone(&self, silo: SiloAddress) -> bool;
}

/// Takes the log lines of grains.
pub trait LogSink: Send + Sync {
    /// One line, bounded and escaped.
    fn line(&self, identity: &ActivationIdentity, level: LogLevel, target: &str, text: &str);
}

/// The silo's parts that grains use.
#[derive(Clone)]
pub struct Seams {
    pub directory: Arc<dyn Directory>,
    pub peers: Arc<dyn Peers>,
    pub types: Arc<dyn Types>,
    pub state: Arc<dyn GrainStateStore>,
    pub logs: Arc<dyn LogSink>,
}

impl Debug for Seams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seams").finish_non_exhaustive()
    }
}
