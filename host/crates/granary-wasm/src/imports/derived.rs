//! Derived packages: the typed functions through which a grain calls grains (decision A2), linked by their types.
//!
//! A call that fails is a value for the caller, never a trap: only what the component's own types rule out is an
//! error here.

use std::sync::Arc;

use granary_core::hosting::{CallError, MethodRef, OutgoingCall};
use granary_wit::{Flavour, Signature};
use wasmtime::component::Val;
use wasmtime::{StoreContextMut, bail};

use super::Instance;
use super::types::{GrainRef, call_error_val};
use crate::inspect::Reference;
use crate::state::{HostState, after_wait};
use crate::value;

/// One imported function.
struct DerivedCall {
    method: MethodRef,
    signature: Signature,
    one_way: bool,
}

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
        instance.func_new_async(name, move |store, _, params, results| {
            let call = Arc::clone(&call);
            Box::new(async move {
                let outcome = call.run(store, params).await?;
                let Some(result) = results.first_mut() else {
                    bail!("the import {} has no result", call.method.method);
                };
                *result = match outcome {
                    Ok(value) => Val::Result(Ok(value.map(Box::new))),
                    Err(error) => Val::Result(Err(Some(Box::new(call_error_val(error))))),
                };
                Ok(())
            })
        })?;
    }
    Ok(())
}

impl DerivedCall {
    async fn run(
        &self,
        mut store: StoreContextMut<'_, HostState>,
        params: &[Val],
    ) -> wasmtime::Result<Result<Option<Val>, CallError>> {
        let Some((to, args)) = params.split_first() else { bail!("a derived function without a reference") };
        let Some(to) = GrainRef::from_val(to) else { bail!("the reference is not a grain-ref") };
        let to = match to.to_id() {
            Ok(to) => to,
            Err(error) => return Ok(Err(error)),
        };
        let bytes_max = store.data().value_bytes_max;
        let args = match value::encode_params(&self.signature, args, bytes_max) {
            Ok(args) => args,
            Err(error) => return Ok(Err(CallError::NotDelivered(format!("the arguments: {error}")))),
        };
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
        let result = match outcome {
            Ok(_) if self.one_way => return Ok(Ok(None)),
            Ok(result) => result,
            Err(error) => return Ok(Err(error)),
        };
        // The callee ran; what it answered is not of the type that both agreed on by hash.
        Ok(value::decode_result(&self.signature, &result)
            .map_err(|error| CallError::Failed(format!("the result does not decode: {error}"))))
    }
}
