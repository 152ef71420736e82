//! Runs the manifest provider: publishes this silo's manifest, and follows those of the others.

use std::sync::Arc;

use granary_core::id::SiloAddress;
use granary_core::manifest::{
    ClusterManifest, GrainManifest, ManifestCommand as Command, ManifestEvent as Event, ManifestMessage,
    ManifestProvider,
};
use granary_core::membership::{self, MembershipView};
use granary_core::wire::OneWay;
use granary_net::{Lane, Network};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::driver::{INBOX_MAX, Step, drive};
use super::parts::PartsCell;

/// A handle to the running machine.
#[derive(Debug, Clone)]
pub(crate) struct ManifestsHandle {
    inbox: mpsc::Sender<Event>,
    manifest: watch::Receiver<Arc<ClusterManifest>>,
}

/// Starts the machine in a task of `tracker`. The membership machine, which tells peers of this silo's generation,
/// is reached through `parts`.
pub(crate) fn start(
    me: SiloAddress,
    network: &Arc<Network>,
    parts: &PartsCell,
    tracker: &TaskTracker,
    cancel: CancellationToken,
) -> ManifestsHandle {
    let (inbox, events) = mpsc::channel(INBOX_MAX);
    let mut machine = ManifestProvider::new(me, GrainManifest::default());
    let (published, manifest) = watch::channel(Arc::clone(machine.current()));
    let (network, parts) = (Arc::clone(network), Arc::clone(parts));
    let execute = move |command| {
        match command {
            Command::Send { to, message } => network.send(to, Lane::System, OneWay::Manifest(message)),
            Command::Published(manifest) => {
                published.send_replace(manifest);
            }
            Command::OwnGeneration(generation) => {
                if let Some(parts) = parts.get() {
                    parts.membership.offer(membership::Event::ManifestGeneration(generation));
                }
            }
            Command::WakeAt(time) => return Step::WakeAt(time),
        }
        Step::Done
    };
    tracker.spawn(drive(
        move |now, event, out| machine.handle(now, event, out),
        || Event::Tick,
        events,
        execute,
        cancel,
    ));
    ManifestsHandle { inbox, manifest }
}

impl ManifestsHandle {
    pub(crate) fn manifest(&self) -> watch::Receiver<Arc<ClusterManifest>> {
        self.manifest.clone()
    }

    pub(crate) fn message(&self, from: SiloAddress, message: ManifestMessage) {
        let _ = self.inbox.try_send(Event::Message { from, message });
    }

    pub(crate) fn peer_generation(&self, silo: SiloAddress, generation: u64) {
        let _ = self.inbox.try_send(Event::PeerGeneration { silo, generation });
    }

    /// This silo serves something else now. The machine compares; the same manifest changes nothing.
    pub(crate) async fn publish(&self, manifest: GrainManifest) {
        let _ = self.inbox.send(Event::OwnManifest(manifest)).await;
    }

    /// Installs a view; waits for room, since views must arrive.
    pub(crate) async fn view(&self, view: Arc<MembershipView>) {
        let _ = self.inbox.send(Event::ViewChanged(view)).await;
    }
}
