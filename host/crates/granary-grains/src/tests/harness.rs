//! A cluster in one process.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use granary_core::directory::GrainAddress;
use granary_core::hosting::{
    ActivationHost, ActivationIdentity, BoxFuture, CallError, ClassError, ClassInfo, GrainClass,
    GrainInstance, InterfaceInfo, LifecycleRequest, Limits, LogLevel, MethodInfo, MethodRef, OutgoingCall,
    TextFormat, TrapKind, Turn, TurnContext, TurnFailure,
};
use granary_core::id::{ActivationId, Digest, GrainId, GrainType, SiloAddress};
use granary_core::wire::{CallReply, CallRequest, MigrateReply, MigrateRequest};
use granary_store::{GrainStateStore, MemoryStore};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::seams::{
    Directory, DirectoryError, LogSink, MoveOutcome, PeerError, Peers, Seams, ThawOutcome, Types,
};
use crate::{Grains, GrainsOptions};

pub(crate) const INTERFACE: &str = "test:counter/counter";
const METHODS: [&str; 12] =
    ["add", "get", "trap", "bad", "wait", "call", "send", "write", "read", "stop", "move", "calls-self"];

pub(crate) fn silo(n: u16) -> SiloAddress {
    format!("127.0.0.1:{n}@1").parse().unwrap()
}

pub(crate) fn grain(text: &str) -> GrainId {
    text.parse().unwrap()
}

pub(crate) fn hash(method: &str) -> Digest {
    Digest::of(method.as_bytes())
}

pub(crate) fn method(name: &str) -> MethodRef {
    MethodRef { interface: INTERFACE.to_owned(), method: name.to_owned(), hash: hash(name) }
}

pub(crate) fn request(to: &str, name: &str, args: &[u8]) -> CallRequest {
    CallRequest {
        to: grain(to),
        method: method(name),
        args: args.to_vec(),
        context: TurnContext::default(),
        call_id: 0,
        forwards: 0,
        one_way: false,
        may_activate: false,
    }
}

/// What all instances of a cluster do, and what they did.
#[derive(Default)]
pub(crate) struct Behaviour {
    /// Ends of the next `activate`, `dehydrate`, `rehydrate` and `deactivate` turns; success when empty.
    pub(crate) script: Mutex<HashMap<&'static str, VecDeque<TurnFailure>>>,
    /// One permit lets one `wait` turn, or one held lifecycle turn, end.
    pub(crate) gate: Option<Semaphore>,
    /// Lifecycle turns that wait at the gate.
    pub(crate) held: Mutex<BTreeSet<&'static str>>,
    pub(crate) events: Mutex<Vec<String>>,
    /// Instances that are in a turn, by grain: more than one is a violation.
    in_turn: Mutex<HashMap<GrainId, ActivationId>>,
    pub(crate) violations: AtomicU64,
}

impl Behaviour {
    fn note(&self, text: String) {
        self.events.lock().unwrap().push(text);
    }

    pub(crate) fn script(&self, turn: &'static str, failure: TurnFailure) {
        self.script.lock().unwrap().entry(turn).or_default().push_back(failure);
    }

    pub(crate) fn count(&self, event: &str) -> usize {
        self.events.lock().unwrap().iter().filter(|known| known.contains(event)).count()
    }

    async fn lifecycle(&self, turn: &'static str) -> Result<(), TurnFailure> {
        if self.held.lock().unwrap().contains(turn) {
            self.pass().await;
        }
        match self.script.lock().unwrap().get_mut(turn).and_then(VecDeque::pop_front) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    async fn pass(&self) {
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
    }
}

pub(crate) fn trap(message: &str) -> TurnFailure {
    TurnFailure::Trapped { kind: TrapKind::Panic, message: message.to_owned() }
}

pub(crate) struct Class {
    pub(crate) info: ClassInfo,
    pub(crate) behaviour: Arc<Behaviour>,
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Class")
    }
}

impl Class {
    pub(crate) fn new(grain_type: &str, behaviour: &Arc<Behaviour>) -> Self {
        let methods = METHODS.map(|name| {
            let signature = format!("func({name})");
            (
                name.to_owned(),
                MethodInfo { hash: hash(name), params_hash: hash(name), signature, no_result: false },
            )
        });
        let interface = InterfaceInfo {
            id: INTERFACE.to_owned(),
            version: "1.0.0".to_owned(),
            methods: BTreeMap::from(methods),
        };
        let info = ClassInfo {
            grain_type: GrainType::new(grain_type).unwrap(),
            digest: Digest::of(grain_type.as_bytes()),
            interfaces: vec![interface],
            references: Vec::new(),
            has_lifecycle: true,
            has_migration: true,
            properties: BTreeMap::new(),
            limits: Limits::default(),
        };
        Self { info, behaviour: Arc::clone(behaviour) }
    }
}

impl GrainClass for Class {
    fn info(&self) -> &ClassInfo {
        &self.info
    }

    fn method(&self, name: &str) -> Result<MethodRef, ClassError> {
        let short = name.rsplit('.').next().unwrap_or(name);
        if METHODS.contains(&short) {
            return Ok(method(short));
        }
        Err(ClassError::Method(format!("no method {name}; there are {}", METHODS.join(", "))))
    }

    fn args_from_text(&self, _: &MethodRef, _: TextFormat, text: &str) -> Result<Vec<u8>, ClassError> {
        match text.parse::<u64>() {
            Ok(number) => Ok(number.to_le_bytes().to_vec()),
            Err(_) => Err(ClassError::Value { path: "$[0]".to_owned(), message: "expected u64".to_owned() }),
        }
    }

    fn result_to_text(&self, _: &MethodRef, _: TextFormat, result: &[u8]) -> Result<String, ClassError> {
        Ok(number(result).to_string())
    }

    fn instantiate(
        &self,
        host: Arc<dyn ActivationHost>,
    ) -> BoxFuture<'_, Result<Box<dyn GrainInstance>, TurnFailure>> {
        let behaviour = Arc::clone(&self.behaviour);
        Box::pin(async move {
            behaviour.lifecycle("instantiate").await?;
            let instance = Instance { host, behaviour, value: 0, etag: None };
            Ok(Box::new(instance) as Box<dyn GrainInstance>)
        })
    }
}

pub(crate) fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

struct Instance {
    host: Arc<dyn ActivationHost>,
    behaviour: Arc<Behaviour>,
    value: u64,
    etag: Option<String>,
}

impl Instance {
    async fn invoke(
        &mut self,
        name: &str,
        args: Vec<u8>,
        context: TurnContext,
    ) -> Result<Vec<u8>, TurnFailure> {
        let text = || String::from_utf8(args.clone()).unwrap();
        match name {
            "add" => {
                // A suspension inside the turn, so that an overlap would show.
                let before = self.value;
                tokio::task::yield_now().await;
                self.value = before + number(&args);
            }
            "get" => {}
            "trap" => return Err(trap("the guest panicked")),
            "bad" => return Err(TurnFailure::BadRequest("these are no arguments".to_owned())),
            "wait" => self.behaviour.pass().await,
            "call" | "send" | "calls-self" => {
                // "grain method": calls it without arguments, or with a call to itself further on.
                let text = text();
                let (to, rest) = text.split_once(' ').unwrap();
                let (name, args) = rest.split_once(' ').unwrap_or((rest, ""));
                let call = OutgoingCall {
                    to: grain(to),
                    method: method(name),
                    args: args.as_bytes().to_vec(),
                    one_way: name == "send" || args == "one-way",
                    context,
                };
                return match self.host.call(call).await {
                    Ok(bytes) => Ok(bytes),
                    Err(error) => Err(TurnFailure::Refused(format!("{error}"))),
                };
            }
            "write" => {
                let written = self.host.state_write("v", args.clone(), self.etag.clone()).await;
                self.etag = Some(written.map_err(|error| TurnFailure::Refused(error.to_string()))?);
            }
            "read" => {
                let read = self.host.state_read("v").await;
                let read = read.map_err(|error| TurnFailure::Refused(error.to_string()))?;
                self.etag = read.as_ref().map(|value| value.etag.clone());
                return Ok(read.map(|value| value.value).unwrap_or_default());
            }
            "stop" => self.host.request(LifecycleRequest::DeactivateOnIdle),
            "move" => self.host.request(LifecycleRequest::MigrateOnIdle(None)),
            other => return Err(TurnFailure::BadRequest(format!("no {other}"))),
        }
        Ok(self.value.to_le_bytes().to_vec())
    }

    async fn run(&mut self, turn: Turn, context: TurnContext) -> Result<Vec<u8>, TurnFailure> {
        let ActivationIdentity { grain, silo, .. } = self.host.identity().clone();
        match turn {
            Turn::Invoke { method, args } => {
                assert_eq!(context.chain.last(), Some(&grain));
                self.behaviour.note(format!("{grain} {} on {silo}", method.method));
                self.invoke(&method.method, args, context).await
            }
            Turn::Activate => {
                self.behaviour.note(format!("{grain} activate on {silo}"));
                self.behaviour.lifecycle("activate").await.map(|()| Vec::new())
            }
            Turn::Deactivate(reason) => {
                self.behaviour.note(format!("{grain} deactivate {reason:?} on {silo}"));
                self.behaviour.lifecycle("deactivate").await.map(|()| Vec::new())
            }
            Turn::Dehydrate => {
                self.behaviour.lifecycle("dehydrate").await?;
                Ok(self.value.to_le_bytes().to_vec())
            }
            Turn::Rehydrate(state) => {
                self.behaviour.lifecycle("rehydrate").await?;
                self.value = number(&state);
                Ok(Vec::new())
            }
        }
    }
}

impl GrainInstance for Instance {
    fn turn(&mut self, turn: Turn, context: TurnContext) -> BoxFuture<'_, Result<Vec<u8>, TurnFailure>> {
        Box::pin(async move {
            // Only the turns of running activations exclude each other; a frozen target may restore beside its source.
            let counts = matches!(turn, Turn::Invoke { .. });
            let identity = self.host.identity().clone();
            let behaviour = Arc::clone(&self.behaviour);
            if counts {
                let other =
                    behaviour.in_turn.lock().unwrap().insert(identity.grain.clone(), identity.activation);
                behaviour.violations.fetch_add(u64::from(other.is_some()), Ordering::SeqCst);
            }
            let result = self.run(turn, context).await;
            if counts {
                behaviour.in_turn.lock().unwrap().remove(&identity.grain);
            }
            result
        })
    }
}

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
    frozen: Mutex<HashMap<ActivationId, GrainAddress>>,
    fences: AtomicU64,
    silos: Mutex<BTreeMap<SiloAddress, Grains>>,
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

struct FakeDirectory(Arc<World>);

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

struct FakePeers {
    me: SiloAddress,
    world: Arc<World>,
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

struct FakeTypes {
    me: SiloAddress,
    world: Arc<World>,
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
}

struct NoLog;

impl LogSink for NoLog {
    fn line(&self, _: &ActivationIdentity, _: LogLevel, _: &str, _: &str) {}
}

/// Some silos, all of which serve the type `counter`.
pub(crate) struct Cluster {
    pub(crate) world: Arc<World>,
    pub(crate) behaviour: Arc<Behaviour>,
    pub(crate) silos: Vec<Grains>,
    pub(crate) stop: CancellationToken,
    pub(crate) tracker: TaskTracker,
}

impl Cluster {
    pub(crate) fn new(silos: u16) -> Self {
        Self::with(silos, |_| {})
    }

    /// A cluster whose class is changed before it is deployed.
    pub(crate) fn with(silos: u16, change: impl Fn(&mut Class)) -> Self {
        let behaviour = Arc::new(Behaviour { gate: Some(Semaphore::new(0)), ..Behaviour::default() });
        let mut cluster = Self {
            world: Arc::new(World::default()),
            behaviour,
            silos: Vec::new(),
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
        };
        for n in 1..=silos {
            cluster.deploy(n, "counter", &change);
            let grains = cluster.grains(n);
            cluster.world.silos.lock().unwrap().insert(silo(n), grains.clone());
            cluster.silos.push(grains);
        }
        cluster
    }

    fn grains(&self, n: u16) -> Grains {
        let world = Arc::clone(&self.world);
        let seams = Seams {
            directory: Arc::new(FakeDirectory(Arc::clone(&world))),
            peers: Arc::new(FakePeers { me: silo(n), world: Arc::clone(&world) }),
            types: Arc::new(FakeTypes { me: silo(n), world: Arc::clone(&world) }),
            state: Arc::new(world.state.clone()) as Arc<dyn GrainStateStore>,
            logs: Arc::new(NoLog),
        };
        let seed = [u8::try_from(n).unwrap(); 32];
        let options = GrainsOptions::new(silo(n), &format!("silo-{n}"), seed);
        Grains::new(options, seams, self.tracker.clone(), self.stop.clone())
    }

    pub(crate) fn deploy(&self, n: u16, grain_type: &str, change: impl Fn(&mut Class)) {
        let mut class = Class::new(grain_type, &self.behaviour);
        change(&mut class);
        let key = (silo(n), class.info.grain_type.clone());
        self.world.classes.lock().unwrap().insert(key, Arc::new(class));
    }

    /// Calls from silo `n`.
    pub(crate) async fn call(
        &self,
        n: usize,
        to: &str,
        name: &str,
        args: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        self.silos[n - 1].call(request(to, name, args), None).await.outcome
    }

    pub(crate) async fn add(&self, n: usize, to: &str) -> Result<u64, CallError> {
        self.call(n, to, "add", &1_u64.to_le_bytes()).await.map(|bytes| number(&bytes))
    }

    /// Begins a call and waits until it was taken into a mailbox, or began its turn.
    pub(crate) async fn begin(
        &self,
        n: usize,
        to: &str,
        name: &str,
        args: &[u8],
    ) -> tokio::task::JoinHandle<Result<Vec<u8>, CallError>> {
        let load = || -> usize {
            let all = self.silos.iter().filter_map(|silo| silo.describe(&grain(to)));
            all.map(|summary| summary.mailbox + usize::from(summary.running)).sum()
        };
        let before = load();
        let (silo, request) = (self.silos[n - 1].clone(), request(to, name, args));
        let begun = tokio::spawn(async move { silo.call(request, None).await.outcome });
        until(|| load() > before).await;
        begun
    }

    pub(crate) fn open_gate(&self, permits: usize) {
        self.behaviour.gate.as_ref().unwrap().add_permits(permits);
    }

    /// Where the grain's only activation is.
    pub(crate) fn place_of(&self, text: &str) -> usize {
        let mut places = Vec::new();
        for (index, silo) in self.silos.iter().enumerate() {
            places.extend(silo.describe(&grain(text)).map(|_| index + 1));
        }
        assert_eq!(places.len(), 1, "{text} is on {places:?}");
        places[0]
    }

    /// Makes an activation on this silo.
    pub(crate) async fn activate_on(&self, n: u16, text: &str) {
        let mut request = request(text, "get", &[]);
        request.may_activate = true;
        let reply =
            self.silos[usize::from(n) - 1].handle_invoke(silo(9), request, Duration::from_secs(5)).await;
        reply.outcome.unwrap();
        assert_eq!(self.place_of(text), usize::from(n));
    }
}

/// Lets other tasks run until the condition holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the condition never came to hold");
}
