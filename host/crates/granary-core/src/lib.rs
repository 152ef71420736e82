//! Granary's protocols as deterministic state machines.
//!
//! Everything here is a function of its arguments: time, randomness and messages are passed in, effects come
//! out as plain commands. There is no tokio, no socket, no clock, no thread-local randomness and no iteration
//! over unordered maps in this crate; `clippy.toml` beside it forbids them by name.
//!
//! The modules `id`, `wire` and `hosting` are the words that the other crates share.

pub mod deadlock;
pub mod directory;
pub mod hash;
pub mod hosting;
pub mod id;
pub mod manifest;
pub mod membership;
pub mod quarantine;
pub mod ring;
pub mod wire;
