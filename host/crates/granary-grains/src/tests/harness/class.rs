//! A grain class that does what a test says.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use granary_core::hosting::{
    ActivationHost, ActivationIdentity, BoxFuture, ClassError, ClassInfo, GrainClass, GrainInstance,
    InterfaceInfo, LifecycleRequest, Limits, MethodInfo, MethodRef, OutgoingCall, Overlap, OverlappingTurns,
    TextFormat, TrapKind, Turn, TurnContext, TurnFailure,
};
use granary_core::id::{ActivationId, Digest, GrainId, GrainType};
use tokio::sync::{Semaphore, mpsc};

use super::{INTERFACE, grain, hash, method};

const METHODS: [&str; 13] = [
    "add",
    "get",
    "trap",
    "bad",
    "wait",
    "call",
    "wait-call",
    "send",
    "write",
    "read",
    "stop",
    "move",
    "calls-self",
];

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
    pub(crate) in_turn: Mutex<HashMap<GrainId, ActivationId>>,
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
            asynchronous: false,
            reentrant: false,
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
        let (behaviour, reentrant) = (Arc::clone(&self.behaviour), self.info.reentrant);
        Box::pin(async move {
            behaviour.lifecycle("instantiate").await?;
            let instance = Instance { host, behaviour, reentrant, value: 0, etag: None };
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
    reentrant: bool,
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
            "call" | "wait-call" | "send" | "calls-self" => {
                if name == "wait-call" {
                    self.behaviour.pass().await;
                }
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

/// Overlapping turns, each with a value of its own.
struct Beside {
    host: Arc<dyn ActivationHost>,
    behaviour: Arc<Behaviour>,
    /// Tells the driver of a trap, and, when all are dropped, that no turn is left.
    trapped: mpsc::UnboundedSender<TurnFailure>,
}

impl OverlappingTurns for Beside {
    fn start(
        &self,
        method: MethodRef,
        args: Vec<u8>,
        context: TurnContext,
    ) -> BoxFuture<'static, Result<Vec<u8>, TurnFailure>> {
        let (host, behaviour) = (Arc::clone(&self.host), Arc::clone(&self.behaviour));
        let trapped = self.trapped.clone();
        Box::pin(async move {
            let mut turn = Instance { host, behaviour, reentrant: true, value: 0, etag: None };
            let result = turn.run(Turn::Invoke { method, args }, context).await;
            if let Err(failure @ TurnFailure::Trapped { .. }) = &result {
                let _ = trapped.send(failure.clone());
            }
            result
        })
    }
}

impl GrainInstance for Instance {
    fn overlap(&mut self) -> Option<Overlap<'_>> {
        if !self.reentrant {
            return None;
        }
        let (trapped, mut traps) = mpsc::unbounded_channel();
        let turns = Beside { host: Arc::clone(&self.host), behaviour: Arc::clone(&self.behaviour), trapped };
        let driver = Box::pin(async move { traps.recv().await.map_or(Ok(()), Err) });
        Some(Overlap { turns: Arc::new(turns), driver })
    }

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
