//! `granary:grain/calls`: references by interface, and calls by name with JSON.

use std::sync::Arc;

use wasmtime::StoreContextMut;

use super::Instance;
use super::types::{GrainRef, WitCallError};
use crate::state::{HostState, after_wait, current_turn};

/// Links all functions of the interface.
pub(crate) fn link(instance: &mut Instance<'_>) -> wasmtime::Result<()> {
    instance.func_wrap("resolve", |store, (interface, key): (String, String)| {
        let resolved = store.data().host.resolve(&interface, &key);
        Ok((resolved.map(|id| GrainRef::from_id(&id)).map_err(WitCallError::from),))
    })?;
    instance.func_wrap_async("invoke", |store, params| Box::new(invoke(store, params)))
}

async fn invoke(
    mut store: StoreContextMut<'_, HostState>,
    (to, method, arguments): (GrainRef, String, String),
) -> wasmtime::Result<(Result<String, WitCallError>,)> {
    let to = match to.to_id() {
        Ok(to) => to,
        Err(error) => return Ok((Err(error.into()),)),
    };
    let host = Arc::clone(&store.data().host);
    let context = current_turn(&mut store).outgoing();
    let result = host.call_json(to, &method, &arguments, context).await;
    after_wait(&mut store);
    Ok((result.map_err(WitCallError::from),))
}
