//! What silos share and reach: directory, links and deployed types, with faults on command.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use granary_core::deadlock::DeadlockMessage;
use granary_core::directory::GrainAddress;
use granary_core::hosting::{ActivationIdentity, BoxFuture, CallError, GrainClass, LogLevel};
use granary_core::id::{ActivationId, Digest, GrainId, GrainType, SiloAddress};
use granary_core::wire::{CallReply, CallRequest, MigrateReply, MigrateRequest};
use granary_store::MemoryStore;
use tokio::time::timeout;

use super::Class;
use crate::Grains;
use crate::seams::{Directory, DirectoryError, LogSink, MoveOutcome, PeerError, Peers, ThawOutcome, Types};

/// How the next question of a kind fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not done, and the asker knows.
    Refused,
    /// Not done, and the asker does not know.
    RequestLost,
    /// Done, and the asker does not know.
    ReplyLost,
}

/// State that all silos share.
#[derive(Default)]
pub(crate) struct World {
    entries: Mutex<HashMap<GrainId, GrainAddress>>,
    pub(crate) frozen: Mutex<HashMap<ActivationId, GrainAddress>>,
    fences: AtomicU64,
    pub(crate) silos: Mutex<BTreeMap<SiloAddress, Grains>>,
    pub(crate) down: Mutex<BTreeSet<SiloAddress>>,
    pub(crate) inactive: Mutex<BTreeSet<SiloAddress>>,
    /// Faults of the next questions: "register", "move", "restore", "go", "abort", "invoke".
    pub(crate) faults: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    pub(crate) classes: Mutex<BTreeMap<(SiloAddress, GrainType), Arc<Class>>>,
    pub(crate) state: MemoryStore,
}

impl World {
    pub(crate) fn fault(&self, kind: &'static str, fault: Fault) {
        self.faults.lock().unwrap().entry(kind).or_default().push_back(fault);
    }

    fn next_fault(&self, kind: &'static str) -> Option<Fault> {
        self.faults.lock().unwrap().get_mut(kind).and_then(VecDeque::pop_front)
    }

    pub(crate) fn entry(&self, grain: &GrainId) -> Option<GrainAddress> {
        self.entries.lock().unwrap().get(grain).cloned()
    }

    pub(crate) fn set_entry(&self, grain: &GrainId, silo: SiloAddress) {
        let address = GrainAddress {
            grain: grain.clone(),
            activation: ActivationId(77),
            silo,
            fence: 1,
            previous: None,
        };
        self.entries.lock().unwrap().insert(grain.clone(), address);
    }

    /// A silo is dead: nobody reaches it, and its entries are gone.
    pub(crate) fn kill(&self, silo: SiloAddress) {
        self.down.lock().unwrap().insert(silo);
        self.inactive.lock().unwrap().insert(silo);
        self.entries.lock().unwrap().retain(|_, entry| entry.silo != silo);
    }

    fn stored(&self, mut address: GrainAddress) -> GrainAddress {
        address.fence = self.fences.fetch_add(1, Ordering::SeqCst) + 10;
        self.entries.lock().unwrap().insert(address.grain.clone(), address.clone());
        address
    }

    fn moved(&self, from: ActivationId, to: GrainAddress) -> MoveOutcome {
        match self.entry(&to.grain) {
            Some(entry) if entry.activation == from => {
                if self.frozen.lock().unwrap().contains_key(&to.activation) {
                    return MoveOutcome::Moved(self.stored(to));
                }
                MoveOutcome::NotMoved
            }
            other => MoveOutcome::Lost(other),
        }
    }
}

pub(crate) struct FakeDirectory(pub(crate) Arc<World>);

impl Directory for FakeDirectory {
    fn register(
        &self,
        address: GrainAddress,
        previous: Option<ActivationId>,
    ) -> BoxFuture<'_, Result<GrainAddress, DirectoryError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.0.next_fault("register").is_some() {
                return Err(DirectoryError::Refused("the view changes".to_owned()));
            }
            match self.0.entry(&address.grain) {
                Some(entry) if Some(entry.activation) != previous => Ok(entry),
                _ => Ok(self.0.stored(address)),
            }
        })
    }

    fn lookup(&self, grain: GrainId) -> BoxFuture<'_, Result<Option<GrainAddress>, DirectoryError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(self.0.entry(&grain))
        })
    }

    fn unregister(
        &self,
        grain: GrainId,
        activation: ActivationId,
    ) -> BoxFuture<'_, Result<(), DirectoryError>> {
        Box::pin(async move {
            let mut entries = self.0.entries.lock().unwrap();
            if entries.get(&grain).is_some_and(|entry| entry.activation == activation) {
                entries.remove(&grain);
            }
            Ok(())
        })
    }

    fn move_to(
        &self,
        from: ActivationId,
        to: GrainAddress,
    ) -> BoxFuture<'_, Result<MoveOutcome, DirectoryError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let unavailable = || Err(DirectoryError::Unavailable("lost".to_owned()));
            match self.0.next_fault("move") {
                Some(Fault::Refused) => Err(DirectoryError::Refused("too much to do".to_owned())),
                Some(Fault::RequestLost) => unavailable(),
                Some(Fault::ReplyLost) => {
                    self.0.moved(from, to);
                    unavailable()
                }
                None => Ok(self.0.moved(from, to)),
            }
        })
    }

    fn add_frozen(&self, address: GrainAddress) -> BoxFuture<'_, Result<(), DirectoryError>> {
        self.0.frozen.lock().unwrap().insert(address.activation, address);
        Box::pin(async { Ok(()) })
    }

    fn drop_frozen(&self, _: GrainId, activation: ActivationId) -> BoxFuture<'_, Result<(), DirectoryError>> {
        self.0.frozen.lock().unwrap().remove(&activation);
        Box::pin(async { Ok(()) })
    }

    fn thaw(
        &self,
        grain: GrainId,
        activation: ActivationId,
    ) -> BoxFuture<'_, Result<ThawOutcome, DirectoryError>> {
        let previous = self.0.frozen.lock().unwrap().get(&activation).and_then(|address| address.previous);
        let outcome = match self.0.entry(&grain) {
            Some(entry) if entry.activation == activation => {
                self.0.frozen.lock().unwrap().remove(&activation);
                ThawOutcome::Registered(entry)
            }
            Some(entry) if Some(entry.activation) == previous => ThawOutcome::NotYet,
            other => ThawOutcome::Lost(other),
        };
        Box::pin(async { Ok(outcome) })
    }
}

pub(crate) struct FakePeers {
    pub(crate) me: SiloAddress,
    pub(crate) world: Arc<World>,
}

impl FakePeers {
    fn target(&self, to: SiloAddress) -> Result<Grains, PeerError> {
        let down = self.world.down.lock().unwrap();
        match self.world.silos.lock().unwrap().get(&to) {
            Some(grains) if !down.contains(&to) && !down.contains(&self.me) => Ok(grains.clone()),
            _ => Err(PeerError::NotDelivered(format!("no connection to {to}"))),
        }
    }

    async fn ask<T>(
        &self,
        kind: &'static str,
        limit: Duration,
        served: impl Future<Output = T>,
    ) -> Result<T, PeerError> {
        match self.world.next_fault(kind) {
            Some(Fault::Refused) => return Err(PeerError::NotDelivered("no connection".to_owned())),
            Some(Fault::RequestLost) => return Err(PeerError::UnknownOutcome("lost".to_owned())),
            Some(Fault::ReplyLost) => {
                let _ = timeout(limit, served).await;
                return Err(PeerError::UnknownOutcome("lost".to_owned()));
            }
            None => {}
        }
        timeout(limit, served).await.map_err(|_| PeerError::TimedOut)
    }
}

impl Peers for FakePeers {
    fn invoke(
        &self,
        to: SiloAddress,
        request: CallRequest,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<CallReply, PeerError>> {
        Box::pin(async move {
            let target = self.target(to)?;
            let reply = self.ask("invoke", timeout, target.handle_invoke(self.me, request, timeout)).await?;
            if self.world.down.lock().unwrap().contains(&to) {
                return Err(PeerError::UnknownOutcome("the connection broke".to_owned()));
            }
            Ok(reply)
        })
    }

    fn tell(&self, to: SiloAddress, message: DeadlockMessage) {
        if let Ok(target) = self.target(to) {
            target.handle_deadlock(message);
        }
    }

    fn migrate(
        &self,
        to: SiloAddress,
        request: MigrateRequest,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<MigrateReply, PeerError>> {
        Box::pin(async move {
            let target = self.target(to)?;
            let kind = match &request {
                MigrateRequest::Restore(_) => "restore",
                MigrateRequest::Go { .. } => "go",
                MigrateRequest::Abort { .. } => "abort",
            };
            self.ask(kind, timeout, target.handle_migrate(self.me, request)).await
        })
    }
}

pub(crate) struct FakeTypes {
    pub(crate) me: SiloAddress,
    pub(crate) world: Arc<World>,
}

impl Types for FakeTypes {
    fn class(&self, grain_type: &GrainType) -> Option<Arc<dyn GrainClass>> {
        let classes = self.world.classes.lock().unwrap();
        classes.get(&(self.me, grain_type.clone())).map(|class| Arc::clone(class) as Arc<dyn GrainClass>)
    }

    fn class_by_digest(&self, grain_type: &GrainType, digest: &Digest) -> Option<Arc<dyn GrainClass>> {
        self.class(grain_type).filter(|class| class.info().digest == *digest)
    }

    fn resolve(&self, interface: &str) -> Result<GrainType, CallError> {
        let classes = self.world.classes.lock().unwrap();
        let found =
            classes.iter().find(|(_, class)| class.info.interfaces.iter().any(|known| known.id == interface));
        found
            .map(|((_, grain_type), _)| grain_type.clone())
            .ok_or_else(|| CallError::NotFound(interface.to_owned()))
    }

    fn silos_for(&self, grain_type: &GrainType) -> Vec<SiloAddress> {
        let inactive = self.world.inactive.lock().unwrap();
        let classes = self.world.classes.lock().unwrap();
        classes
            .keys()
            .filter(|key| key.1 == *grain_type && !inactive.contains(&key.0))
            .map(|key| key.0)
            .collect()
    }

    fn known_types(&self) -> Vec<GrainType> {
        let classes = self.world.classes.lock().unwrap();
        classes.keys().map(|key| key.1.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn silo_by_name(&self, name: &str) -> Option<SiloAddress> {
        let silos = self.world.silos.lock().unwrap();
        silos.keys().copied().find(|silo| name == format!("silo-{}", silo.port))
    }

    fn is_active(&self, silo: SiloAddress) -> bool {
        let known = self.world.silos.lock().unwrap().contains_key(&silo);
        known && !self.world.inactive.lock().unwrap().contains(&silo)
    }

    fn is_gone(&self, silo: SiloAddress) -> bool {
        !self.is_active(silo)
    }
}

pub(crate) struct NoLog;

impl LogSink for NoLog {
    fn line(&self, _: &ActivationIdentity, _: LogLevel, _: &str, _: &str) {}
}
