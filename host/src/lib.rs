//! Granary: virtual actors as WebAssembly components.
//!
//! This crate is the composition root: [`silo`] puts the parts together and runs them, [`cli`] is the command
//! line. The parts themselves are the `granary-*` crates.

pub mod cli;
pub mod exit_code;
pub mod silo;
mod telemetry;
