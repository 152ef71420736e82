//! `granary:grain/logging`.

use granary_core::hosting::LogLevel;
use wasmtime::component::{ComponentType, Lift, Lower};

use super::Instance;

/// `level`.
#[derive(Debug, Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "wasmtime makes the values out of the guest's, by their position")]
enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

/// Links all functions of the interface.
pub(crate) fn link(instance: &mut Instance<'_>) -> wasmtime::Result<()> {
    instance.func_wrap("log", |mut store, (level, target, message): (Level, String, String)| {
        let level = match level {
            Level::Trace => LogLevel::Trace,
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        store.data_mut().record(level, &target, &message);
        Ok(())
    })
}
