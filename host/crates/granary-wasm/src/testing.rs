//! Components for tests, made from WIT and hand-written core modules, and a host that remembers what it was asked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use granary_core::hosting::{
    ActivationHost, ActivationIdentity, BoxFuture, CallError, LifecycleRequest, LogLevel, OutgoingCall,
    StateError, StateValue, TurnContext,
};
use granary_core::id::{ActivationId, GrainId, SiloAddress};
use granary_wit::push_grain_package;
use tokio::sync::Semaphore;
use wasm_encoder::{ComponentSection as _, CustomSection};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve, WorldId};

use crate::class::Class;
use crate::engine::{EngineConfig, WasmEngine};
use crate::grants::Grants;
use crate::inspect::{Inspection, inspect};

/// The parts of WASI that the tests import, in the shape of version 0.2.
pub(crate) const WASI: &str = r#"
package wasi:io@0.2.6 {
    interface error { resource error { to-debug-string: func() -> string; } }
    interface poll {
        resource pollable { ready: func() -> bool; block: func(); }
        poll: func(in: list<borrow<pollable>>) -> list<u32>;
    }
    interface streams {
        use error.{error};
        use poll.{pollable};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream {
            check-write: func() -> result<u64, stream-error>;
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
            subscribe: func() -> pollable;
        }
    }
}
package wasi:cli@0.2.6 {
    interface stdout { use wasi:io/streams@0.2.6.{output-stream}; get-stdout: func() -> output-stream; }
    interface stderr { use wasi:io/streams@0.2.6.{output-stream}; get-stderr: func() -> output-stream; }
    interface environment { get-environment: func() -> list<tuple<string, string>>; }
    interface exit { exit: func(status: result); }
}
package wasi:clocks@0.2.6 {
    interface monotonic-clock {
        use wasi:io/poll@0.2.6.{pollable};
        now: func() -> u64;
        subscribe-duration: func(when: u64) -> pollable;
    }
}
package wasi:random@0.2.6 {
    interface random { get-random-bytes: func(len: u64) -> list<u8>; get-random-u64: func() -> u64; }
}
package wasi:sockets@0.2.6 {
    interface network { resource network; enum error-code { unknown, access-denied } }
    interface instance-network { use network.{network}; instance-network: func() -> network; }
    interface ip-name-lookup {
        use network.{network, error-code};
        resolve-addresses: func(network: borrow<network>, name: string) -> result<_, error-code>;
    }
}
"#;

/// Resolves WIT text whose world is called `w`; `granary:grain` is there already.
pub(crate) fn resolve(wit: &str) -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    push_grain_package(&mut resolve).unwrap();
    let package = resolve.push_source("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    (resolve, world)
}

/// A component from WIT text and a core module in text form.
pub(crate) fn component(wit: &str, core: &str) -> Vec<u8> {
    let (resolve, world) = resolve(wit);
    encode(&resolve, world, wat::parse_str(core).unwrap())
}

/// A component whose functions trap.
pub(crate) fn dummy(wit: &str) -> Vec<u8> {
    let (resolve, world) = resolve(wit);
    let core = wit_component::dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    encode(&resolve, world, core)
}

/// A component whose functions trap, the asynchronous ones lifted and lowered as such.
pub(crate) fn dummy_async(wit: &str) -> Vec<u8> {
    let (resolve, world) = resolve(wit);
    dummy_async_of(&resolve, world)
}

pub(crate) fn dummy_async_of(resolve: &Resolve, world: WorldId) -> Vec<u8> {
    let abi = ManglingAndAbi::Legacy(LiftLowerAbi::AsyncCallback);
    encode(resolve, world, wit_component::dummy_module(resolve, world, abi))
}

fn encode(resolve: &Resolve, world: WorldId, core: Vec<u8>) -> Vec<u8> {
    encode_as(resolve, world, core, StringEncoding::UTF8)
}

/// A component whose core module has its strings in this encoding.
pub(crate) fn encode_as(
    resolve: &Resolve,
    world: WorldId,
    mut core: Vec<u8>,
    encoding: StringEncoding,
) -> Vec<u8> {
    embed_component_metadata(&mut core, resolve, world, encoding).unwrap();
    ComponentEncoder::default().module(&core).unwrap().validate(true).encode().unwrap()
}

/// Appends a custom section at the top level.
pub(crate) fn with_section(mut component: Vec<u8>, name: &str, data: &[u8]) -> Vec<u8> {
    CustomSection { name: name.into(), data: data.into() }.append_to_component(&mut component);
    component
}

/// Inspects, compiles in this process, links.
pub(crate) fn class(bytes: &[u8]) -> (Arc<Class>, Inspection) {
    class_with(bytes, &BTreeMap::new())
}

/// The same with properties of the deployment.
pub(crate) fn class_with(bytes: &[u8], overrides: &BTreeMap<String, String>) -> (Arc<Class>, Inspection) {
    let engine = WasmEngine::new(&EngineConfig::default()).unwrap();
    let inspection = inspect(bytes).unwrap();
    let component =
        wasmtime::component::Component::new(engine.of(inspection.engine(overrides)), bytes).unwrap();
    (Class::new(engine, &inspection, &component, overrides, &Grants::default()).unwrap(), inspection)
}

/// What a fake host answers to calls.
pub(crate) type Answer = dyn Fn(&OutgoingCall) -> Result<Vec<u8>, CallError> + Send + Sync;

/// A host that remembers.
pub(crate) struct FakeHost {
    identity: ActivationIdentity,
    pub(crate) lines: Mutex<Vec<(LogLevel, String, String)>>,
    pub(crate) requests: Mutex<Vec<LifecycleRequest>>,
    pub(crate) state: Mutex<BTreeMap<String, StateValue>>,
    pub(crate) calls: Mutex<Vec<OutgoingCall>>,
    answer: Box<Answer>,
    /// How long each call takes.
    pub(crate) call_time: Duration,
    /// Where there is one, each call takes a permit before it is answered.
    pub(crate) gate: Option<Semaphore>,
    /// Calls that are not answered yet.
    pub(crate) waiting: AtomicUsize,
}

impl std::fmt::Debug for FakeHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeHost")
    }
}

impl FakeHost {
    pub(crate) fn new() -> Self {
        Self::answering(|_| Err(CallError::NotFound("nobody".to_owned())))
    }

    pub(crate) fn answering(
        answer: impl Fn(&OutgoingCall) -> Result<Vec<u8>, CallError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            identity: ActivationIdentity {
                grain: "test/alice".parse().unwrap(),
                activation: ActivationId(7),
                silo: "127.0.0.1:1@1".parse::<SiloAddress>().unwrap(),
                silo_name: "silo-1".to_owned(),
            },
            lines: Mutex::default(),
            requests: Mutex::default(),
            state: Mutex::default(),
            calls: Mutex::default(),
            answer: Box::new(answer),
            call_time: Duration::ZERO,
            gate: None,
            waiting: AtomicUsize::new(0),
        }
    }

    /// The texts that were logged with this target.
    pub(crate) fn logged(&self, target: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|(_, it, _)| it == target).map(|(_, _, text)| text.clone()).collect()
    }
}

impl ActivationHost for FakeHost {
    fn identity(&self) -> &ActivationIdentity {
        &self.identity
    }

    fn resolve(&self, interface: &str, key: &str) -> Result<GrainId, CallError> {
        let name = interface.rsplit('/').next().unwrap_or(interface);
        format!("{name}/{key}").parse().map_err(|_| CallError::NotFound(interface.to_owned()))
    }

    fn call(&self, call: OutgoingCall) -> BoxFuture<'_, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(self.call_time).await;
            if let Some(gate) = &self.gate {
                gate.acquire().await.unwrap().forget();
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            let answer = (self.answer)(&call);
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            answer
        })
    }

    fn call_json<'a>(
        &'a self,
        to: GrainId,
        method: &'a str,
        args: &'a str,
        _context: TurnContext,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move { Ok(format!("{to} {method} {args}")) })
    }

    fn state_read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<StateValue>, StateError>> {
        Box::pin(async move { Ok(self.state.lock().unwrap().get(name).cloned()) })
    }

    fn state_write<'a>(
        &'a self,
        name: &'a str,
        value: Vec<u8>,
        expected: Option<String>,
    ) -> BoxFuture<'a, Result<String, StateError>> {
        Box::pin(async move {
            let mut state = self.state.lock().unwrap();
            let stored = state.get(name).map(|stored| stored.etag.clone());
            if stored != expected {
                return Err(StateError::Conflict { stored });
            }
            let etag = format!("{}x", stored.unwrap_or_default());
            state.insert(name.to_owned(), StateValue { value, etag: etag.clone() });
            Ok(etag)
        })
    }

    fn state_clear<'a>(
        &'a self,
        name: &'a str,
        _expected: Option<String>,
    ) -> BoxFuture<'a, Result<(), StateError>> {
        Box::pin(async move {
            self.state.lock().unwrap().remove(name);
            Ok(())
        })
    }

    fn log(&self, level: LogLevel, target: &str, text: &str) {
        self.lines.lock().unwrap().push((level, target.to_owned(), text.to_owned()));
    }

    fn request(&self, request: LifecycleRequest) {
        self.requests.lock().unwrap().push(request);
    }
}
