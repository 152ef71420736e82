//! Values as WAVE, the text form of the component model, for the command line.
//!
//! The crate `wasm-wave` parses the text and spells the leaves; its tree is then read by our own types, so
//! that errors have a path and name the type expected there.

mod read;
mod write;

pub use read::{WAVE_BYTES_MAX, args_from_wave};
pub use write::{args_to_wave, result_to_wave};

#[cfg(test)]
mod tests;
