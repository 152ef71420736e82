//! The grains of one silo in this process, with a directory in memory and peers that answer at once.
//!
//! Everything between a call and its turn is the real thing: invoker, catalog, activations, instances. Only the other
//! silos are missing. All work happens on the calling thread, so that its CPU time is the cost.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use granary_core::deadlock::DeadlockMessage;
use granary_core::directory::GrainAddress;
use granary_core::hosting::{
    ActivationIdentity, BoxFuture, CallError, GrainClass, LogLevel, TextFormat, TurnContext,
};
use granary_core::id::{ActivationId, Digest, GrainId, GrainType, SiloAddress};
use granary_core::wire::{CallReply, CallRequest, MigrateReply, MigrateRequest};
use granary_grains::seams::{
    Directory, DirectoryError, LogSink, MoveOutcome, PeerError, Peers, ThawOutcome, Types,
};
use granary_grains::{Grains, GrainsOptions, Seams};
use granary_store::MemoryStore;
use granary_wasm::artifact::{CompileCommand, Compiler, CompilerConfig};
use granary_wasm::{Class, EngineConfig, Grants, WasmEngine};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The grain type of the component.
pub(crate) const PINGER: &str = "pinger";

/// One silo's grains, and the runtime on which they run: the calling thread.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) grains: Grains,
    class: Arc<dyn GrainClass>,
    directory: Arc<MemoryDirectory>,
    stop: CancellationToken,
}

/// A runtime like that of a silo, on the calling thread alone.
pub(crate) fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(granary_grains::EVENT_INTERVAL)
        .global_queue_interval(granary_grains::GLOBAL_QUEUE_INTERVAL)
        .build()?)
}

fn silo(port: u16) -> SiloAddress {
    SiloAddress { ip: std::net::Ipv4Addr::LOCALHOST.into(), port, generation: 1 }
}

impl World {
    /// Compiles the component as a silo does, and starts with no activation.
    pub(crate) fn new(component: &Path) -> Result<Self> {
        Self::with(component, |_| {})
    }

    /// The same with other options.
    pub(crate) fn with(component: &Path, change: impl FnOnce(&mut GrainsOptions)) -> Result<Self> {
        let runtime = runtime()?;
        let bytes = std::fs::read(component)?;
        let cache = tempfile::tempdir()?;
        let engine = WasmEngine::new(&EngineConfig::default())?;
        let config = CompilerConfig {
            cache_dir: cache.path().to_owned(),
            key_file: cache.path().join("host.key"),
            command: CompileCommand::current_exe()?,
        };
        let compiler = Compiler::open(&engine, &config)?;
        let inspection = granary_wasm::inspect::inspect(&bytes).map_err(|error| anyhow!("{error}"))?;
        let native = runtime.block_on(compiler.compile(&bytes, inspection.engine(&BTreeMap::new())))?;
        let class: Arc<dyn GrainClass> =
            Class::new(engine, &inspection, &native, &BTreeMap::new(), &Grants::default())?;
        let directory = Arc::new(MemoryDirectory::default());
        let types = OneType { me: silo(1), class: Arc::clone(&class) };
        let seams = Seams {
            directory: Arc::clone(&directory) as Arc<dyn Directory>,
            peers: Arc::new(Echoes),
            types: Arc::new(types),
            state: Arc::new(MemoryStore::default()),
            logs: Arc::new(NoLog),
        };
        let stop = CancellationToken::new();
        let mut options = GrainsOptions::new(silo(1), "silo-1", [7; 32]);
        change(&mut options);
        let grains = Grains::new(options, seams, TaskTracker::new(), stop.clone());
        Ok(Self { runtime, grains, class, directory, stop })
    }

    /// A request, its arguments written as JSON.
    pub(crate) fn request(&self, key: &str, method: &str, args: &str) -> Result<CallRequest> {
        let method = self.class.method(method)?;
        Ok(CallRequest {
            to: grain(key)?,
            args: self.class.args_from_text(&method, TextFormat::Json, args)?,
            method,
            context: TurnContext::default(),
            call_id: 0,
            forwards: 0,
            one_way: false,
            may_activate: false,
        })
    }

    /// Calls and waits for the result.
    pub(crate) fn call(&self, request: CallRequest) -> Result<Vec<u8>> {
        let reply = self.runtime.block_on(self.grains.call(request, None));
        reply.outcome.context("a call failed")
    }

    /// Makes the directory say that these grains live on other silos, and the grains learn it.
    pub(crate) fn learn(&self, silos: u16, grains: &[GrainId]) -> Result<()> {
        for (grain, number) in grains.iter().zip((0..silos).cycle()) {
            self.directory.put(grain, silo(2 + number));
            let mut request = self.request("x", "echo", "[1]")?;
            request.to = grain.clone();
            self.call(request)?;
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A grain of the test component.
pub(crate) fn grain(key: &str) -> Result<GrainId> {
    Ok(GrainId::new(GrainType::new(PINGER)?, key)?)
}

/// A directory without a network: one map.
#[derive(Default)]
struct MemoryDirectory {
    entries: Mutex<HashMap<GrainId, GrainAddress>>,
    fences: AtomicU64,
}

impl MemoryDirectory {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<GrainId, GrainAddress>) -> T) -> T {
        act(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, grain: &GrainId, silo: SiloAddress) {
        let activation = ActivationId(u128::from(self.fences.fetch_add(1, Ordering::Relaxed)));
        let address = GrainAddress { grain: grain.clone(), activation, silo, fence: 1, previous: None };
        self.with(|entries| entries.insert(grain.clone(), address));
    }
}

/// What a lone silo is never asked.
fn alone<T: Send + 'static>() -> BoxFuture<'static, Result<T, DirectoryError>> {
    Box::pin(async { Err(DirectoryError::Refused("there is one silo".to_owned())) })
}

impl Directory for MemoryDirectory {
    fn register(
        &self,
        mut address: GrainAddress,
        _: Option<ActivationId>,
    ) -> BoxFuture<'_, Result<GrainAddress, DirectoryError>> {
        address.fence = 1 + self.fences.fetch_add(1, Ordering::Relaxed);
        self.with(|entries| entries.insert(address.grain.clone(), address.clone()));
        Box::pin(async move { Ok(address) })
    }

    fn lookup(&self, grain: GrainId) -> BoxFuture<'_, Result<Option<GrainAddress>, DirectoryError>> {
        let found = self.with(|entries| entries.get(&grain).cloned());
        Box::pin(async move { Ok(found) })
    }

    fn unregister(&self, grain: GrainId, _: ActivationId) -> BoxFuture<'_, Result<(), DirectoryError>> {
        self.with(|entries| entries.remove(&grain));
        Box::pin(async { Ok(()) })
    }

    fn move_to(
        &self,
        _: ActivationId,
        _: GrainAddress,
    ) -> BoxFuture<'_, Result<MoveOutcome, DirectoryError>> {
        alone()
    }

    fn add_frozen(&self, _: GrainAddress) -> BoxFuture<'_, Result<(), DirectoryError>> {
        alone()
    }

    fn drop_frozen(&self, _: GrainId, _: ActivationId) -> BoxFuture<'_, Result<(), DirectoryError>> {
        alone()
    }

    fn thaw(&self, _: GrainId, _: ActivationId) -> BoxFuture<'_, Result<ThawOutcome, DirectoryError>> {
        alone()
    }
}

/// Other silos, which give the arguments back.
struct Echoes;

impl Peers for Echoes {
    fn tell(&self, _: SiloAddress, _: DeadlockMessage) {}

    fn invoke(
        &self,
        _: SiloAddress,
        request: CallRequest,
        _: Duration,
    ) -> BoxFuture<'_, Result<CallReply, PeerError>> {
        Box::pin(async move { Ok(CallReply { outcome: Ok(request.args), location: None }) })
    }

    fn migrate(
        &self,
        _: SiloAddress,
        _: MigrateRequest,
        _: Duration,
    ) -> BoxFuture<'_, Result<MigrateReply, PeerError>> {
        Box::pin(async { Ok(MigrateReply::Refused("nothing moves here".to_owned())) })
    }
}

/// One type, served by this silo; the others are active and serve nothing.
struct OneType {
    me: SiloAddress,
    class: Arc<dyn GrainClass>,
}

impl Types for OneType {
    fn class(&self, grain_type: &GrainType) -> Option<Arc<dyn GrainClass>> {
        (*grain_type == self.class.info().grain_type).then(|| Arc::clone(&self.class))
    }

    fn class_by_digest(&self, grain_type: &GrainType, digest: &Digest) -> Option<Arc<dyn GrainClass>> {
        self.class(grain_type).filter(|class| class.info().digest == *digest)
    }

    fn resolve(&self, _: &str) -> Result<GrainType, CallError> {
        Ok(self.class.info().grain_type.clone())
    }

    fn silos_for(&self, _: &GrainType) -> Vec<SiloAddress> {
        vec![self.me]
    }

    fn known_types(&self) -> Vec<GrainType> {
        vec![self.class.info().grain_type.clone()]
    }

    fn silo_by_name(&self, _: &str) -> Option<SiloAddress> {
        None
    }

    fn is_active(&self, _: SiloAddress) -> bool {
        true
    }

    fn is_gone(&self, _: SiloAddress) -> bool {
        false
    }
}

struct NoLog;

impl LogSink for NoLog {
    fn line(&self, _: &ActivationIdentity, _: LogLevel, _: &str, _: &str) {}
}
