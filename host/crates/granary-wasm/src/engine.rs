//! The wasmtime engines, their limits, and the clock that lets turns be interrupted.
//!
//! One [`WasmEngine`] serves a whole silo. It has an engine of wasmtime for each [`EngineVariant`], since what lets
//! calls of one instance overlap makes every call dearer, and what lets many memories live in one process makes every
//! access to them dearer. All have the same limits. Their ticker is an OS thread, because a busy runtime would delay the very ticks that bound
//! how long guests may keep it busy. The thread holds the engines weakly and ends with the last handle to them, be
//! that in a store, a class or a [`WasmEngine`].

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::ClientConfig;
use wasmtime::{Config, Engine, EngineWeak, MemoryCreator, OptLevel, StackCreator, WasmFeatures};

use crate::arena::{MemoryArena, StackArena};
use crate::outgoing::{Outgoing, OutgoingStats};

/// Virtual address space reserved for each linear memory, in bytes: with it, bounds checks cost nothing.
pub const MEMORY_RESERVATION_BYTES: u64 = 4 << 30;

/// Space after each linear memory that traps, in bytes.
const MEMORY_GUARD_BYTES: u64 = 32 << 20;

/// What a new engine is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// Time between epochs: how long a guest runs before it yields. Default 1 ms (decision B4).
    pub tick: Duration,
    /// Stack that wasm code may use in one turn, in bytes. Default 512 KiB.
    pub wasm_stack_bytes_max: usize,
    /// Stack that remains for host functions when wasm code used all of its share, in bytes. Default 512 KiB:
    /// a nested call on the inline path runs the silo's own code there.
    pub host_stack_bytes: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { tick: Duration::from_millis(1), wasm_stack_bytes_max: 512 << 10, host_stack_bytes: 512 << 10 }
    }
}

impl EngineConfig {
    fn stack_bytes(&self) -> usize {
        self.wasm_stack_bytes_max.saturating_add(self.host_stack_bytes)
    }
}

/// An engine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime refused the settings.
    #[error("the engine refused its settings: {0}")]
    Settings(String),
    /// The ticker thread did not start.
    #[error("the epoch ticker did not start")]
    Ticker(#[source] std::io::Error),
}

impl EngineError {
    fn settings(error: wasmtime::Error) -> Self {
        Self::Settings(format!("{error:#}"))
    }
}

/// Where the linear memories of a component lie (property `granary.memory-layout`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLayout {
    /// In the silo's arena, so that 100,000 activations fit into a process; each access is compared with the length.
    Compact,
    /// Each in 4 GiB of address space of its own, where accesses need no comparison: for components that are bound by
    /// memory, or interpret a language. A process has room for about 30,000 of them.
    Reserved,
}

/// Which of the engines runs a component. Code that was compiled for one does not load in the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineVariant {
    /// For components with an `async func` among the methods that they export.
    pub asynchronous: bool,
    pub memory: MemoryLayout,
}

impl EngineVariant {
    pub(crate) const ALL: [Self; 4] = [
        Self { asynchronous: false, memory: MemoryLayout::Compact },
        Self { asynchronous: true, memory: MemoryLayout::Compact },
        Self { asynchronous: false, memory: MemoryLayout::Reserved },
        Self { asynchronous: true, memory: MemoryLayout::Reserved },
    ];

    /// For components without a wish.
    pub(crate) const PLAIN: Self = Self { asynchronous: false, memory: MemoryLayout::Compact };

    /// The place in [`EngineVariant::ALL`].
    fn index(self) -> usize {
        usize::from(self.asynchronous) + 2 * usize::from(self.memory == MemoryLayout::Reserved)
    }

    /// This variant's one of what there is for each, in the order of [`EngineVariant::ALL`].
    pub(crate) fn pick<T>(self, all: &[T; 4]) -> &T {
        let [first, second, third, fourth] = all;
        match self.index() {
            0 => first,
            1 => second,
            2 => third,
            _ => fourth,
        }
    }

    /// The name in cache keys and towards the compiling process.
    pub(crate) fn name(self) -> &'static str {
        match (self.asynchronous, self.memory) {
            (false, MemoryLayout::Compact) => "synchronous",
            (true, MemoryLayout::Compact) => "asynchronous",
            (false, MemoryLayout::Reserved) => "synchronous-reserved",
            (true, MemoryLayout::Reserved) => "asynchronous-reserved",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }
}

/// The engines. Cloning gives another handle to the same ones.
#[derive(Clone)]
pub struct WasmEngine {
    engines: [Engine; 4],
    tick: Duration,
    /// What the grains of the silo share when they send requests.
    outgoing: Arc<Outgoing>,
}

impl std::fmt::Debug for WasmEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmEngine").field("tick", &self.tick).finish_non_exhaustive()
    }
}

impl WasmEngine {
    /// Makes the engines and starts their ticker.
    ///
    /// # Errors
    /// Fails when wasmtime refuses the settings, or when no thread can be started.
    pub fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let arenas = Arenas::new(config);
        let made = |variant| Engine::new(&settings(config, variant, &arenas)).map_err(EngineError::settings);
        let [first, second, third, fourth] = EngineVariant::ALL.map(made);
        let engines = [first?, second?, third?, fourth?];
        let weak = engines.each_ref().map(Engine::weak);
        let tick = config.tick.max(Duration::from_micros(100));
        thread::Builder::new()
            .name("granary-epoch".to_owned())
            .stack_size(64 << 10)
            .spawn(move || {
                // Not held while asleep, so that the last user's drop ends the thread.
                let tick_one = |engine: Engine| engine.increment_epoch();
                while weak.iter().filter_map(EngineWeak::upgrade).map(tick_one).count() > 0 {
                    thread::sleep(tick);
                }
            })
            .map_err(EngineError::Ticker)?;
        Ok(Self { engines, tick, outgoing: Arc::default() })
    }

    /// The same engines, whose grains may also send `https` requests by this configuration.
    #[must_use]
    pub fn with_outgoing_tls(self, tls: Arc<ClientConfig>) -> Self {
        Self { outgoing: Arc::new(Outgoing::new(Some(tls))), ..self }
    }

    /// What grains sent to granted hosts since the start.
    #[must_use]
    pub fn outgoing_stats(&self) -> OutgoingStats {
        self.outgoing.counters.snapshot()
    }

    pub(crate) fn outgoing(&self) -> &Arc<Outgoing> {
        &self.outgoing
    }

    /// How many epochs `cpu` is, at least one.
    pub(crate) fn ticks(&self, cpu: Duration) -> u64 {
        let ticks = cpu.as_nanos().div_ceil(self.tick.as_nanos().max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
    }

    pub(crate) fn of(&self, variant: EngineVariant) -> &Engine {
        variant.pick(&self.engines)
    }
}

/// An engine with the same compatibility hash and without a ticker: enough to compile.
pub(crate) fn compiling_engine(config: &EngineConfig, variant: EngineVariant) -> Result<Engine, EngineError> {
    Engine::new(&settings(config, variant, &Arenas::new(config))).map_err(EngineError::settings)
}

/// The WebAssembly features of the synchronous profile: what today's toolchains emit by default. Threads,
/// 64-bit memories, garbage collection and exceptions stay off (RELIABILITY §3.1).
pub(crate) fn features() -> WasmFeatures {
    WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::REFERENCE_TYPES
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::SIMD
        | WasmFeatures::RELAXED_SIMD
        | WasmFeatures::TAIL_CALL
        | WasmFeatures::FLOATS
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::COMPONENT_MODEL
}

/// The features of the asynchronous profile: those and the component model's asynchronous functions. Streams and
/// futures are refused at deploy, as no grain interface may hold them.
pub(crate) fn asynchronous_features() -> WasmFeatures {
    features() | WasmFeatures::CM_ASYNC
}

/// Memories and stacks for all engines of a silo.
struct Arenas {
    memories: Arc<MemoryArena>,
    stacks: Arc<StackArena>,
}

impl Arenas {
    fn new(config: &EngineConfig) -> Self {
        let stack_bytes = config.stack_bytes();
        Self { memories: Arc::default(), stacks: Arc::new(StackArena::new(stack_bytes)) }
    }
}

fn settings(config: &EngineConfig, variant: EngineVariant, arenas: &Arenas) -> Config {
    let enabled = if variant.asynchronous { asynchronous_features() } else { features() };
    let mut settings = Config::new();
    settings
        .wasm_features(WasmFeatures::all().difference(enabled), false)
        .wasm_features(enabled, true)
        .concurrency_support(variant.asynchronous)
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed)
        // Cranelift masks no negative offsets, so a guard in front would only use up address space; and
        // copy-on-write images bring nothing for components with a few KiB of data (HOSTING §4).
        .guard_before_linear_memory(false)
        .memory_init_cow(false)
        .max_wasm_stack(config.wasm_stack_bytes_max)
        .async_stack_size(config.stack_bytes())
        .with_host_stack(Arc::clone(&arenas.stacks) as Arc<dyn StackCreator>);
    match variant.memory {
        MemoryLayout::Compact => settings
            .memory_reservation(0)
            .memory_reservation_for_growth(0)
            .memory_guard_size(0)
            .with_host_memory(Arc::clone(&arenas.memories) as Arc<dyn MemoryCreator>),
        MemoryLayout::Reserved => {
            settings.memory_reservation(MEMORY_RESERVATION_BYTES).memory_guard_size(MEMORY_GUARD_BYTES)
        }
    };
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_budget_is_counted_in_ticks() {
        let engine = WasmEngine::new(&EngineConfig::default()).unwrap();
        assert_eq!(engine.ticks(Duration::from_secs(1)), 1_000);
        assert_eq!(engine.ticks(Duration::ZERO), 1);
        assert_eq!(engine.ticks(Duration::from_micros(1_500)), 2);
    }

    #[test]
    fn the_ticker_ends_with_the_last_handle() {
        let engine = WasmEngine::new(&EngineConfig::default()).unwrap();
        let weak = EngineVariant::ALL.map(|variant| engine.of(variant).weak());
        drop(engine);
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while weak.iter().any(|weak| weak.upgrade().is_some()) {
            assert!(std::time::Instant::now() < deadline, "the ticker still holds an engine");
            thread::yield_now();
        }
    }

    #[test]
    fn each_variant_has_a_name_of_its_own() {
        for (index, variant) in EngineVariant::ALL.into_iter().enumerate() {
            assert_eq!(variant.index(), index);
            assert_eq!(EngineVariant::from_name(variant.name()), Some(variant));
        }
        assert_eq!(EngineVariant::from_name("other"), None);
    }
}
