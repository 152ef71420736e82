//! The machine that spreads manifests: each silo's own to all others, and all others' to this one (spec A4 with
//! decision B1).
//!
//! A silo counts its manifests in generations. It announces each new one to all Active silos; its generation
//! also travels in every answered probe, so that a lost announcement is found out. Who hears of a newer
//! generation asks for its hash, and for the content only if nobody it knows has a manifest of that hash.
//!
//! Invariants:
//! - A manifest is taken only from its own silo, only if its recomputed hash is the announced one, and never in
//!   place of a newer generation. The old one keeps resolving until then.
//! - Published versions grow strictly. A silo that is not Active in a membership version is in no cluster
//!   manifest of that version (spec A4.4).
//! - Publishing never waits for the network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{SiloAddress, Time};
use crate::manifest::cluster::{ClusterManifest, ManifestVersion, SiloManifest};
use crate::manifest::{GrainManifest, ManifestHash};
use crate::membership::MembershipView;

/// A question without an answer is asked again after this time, which then doubles.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest time between two questions (spec A4.5).
const RETRY_MAX: Duration = Duration::from_secs(5);

/// What the manifest machines of two silos say to each other. Losing, repeating and reordering them is fine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManifestMessage {
    /// The sender's manifest is now this one.
    Announce {
        /// The sender's generation.
        generation: u64,
        /// The hash of that generation.
        hash: ManifestHash,
    },
    /// Which manifest is yours?
    GetHash,
    /// The answer to `GetHash`.
    Hash {
        /// The sender's generation.
        generation: u64,
        /// The hash of that generation.
        hash: ManifestHash,
    },
    /// Send your manifest that has this hash.
    Get {
        /// The hash.
        hash: ManifestHash,
    },
    /// The answer to `Get`.
    Body {
        /// The sender's newest generation.
        generation: u64,
        /// The manifest; `None` if neither of the sender's last two has the hash.
        manifest: Option<Arc<GrainManifest>>,
    },
}

/// An input of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestEvent {
    /// The time of the last [`ManifestCommand::WakeAt`] has come.
    Tick,
    /// A newer membership view.
    ViewChanged(Arc<MembershipView>),
    /// This silo's own manifest, after a deploy. The same content again changes nothing.
    OwnManifest(GrainManifest),
    /// A peer's probe says that its manifest has this generation.
    PeerGeneration {
        /// The peer.
        silo: SiloAddress,
        /// Its generation.
        generation: u64,
    },
    /// A message from another silo.
    Message {
        /// The incarnation that sent it.
        from: SiloAddress,
        /// The message.
        message: ManifestMessage,
    },
}

/// An output of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestCommand {
    /// Send a message, and forget it.
    Send {
        /// The incarnation to send to.
        to: SiloAddress,
        /// The message.
        message: ManifestMessage,
    },
    /// A newer cluster manifest.
    Published(Arc<ClusterManifest>),
    /// The own manifest has this generation now: tell the membership machine.
    OwnGeneration(u64),
    /// Send a [`ManifestEvent::Tick`] at this time. Replaces the earlier request.
    WakeAt(Time),
}

/// What is known of another Active silo.
#[derive(Debug)]
struct Peer {
    known: Option<SiloManifest>,
    /// The newest generation that the silo was heard to have.
    heard: u64,
    /// The newest generation whose hash is known.
    target: Option<(u64, ManifestHash)>,
    /// When the question in hand is asked again.
    retry_at: Time,
    retry_after: Duration,
}

impl Peer {
    /// A silo that was just seen Active: it has a first generation at least.
    fn new(now: Time) -> Self {
        Self { known: None, heard: 1, target: None, retry_at: now, retry_after: RETRY_FIRST }
    }

    fn known_generation(&self) -> u64 {
        self.known.as_ref().map_or(0, |known| known.generation)
    }

    fn incomplete(&self) -> bool {
        self.known_generation() < self.heard
    }

    /// What to ask the silo, as long as it is incomplete.
    fn question(&self) -> ManifestMessage {
        match self.target {
            Some((generation, hash)) if generation >= self.heard => ManifestMessage::Get { hash },
            _ => ManifestMessage::GetHash,
        }
    }

    /// There is a new question: ask it at once, and be patient anew.
    fn ask_now(&mut self, now: Time) {
        self.retry_at = now;
        self.retry_after = RETRY_FIRST;
    }
}

/// One silo's manifest machine.
#[derive(Debug)]
pub struct ManifestProvider {
    address: SiloAddress,
    own: SiloManifest,
    /// The own manifest before this one: somebody may be asking for it still (decision B1).
    previous: Option<Arc<GrainManifest>>,
    view: Arc<MembershipView>,
    /// The other Active silos of the view.
    peers: BTreeMap<SiloAddress, Peer>,
    published: Arc<ClusterManifest>,
    armed: Option<Time>,
}

impl ManifestProvider {
    /// A machine for the silo of this address; `manifest` is its generation 1.
    #[must_use]
    pub fn new(address: SiloAddress, manifest: GrainManifest) -> Self {
        let own = SiloManifest { generation: 1, manifest: Arc::new(manifest) };
        let published = Arc::new(ClusterManifest {
            version: ManifestVersion::MIN,
            silos: BTreeMap::new(),
            local: Arc::clone(&own.manifest),
        });
        Self {
            address,
            own,
            previous: None,
            view: Arc::default(),
            peers: BTreeMap::new(),
            published,
            armed: None,
        }
    }

    /// The newest cluster manifest; before the first view it has version [`ManifestVersion::MIN`] and no silos.
    #[must_use]
    pub fn current(&self) -> &Arc<ClusterManifest> {
        &self.published
    }

    /// The own manifest's generation, which starts at 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.own.generation
    }

    /// The Active silos whose newest manifest is not known yet.
    pub fn pending(&self) -> impl Iterator<Item = SiloAddress> + '_ {
        self.peers.iter().filter(|(_, peer)| peer.incomplete()).map(|(silo, _)| *silo)
    }

    /// Takes one event at the silo's own time `now` and appends what is to be done, in order.
    pub fn handle(&mut self, now: Time, event: ManifestEvent, out: &mut Vec<ManifestCommand>) {
        match event {
            ManifestEvent::Tick => self.armed = None,
            ManifestEvent::ViewChanged(view) => self.on_view(now, view, out),
            ManifestEvent::OwnManifest(manifest) => self.on_own(manifest, out),
            ManifestEvent::PeerGeneration { silo, generation } => self.on_generation(now, silo, generation),
            ManifestEvent::Message { from, message } => self.on_message(now, from, message, out),
        }
        self.ask(now, out);
        self.arm(now, out);
    }

    fn on_view(&mut self, now: Time, view: Arc<MembershipView>, out: &mut Vec<ManifestCommand>) {
        if view.version <= self.view.version {
            return; // Spec A4.14.
        }
        self.view = view;
        let (view, own) = (&self.view, self.address);
        self.peers.retain(|silo, _| view.is_active(*silo));
        for silo in view.active().filter(|silo| *silo != own) {
            self.peers.entry(silo).or_insert_with(|| Peer::new(now));
        }
        self.publish(ManifestVersion::of_view(self.view.version), out);
    }

    fn on_own(&mut self, manifest: GrainManifest, out: &mut Vec<ManifestCommand>) {
        if manifest == *self.own.manifest {
            return;
        }
        let generation = self.own.generation + 1;
        let manifest = self.shared(manifest.hash()).unwrap_or_else(|| Arc::new(manifest));
        let before = std::mem::replace(&mut self.own, SiloManifest { generation, manifest });
        self.previous = Some(before.manifest);
        out.push(ManifestCommand::OwnGeneration(generation));
        let hash = self.own.manifest.hash();
        out.extend(self.peers.keys().map(|to| ManifestCommand::Send {
            to: *to,
            message: ManifestMessage::Announce { generation, hash },
        }));
        self.publish(self.published.version.next_minor(), out);
    }

    fn on_generation(&mut self, now: Time, silo: SiloAddress, generation: u64) {
        if let Some(peer) = self.peers.get_mut(&silo)
            && generation > peer.heard
        {
            peer.heard = generation;
            peer.ask_now(now);
        }
    }

    fn on_message(
        &mut self,
        now: Time,
        from: SiloAddress,
        message: ManifestMessage,
        out: &mut Vec<ManifestCommand>,
    ) {
        let generation = self.own.generation;
        let answer = match message {
            ManifestMessage::GetHash => {
                Some(ManifestMessage::Hash { generation, hash: self.own.manifest.hash() })
            }
            ManifestMessage::Get { hash } => {
                let mut last_two = std::iter::once(&self.own.manifest).chain(&self.previous);
                let manifest = last_two.find(|manifest| manifest.hash() == hash).cloned();
                Some(ManifestMessage::Body { generation, manifest })
            }
            ManifestMessage::Announce { generation, hash } | ManifestMessage::Hash { generation, hash } => {
                self.on_hash(now, from, generation, hash, out);
                None
            }
            ManifestMessage::Body { generation, manifest } => {
                self.on_generation(now, from, generation);
                self.on_body(from, manifest, out);
                None
            }
        };
        out.extend(answer.map(|message| ManifestCommand::Send { to: from, message }));
    }

    fn on_hash(
        &mut self,
        now: Time,
        from: SiloAddress,
        generation: u64,
        hash: ManifestHash,
        out: &mut Vec<ManifestCommand>,
    ) {
        let shared = self.shared(hash);
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let newest = peer.target.map_or(0, |(target, _)| target).max(peer.known_generation());
        if generation <= newest {
            return;
        }
        peer.heard = peer.heard.max(generation);
        peer.target = Some((generation, hash));
        peer.ask_now(now);
        if let Some(manifest) = shared {
            self.take(from, SiloManifest { generation, manifest }, out);
        }
    }

    fn on_body(
        &mut self,
        from: SiloAddress,
        manifest: Option<Arc<GrainManifest>>,
        out: &mut Vec<ManifestCommand>,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some((generation, hash)) = peer.target else { return };
        match manifest {
            // It has a newer one by now: ask which, when it is time to ask again.
            None => peer.target = None,
            Some(manifest) if manifest.hash() == hash && generation > peer.known_generation() => {
                let manifest = self.shared(hash).unwrap_or(manifest);
                self.take(from, SiloManifest { generation, manifest }, out);
            }
            Some(_) => {}
        }
    }

    fn take(&mut self, from: SiloAddress, manifest: SiloManifest, out: &mut Vec<ManifestCommand>) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.known = Some(manifest);
            self.publish(self.published.version.next_minor(), out);
        }
    }

    /// A manifest of this hash that is in use already.
    fn shared(&self, hash: ManifestHash) -> Option<Arc<GrainManifest>> {
        let peers = self.peers.values().filter_map(|peer| peer.known.as_ref()).map(|known| &known.manifest);
        let own = std::iter::once(&self.own.manifest).chain(&self.previous);
        own.chain(peers).find(|manifest| manifest.hash() == hash).cloned()
    }

    fn publish(&mut self, version: ManifestVersion, out: &mut Vec<ManifestCommand>) {
        let own = self.view.is_active(self.address).then(|| (self.address, self.own.clone()));
        let peers = self.peers.iter().filter_map(|(silo, peer)| Some((*silo, peer.known.clone()?)));
        self.published = Arc::new(ClusterManifest {
            version,
            silos: peers.chain(own).collect(),
            local: Arc::clone(&self.own.manifest),
        });
        out.push(ManifestCommand::Published(Arc::clone(&self.published)));
    }

    /// Asks every question that is due.
    fn ask(&mut self, now: Time, out: &mut Vec<ManifestCommand>) {
        for (silo, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.incomplete()) {
            if peer.retry_at <= now {
                out.push(ManifestCommand::Send { to: *silo, message: peer.question() });
                peer.retry_at = now.after(peer.retry_after);
                peer.retry_after = (peer.retry_after * 2).min(RETRY_MAX);
            }
        }
    }

    fn arm(&mut self, now: Time, out: &mut Vec<ManifestCommand>) {
        let due = self.peers.values().filter(|peer| peer.incomplete()).map(|peer| peer.retry_at).min();
        let Some(due) = due.map(|due| due.max(now)) else {
            self.armed = None;
            return;
        };
        if self.armed != Some(due) {
            self.armed = Some(due);
            out.push(ManifestCommand::WakeAt(due));
        }
    }
}

#[cfg(test)]
mod tests;
