//! Derived packages: the typed functions through which a grain calls grains (decision A2), linked by their types.
//!
//! A call that fails is a value for the caller, never a trap: only what the component's own types rule out is an
//! error here.

use std::sync::Arc;

use granary_core::hosting::{BoxFuture, CallError, MethodRef, OutgoingCall};
use granary_wit::{Decoder, Encoder, Flavour, Signature};
use wasmtime::component::Val;
use wasmtime::{StoreContextMut, bail};

use super::Instance;
use super::types::{GrainRef, call_error_val, encode_call_error};
use crate::fast;
use crate::inspect::Reference;
use crate::state::{HostState, after_wait};
use crate::value::{self, ValueError};

/// One imported function.
struct DerivedCall {
    method: MethodRef,
    signature: Signature,
    one_way: bool,
}

/// Flat values of a `grain-ref`: two strings.
const REF_FLAT: usize = 4;

/// Links the methods of a derived interface that the component uses.
pub(crate) fn link(instance: &mut Instance<'_>, reference: &Reference) -> wasmtime::Result<()> {
    for (name, signature) in &reference.methods {
        let call = Arc::new(DerivedCall {
            method: MethodRef {
                interface: reference.interface.clone(),
                method: name.clone(),
                hash: reference.hash(signature),
            },
            signature: signature.clone(),
            one_way: reference.flavour == Flavour::Send,
        });
        let params = REF_FLAT + fast::params_count(signature);
        if !fast::import(instance, name, params, Arc::clone(&call) as Arc<dyn fast::Import<HostState>>)? {
            link_dynamic(instance, name, call)?;
        }
    }
    Ok(())
}

/// Links a method whose values are too many for the fast path.
fn link_dynamic(instance: &mut Instance<'_>, name: &str, call: Arc<DerivedCall>) -> wasmtime::Result<()> {
    instance.func_new_async(name, move |store, _, params, results| {
        let call = Arc::clone(&call);
        Box::new(async move {
            let outcome = call.run_dynamic(store, params).await?;
            let Some(result) = results.first_mut() else {
                bail!("the import {} has no result", call.method.method);
            };
            *result = match outcome {
                Ok(value) => Val::Result(Ok(value.map(Box::new))),
                Err(error) => Val::Result(Err(Some(Box::new(call_error_val(error))))),
            };
            Ok(())
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
        store: StoreContextMut<'_, HostState>,
        params: Vec<u8>,
    ) -> wasmtime::Result<Result<Vec<u8>, CallError>> {
        let mut decoder = Decoder::new(&params);
        let to = GrainRef::decode(&mut decoder)?;
        let args = decoder.rest().to_vec();
        let bytes_max = store.data().value_bytes_max;
        let result = match self.deliver(store, &to, value::bounded(args, bytes_max)).await {
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
        store: StoreContextMut<'_, HostState>,
        params: &[Val],
    ) -> wasmtime::Result<Result<Option<Val>, CallError>> {
        let Some((to, args)) = params.split_first() else { bail!("a derived function without a reference") };
        let Some(to) = GrainRef::from_val(to) else { bail!("the reference is not a grain-ref") };
        let bytes_max = store.data().value_bytes_max;
        let args = value::encode_params(&self.signature, args, bytes_max);
        let result = match self.deliver(store, &to, args).await {
            Ok(_) if self.one_way => return Ok(Ok(None)),
            Ok(result) => result,
            Err(error) => return Ok(Err(error)),
        };
        Ok(value::decode_result(&self.signature, &result).map_err(|error| undecodable(&error)))
    }

    /// Makes the call.
    async fn deliver(
        &self,
        mut store: StoreContextMut<'_, HostState>,
        to: &GrainRef,
        args: Result<Vec<u8>, ValueError>,
    ) -> Result<Vec<u8>, CallError> {
        let to = to.to_id()?;
        let args = args.map_err(|error| CallError::NotDelivered(format!("the arguments: {error}")))?;
        let host = Arc::clone(&store.data().host);
        let call = OutgoingCall {
            to,
            method: self.method.clone(),
            args,
            one_way: self.one_way,
            context: store.data().turn.outgoing(),
        };
        let outcome = host.call(call).await;
        after_wait(&mut store);
        outcome
    }
}

/// The callee ran; what it answered is not of the type that both agreed on by hash.
fn undecodable(error: &ValueError) -> CallError {
    CallError::Failed(format!("the result does not decode: {error}"))
}
