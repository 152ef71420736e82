//! Components on wasmtime: engine, compile cache, inspection, linking, instances, values.
//!
//! The way of a component: [`inspect::inspect`] judges its bytes, [`artifact::Compiler`] makes native code of
//! them in a child process, [`Class::new`] links that, and the class makes an instance for each activation.
//! Guest code runs only in an instance's turns, with memory, CPU, value and log limits. This crate knows nothing
//! of clusters: what a guest asks for goes to the activation's host.

mod arena;
mod class;
mod fast;
mod guest_log;
mod imports;
mod instance;
mod linker;
mod outgoing;
mod state;
#[cfg(test)]
mod testing;
mod text;
mod trap;
mod value;

pub mod artifact;
pub mod engine;
pub mod grants;
pub mod inspect;

pub use class::{Class, ClassBuildError};
pub use engine::{
    EngineConfig, EngineError, EngineVariant, MEMORY_RESERVATION_BYTES, MemoryLayout, WasmEngine,
};
pub use grants::Grants;
pub use outgoing::OutgoingStats;
