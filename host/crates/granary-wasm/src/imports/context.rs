//! `granary:grain/context`: who the activation is, and what it asks for itself.

use std::time::Duration;

use granary_core::hosting::LifecycleRequest;

use super::Instance;
use super::types::GrainRef;
use crate::state::current_turn;
use crate::text::bounded;

/// The longest silo name that is looked at, in bytes.
const SILO_NAME_BYTES_MAX: usize = 128;

/// Links all functions of the interface.
pub(crate) fn link(instance: &mut Instance<'_>) -> wasmtime::Result<()> {
    instance
        .func_wrap("self-ref", |store, ()| Ok((GrainRef::from_id(&store.data().host.identity().grain),)))?;
    instance
        .func_wrap("activation-id", |store, ()| Ok((store.data().host.identity().activation.to_string(),)))?;
    instance.func_wrap("silo", |store, ()| Ok((store.data().host.identity().silo_name.clone(),)))?;
    instance.func_wrap("remaining-ms", |mut store, ()| {
        let remaining = current_turn(&mut store).remaining();
        Ok((remaining.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),))
    })?;
    instance.func_wrap("request-value", |mut store, (key,): (String,)| {
        Ok((current_turn(&mut store).request_value(&key).map(str::to_owned),))
    })?;
    instance.func_wrap("deactivate-on-idle", |store, ()| {
        store.data().host.request(LifecycleRequest::DeactivateOnIdle);
        Ok(())
    })?;
    instance.func_wrap("migrate-on-idle", |store, (silo,): (Option<String>,)| {
        // It may end up in messages.
        let silo = silo.map(|silo| bounded(&silo, SILO_NAME_BYTES_MAX));
        store.data().host.request(LifecycleRequest::MigrateOnIdle(silo));
        Ok(())
    })?;
    instance.func_wrap("keep-alive", |store, (ms,): (u64,)| {
        store.data().host.request(LifecycleRequest::KeepAlive(Duration::from_millis(ms)));
        Ok(())
    })
}
