//! The wasmtime engine for synchronous components, its limits, and the clock that lets turns be interrupted.
//!
//! One [`WasmEngine`] serves a whole silo. Its ticker is an OS thread, because a busy runtime would delay the
//! very ticks that bound how long guests may keep it busy. The thread holds the engine weakly and ends with the
//! last handle to it, be that in a store, a class or a [`WasmEngine`].

use std::thread;
use std::time::Duration;

use wasmtime::{Config, Engine, OptLevel, WasmFeatures};

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

/// The engine for synchronous components. Cloning gives another handle to the same engine.
#[derive(Clone)]
pub struct WasmEngine {
    engine: Engine,
    tick: Duration,
}

impl std::fmt::Debug for WasmEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmEngine").field("tick", &self.tick).finish_non_exhaustive()
    }
}

impl WasmEngine {
    /// Makes an engine and starts its ticker.
    ///
    /// # Errors
    /// Fails when wasmtime refuses the settings, or when no thread can be started.
    pub fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let engine = compiling_engine(config)?;
        let weak = engine.weak();
        let tick = config.tick.max(Duration::from_micros(100));
        thread::Builder::new()
            .name("granary-epoch".to_owned())
            .stack_size(64 << 10)
            .spawn(move || {
                while let Some(engine) = weak.upgrade() {
                    engine.increment_epoch();
                    // Not held while asleep, so that the last user's drop ends the thread.
                    drop(engine);
                    thread::sleep(tick);
                }
            })
            .map_err(EngineError::Ticker)?;
        Ok(Self { engine, tick })
    }

    /// How many epochs `cpu` is, at least one.
    pub(crate) fn ticks(&self, cpu: Duration) -> u64 {
        let ticks = cpu.as_nanos().div_ceil(self.tick.as_nanos().max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
    }

    pub(crate) fn inner(&self) -> &Engine {
        &self.engine
    }
}

/// An engine with the same compatibility hash and without a ticker: enough to compile.
pub(crate) fn compiling_engine(config: &EngineConfig) -> Result<Engine, EngineError> {
    Engine::new(&settings(config)).map_err(|error| EngineError::Settings(format!("{error:#}")))
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

fn settings(config: &EngineConfig) -> Config {
    let mut settings = Config::new();
    settings
        .wasm_features(WasmFeatures::all().difference(features()), false)
        .wasm_features(features(), true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed)
        .memory_reservation(MEMORY_RESERVATION_BYTES)
        .memory_guard_size(MEMORY_GUARD_BYTES)
        // Cranelift masks no negative offsets, so a guard in front would only use up address space; and
        // copy-on-write images bring nothing for components with a few KiB of data (HOSTING §4).
        .guard_before_linear_memory(false)
        .memory_init_cow(false)
        .max_wasm_stack(config.wasm_stack_bytes_max)
        .async_stack_size(config.wasm_stack_bytes_max.saturating_add(config.host_stack_bytes));
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
        let weak = engine.inner().weak();
        drop(engine);
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while weak.upgrade().is_some() {
            assert!(std::time::Instant::now() < deadline, "the ticker still holds the engine");
            thread::yield_now();
        }
    }
}
