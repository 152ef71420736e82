//! The interfaces that a component may import, one file for each.
//!
//! `granary:grain` and the few WASI interfaces that do something are written by hand on wasmtime's linker, so
//! that the host carries no general WASI implementation; the rest of the fixed WASI list is denied by its type
//! (decision A10). No host function traps for what a guest could handle: failures are values.

pub(crate) mod calls;
pub(crate) mod context;
pub(crate) mod denied;
pub(crate) mod derived;
pub(crate) mod logging;
pub(crate) mod state;
pub(crate) mod types;
pub(crate) mod wasi_cli;
pub(crate) mod wasi_clocks;
pub(crate) mod wasi_http;
pub(crate) mod wasi_io;
pub(crate) mod wasi_random;

use wasmtime::component::{LinkerInstance, Resource, ResourceType};

use crate::state::HostState;

/// One imported instance while it is being linked.
pub(crate) type Instance<'a> = LinkerInstance<'a, HostState>;

/// Defines a resource whose values live in the store's handle table.
pub(crate) fn resource<T: Send + 'static>(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<()> {
    instance.resource(name, ResourceType::host::<T>(), |mut store, rep| {
        store.data_mut().handles.delete(Resource::<T>::new_own(rep))?;
        Ok(())
    })
}
