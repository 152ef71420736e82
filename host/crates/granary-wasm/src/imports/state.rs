//! `granary:grain/state`: persistent state of the running grain.

use std::sync::Arc;

use granary_core::hosting::{StateError, StateValue};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Lower};

use super::Instance;
use crate::state::{HostState, after_wait};

/// `stored`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct Stored {
    value: Vec<u8>,
    etag: String,
}

impl From<StateValue> for Stored {
    fn from(StateValue { value, etag }: StateValue) -> Self {
        Self { value, etag }
    }
}

/// `state-error`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(variant)]
enum WitStateError {
    #[component(name = "conflict")]
    Conflict(Option<String>),
    #[component(name = "fenced")]
    Fenced,
    #[component(name = "too-large")]
    TooLarge(String),
    #[component(name = "unavailable")]
    Unavailable(String),
}

impl From<StateError> for WitStateError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Conflict { stored } => Self::Conflict(stored),
            StateError::Fenced => Self::Fenced,
            StateError::TooLarge(what) => Self::TooLarge(what),
            StateError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

type Outcome<T> = wasmtime::Result<(Result<T, WitStateError>,)>;

/// Links all functions of the interface.
pub(crate) fn link(instance: &mut Instance<'_>) -> wasmtime::Result<()> {
    instance.func_wrap_async("read", |store, params| Box::new(read(store, params)))?;
    instance.func_wrap_async("write", |store, params| Box::new(write(store, params)))?;
    instance.func_wrap_async("clear", |store, params| Box::new(clear(store, params)))
}

async fn read(mut store: StoreContextMut<'_, HostState>, (name,): (String,)) -> Outcome<Option<Stored>> {
    let host = Arc::clone(&store.data().host);
    let result = host.state_read(&name).await;
    after_wait(&mut store);
    Ok((result.map(|stored| stored.map(Stored::from)).map_err(WitStateError::from),))
}

async fn write(
    mut store: StoreContextMut<'_, HostState>,
    (name, value, expected): (String, Vec<u8>, Option<String>),
) -> Outcome<String> {
    let host = Arc::clone(&store.data().host);
    let result = host.state_write(&name, value, expected).await;
    after_wait(&mut store);
    Ok((result.map_err(WitStateError::from),))
}

async fn clear(
    mut store: StoreContextMut<'_, HostState>,
    (name, expected): (String, Option<String>),
) -> Outcome<()> {
    let host = Arc::clone(&store.data().host);
    let result = host.state_clear(&name, expected).await;
    after_wait(&mut store);
    Ok((result.map_err(WitStateError::from),))
}
