//! Derived packages: the typed functions through which a grain calls grains (decision A2), linked by their types.
//!
//! A call that fails is a value for the caller, never a trap: only what the component's own types rule out is an
//! error here.

use std::sync::Arc;

use granary_core::hosting::{ActivationHost, BoxFuture, CallError, MethodRef, OutgoingCall};
use granary_core::id::GrainId;
use granary_wit::{Decoder, Encoder, Flavour, Signature};
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::Val;
use wasmtime::{AsContextMut as _, StoreContextMut, bail};

use super::Instance;
use super::types::{GrainRef, call_error_val, encode_call_error};
use crate::fast;
use crate::inspect::Reference;
use crate::state::{HostState, OUTGOING_CALLS_MAX, after_wait, current_turn};
use crate::value::{self, ValueError};

/// One imported function.
struct DerivedCall {
    method: MethodRef,
    signature: Signature,
    one_way: bool,
}

/// A call that is awaited beside others, with the right to it.
struct Beside {
    host: Arc<dyn ActivationHost>,
    outgoing: OutgoingCall,
    permit: OwnedSemaphorePermit,
}

/// What a grain that has too many calls waiting is told to wait, in milliseconds.
const OUTGOING_RETRY_AFTER_MS: u32 = 100;

/// Flat values of a `grain-ref`: two strings.
const REF_FLAT: usize = 4;

/// The functions of a derived interface that the component uses.
fn calls(reference: &Reference) -> impl Iterator<Item = (&str, Arc<DerivedCall>)> {
    reference.methods.iter().map(|(name, signature)| {
        let method = MethodRef {
            interface: reference.interface.as_str().into(),
            method: name.as_str().into(),
            hash: reference.hash(signature),
        };
        let one_way = reference.flavour == Flavour::Send;
        (name.as_str(), Arc::new(DerivedCall { method, signature: signature.clone(), one_way }))
    })
}

/// Links a derived interface in the synchronous engine.
pub(crate) fn link(instance: &mut Instance<'_>, reference: &Reference) -> wasmtime::Result<()> {
    for (name, call) in calls(reference) {
        let params = REF_FLAT + fast::params_count(&call.signature);
        if !fast::import(instance, name, params, Arc::clone(&call) as Arc<dyn fast::Import<HostState>>)? {
            waiting(instance, name, call)?;
        }
    }
    Ok(())
}

/// Links the synchronous form of a derived interface in the asynchronous engine: a call holds the whole instance.
/// Without the fast values, whose safety argument is about the calling convention of synchronous components.
pub(crate) fn link_dynamic(instance: &mut Instance<'_>, reference: &Reference) -> wasmtime::Result<()> {
    calls(reference).try_for_each(|(name, call)| waiting(instance, name, call))
}

/// Links the asynchronous form of a derived interface: while a call waits, the instance goes on.
pub(crate) fn link_concurrent(instance: &mut Instance<'_>, reference: &Reference) -> wasmtime::Result<()> {
    for (name, call) in calls(reference) {
        instance.func_new_concurrent(name, move |accessor, _, params, results| {
            let call = Arc::clone(&call);
            Box::pin(async move {
                // Before the first await, while the calling turn can still be told.
                let begun =
                    accessor.with(|mut access| call.begin_beside(&mut access.as_context_mut(), params))?;
                let outcome = match begun {
                    Ok(Beside { host, outgoing, permit }) => {
                        let outcome = host.call(outgoing).await;
                        drop(permit);
                        accessor.with(|mut access| after_wait(&mut access.as_context_mut()));
                        call.decode(outcome)
                    }
                    Err(error) => Err(error),
                };
                call.answer(outcome, results)
            })
        })?;
    }
    Ok(())
}

/// Links one function that holds the instance until its result is there, by dynamic values.
fn waiting(instance: &mut Instance<'_>, name: &str, call: Arc<DerivedCall>) -> wasmtime::Result<()> {
    instance.func_new_async(name, move |store, _, params, results| {
        let call = Arc::clone(&call);
        Box::new(async move {
            let outcome = call.run_dynamic(store, params).await?;
            call.answer(outcome, results)
        })
    })
}

impl fast::Import<HostState> for DerivedCall {
    fn run<'a>(
        &'a self,
        store: StoreContextMut<'a, HostState>,
        params: Vec<u8>,
    ) -> BoxFuture<'a, wasmtime::Result<Vec<u8>>> {
        Box::pin(async move {
            let mut encoder = Encoder::new(usize::MAX);
            match self.run_fast(store, params).await? {
                Ok(result) => {
                    encoder.case(0)?;
                    encoder.raw(&result)?;
                }
                Err(error) => {
                    encoder.case(1)?;
                    encode_call_error(&mut encoder, &error)?;
                }
            }
            Ok(encoder.finish())
        })
    }
}

impl DerivedCall {
    /// A call whose parameters, the reference and then the arguments, are encoded.
    async fn run_fast(
        &self,
        mut store: StoreContextMut<'_, HostState>,
        mut params: Vec<u8>,
    ) -> wasmtime::Result<Result<Vec<u8>, CallError>> {
        let mut decoder = Decoder::new(&params);
        let to = store.data_mut().last_called.decode(&mut decoder)?;
        let args_at = params.len() - decoder.rest().len();
        params.drain(..args_at);
        let args = value::bounded(params, store.data().value_bytes_max);
        let outgoing = self.outgoing(&mut store, to, args);
        let result = match self.deliver(store, outgoing).await {
            Ok(result) => result,
            Err(error) => return Ok(Err(error)),
        };
        if self.one_way {
            return Ok(Ok(Vec::new()));
        }
        Ok(match granary_wit::validate_result(&self.signature, &result, usize::MAX) {
            Ok(()) => Ok(result),
            Err(error) => Err(undecodable(&error.into())),
        })
    }

    async fn run_dynamic(
        &self,
        mut store: StoreContextMut<'_, HostState>,
        params: &[Val],
    ) -> wasmtime::Result<Result<Option<Val>, CallError>> {
        let outgoing = self.begin(&mut store, params)?;
        let outcome = self.deliver(store, outgoing).await;
        Ok(self.decode(outcome))
    }

    /// The call that dynamic values mean.
    fn begin(
        &self,
        store: &mut StoreContextMut<'_, HostState>,
        params: &[Val],
    ) -> wasmtime::Result<Result<OutgoingCall, CallError>> {
        let Some((to, args)) = params.split_first() else { bail!("a derived function without a reference") };
        let Some(to) = GrainRef::from_val(to) else { bail!("the reference is not a grain-ref") };
        let args = value::encode_params(&self.signature, args, store.data().value_bytes_max);
        Ok(self.outgoing(store, to.to_id(), args))
    }

    /// The same for a call beside others, of which an activation makes a bounded number at once.
    fn begin_beside(
        &self,
        store: &mut StoreContextMut<'_, HostState>,
        params: &[Val],
    ) -> wasmtime::Result<Result<Beside, CallError>> {
        let begun = self.begin(store, params)?;
        let state = store.data();
        Ok(begun.and_then(|outgoing| {
            let permit = Arc::clone(&state.outgoing).try_acquire_owned().map_err(|_| {
                tracing::debug!(grain = %state.host.identity().grain, "it has {OUTGOING_CALLS_MAX} calls waiting");
                CallError::Overloaded { retry_after_ms: OUTGOING_RETRY_AFTER_MS }
            })?;
            Ok(Beside { host: Arc::clone(&state.host), outgoing, permit })
        }))
    }

    fn outgoing(
        &self,
        store: &mut StoreContextMut<'_, HostState>,
        to: Result<GrainId, CallError>,
        args: Result<Vec<u8>, ValueError>,
    ) -> Result<OutgoingCall, CallError> {
        let to = to?;
        let args = args.map_err(|error| CallError::NotDelivered(format!("the arguments: {error}")))?;
        let context = current_turn(store).outgoing();
        Ok(OutgoingCall { to, method: self.method.clone(), args, one_way: self.one_way, context })
    }

    /// Makes the call while nothing else of the instance runs.
    async fn deliver(
        &self,
        mut store: StoreContextMut<'_, HostState>,
        outgoing: Result<OutgoingCall, CallError>,
    ) -> Result<Vec<u8>, CallError> {
        let outgoing = outgoing?;
        let host = Arc::clone(&store.data().host);
        let outcome = host.call(outgoing).await;
        after_wait(&mut store);
        outcome
    }

    fn decode(&self, outcome: Result<Vec<u8>, CallError>) -> Result<Option<Val>, CallError> {
        let result = outcome?;
        if self.one_way {
            return Ok(None);
        }
        value::decode_result(&self.signature, &result).map_err(|error| undecodable(&error))
    }

    /// The dynamic result of the import.
    fn answer(&self, outcome: Result<Option<Val>, CallError>, results: &mut [Val]) -> wasmtime::Result<()> {
        let Some(result) = results.first_mut() else {
            bail!("the import {} has no result", self.method.method);
        };
        *result = match outcome {
            Ok(value) => Val::Result(Ok(value.map(Box::new))),
            Err(error) => Val::Result(Err(Some(Box::new(call_error_val(error))))),
        };
        Ok(())
    }
}

/// The callee ran; what it answered is not of the type that both agreed on by hash.
fn undecodable(error: &ValueError) -> CallError {
    CallError::Failed(format!("the result does not decode: {error}"))
}
