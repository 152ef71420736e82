//! The silo behind its HTTP edges.

use std::sync::Arc;

use granary_core::hosting::{BoxFuture, TurnContext};
use granary_grains::CallTextError;
use granary_http::{AdminRequest, Backend, EdgeCall, EdgeCallError, Problem};
use serde_json::{Value, json};

use super::membership::Standing;
use super::parts::Parts;
use super::{admin, metrics};

/// Serves both edges.
#[derive(Debug)]
pub(crate) struct SiloBackend {
    pub(crate) parts: Arc<Parts>,
}

impl Backend for SiloBackend {
    fn call(&self, call: EdgeCall) -> BoxFuture<'_, Result<String, EdgeCallError>> {
        Box::pin(async move {
            let context = TurnContext { trace_parent: call.trace_parent, ..TurnContext::default() };
            let called = self.parts.grains.call_text(
                call.grain,
                &call.method,
                call.format,
                &call.arguments,
                context,
                Some(call.timeout),
            );
            called.await.map_err(|error| match error {
                CallTextError::Arguments { path, message } => EdgeCallError::Arguments { path, message },
                CallTextError::Call(error) => EdgeCallError::Call(error),
            })
        })
    }

    fn admin(&self, request: AdminRequest) -> BoxFuture<'_, Result<Value, Problem>> {
        Box::pin(admin::serve(&self.parts, request))
    }

    fn ready(&self) -> Result<(), Vec<String>> {
        let mut reasons = Vec::new();
        match self.parts.standing() {
            Standing::Active => {}
            Standing::Joining => reasons.push("joining the cluster".to_owned()),
            other => reasons.push(format!("membership: {other:?}")),
        }
        if self.parts.grains.is_draining() {
            reasons.push("draining".to_owned());
        }
        if reasons.is_empty() { Ok(()) } else { Err(reasons) }
    }

    fn metrics(&self) -> String {
        metrics::text(&self.parts)
    }

    fn openapi(&self) -> Arc<str> {
        self.parts.registry.openapi()
    }

    fn version(&self) -> Value {
        json!({
            "name": "granary",
            "version": env!("CARGO_PKG_VERSION"),
            "silo": self.parts.name,
            "address": self.parts.me.to_string(),
        })
    }
}
