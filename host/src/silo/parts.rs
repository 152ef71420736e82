//! The parts of a running silo, as its edges and its network side see them.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use granary_core::id::SiloAddress;
use granary_core::membership::MembershipView;
use granary_grains::Grains;
use granary_net::Network;
use tokio_util::sync::CancellationToken;

use super::deployments::Deployments;
use super::directory::DirectoryHandle;
use super::logs::GuestLogs;
use super::manifests::ManifestsHandle;
use super::membership::{MembershipHandle, Standing};
use super::peers::NetPeers;
use super::quarantine::Quarantine;
use super::types::TypeRegistry;

/// Everything, in the order in which it was made.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) me: SiloAddress,
    pub(crate) name: String,
    pub(crate) network: Arc<Network>,
    pub(crate) peers: NetPeers,
    pub(crate) membership: MembershipHandle,
    pub(crate) directory: DirectoryHandle,
    pub(crate) manifests: ManifestsHandle,
    pub(crate) registry: Arc<TypeRegistry>,
    pub(crate) grains: Grains,
    pub(crate) deployments: Arc<Deployments>,
    pub(crate) quarantine: Arc<Quarantine>,
    /// Turns in which the host panicked.
    pub(crate) turn_panics: Arc<AtomicU64>,
    pub(crate) logs: Arc<GuestLogs>,
    /// Cancelled when somebody asks over the admin API that the silo stops.
    pub(crate) stop_asked: CancellationToken,
}

impl Parts {
    pub(crate) fn view(&self) -> Arc<MembershipView> {
        self.membership.view()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.membership.outputs.standing.borrow().clone()
    }

    /// A silo's name, or its address where the name is not known.
    pub(crate) fn name_of(&self, silo: SiloAddress) -> String {
        self.view().members.get(&silo).map_or_else(|| silo.to_string(), |member| member.name.clone())
    }
}

/// The parts, for those who are made before all parts are there (the network's handler).
pub(crate) type PartsCell = Arc<OnceLock<Arc<Parts>>>;
