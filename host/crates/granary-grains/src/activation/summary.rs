//! What listings say of an activation.

use std::time::Duration;

use granary_core::id::{ActivationId, Digest, GrainId, SiloAddress};

use super::{Activation, ActivationState};

/// One activation, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivationSummary {
    pub grain: GrainId,
    pub activation: ActivationId,
    pub silo: SiloAddress,
    pub silo_name: String,
    pub state: ActivationState,
    /// The component that it runs.
    pub digest: Digest,
    /// Time since it was created.
    pub age: Duration,
    /// Time since its last call ended; zero while one runs.
    pub idle: Duration,
    /// Calls that it ran.
    pub calls: u64,
    /// Calls that wait.
    pub mailbox: usize,
    /// A turn of a call is running.
    pub running: bool,
}

impl Activation {
    pub(crate) fn summary(&self) -> ActivationSummary {
        let shared = self.lock();
        ActivationSummary {
            grain: self.identity.grain.clone(),
            activation: self.identity.activation,
            silo: self.identity.silo,
            silo_name: self.identity.silo_name.clone(),
            state: shared.state,
            digest: self.class.info().digest,
            age: self.created.elapsed(),
            idle: if shared.running > 0 { Duration::ZERO } else { shared.last_used.elapsed() },
            calls: shared.calls,
            mailbox: shared.mailbox.len(),
            running: shared.running > 0,
        }
    }
}
