//! The one place that turns bytes into native code.

use wasmtime::Engine;
use wasmtime::component::Component;

/// Loads an artifact that [`super::cache::Cache`] authenticated, or that the compiling child just returned.
///
/// # Errors
/// Fails when the artifact was made by another version of wasmtime or for other settings.
#[expect(unsafe_code, reason = "wasmtime cannot check native code; the safety argument stands at the block")]
pub(super) fn component(engine: &Engine, artifact: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `deserialize` needs bytes that `Engine::precompile_component` made and that nobody changed since.
    // The callers are `Compiler::compile`, whose bytes are in a file of mode 0600 that the child, started by this
    // process from its own configured program, has just made, and `Compiler::load`, whose bytes carry an HMAC under the host's
    // key, which covers digest, compatibility hash and length. The key is in a file that only the silo's user can
    // read, and the child, which alone handles the untrusted component, never gets it. wasmtime itself refuses
    // artifacts of other versions and settings.
    unsafe { Component::deserialize(engine, artifact) }
}
