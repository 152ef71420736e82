//! Calls by method name, with arguments and results as text.

use std::sync::Arc;
use std::time::Duration;

use granary_core::hosting::{CallError, ClassError, TextFormat, TurnContext};
use granary_core::id::GrainId;
use granary_core::wire::CallRequest;
use tokio::time::Instant;

use crate::grains::Inner;
use crate::options::CALL_TIMEOUT_MAX;

/// Why a call by text gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallTextError {
    /// The arguments do not fit the method; nothing was delivered. `path` is as `$[0].items[3].price`.
    #[error("{path}: {message}")]
    Arguments { path: String, message: String },
    #[error(transparent)]
    Call(#[from] CallError),
}

impl From<CallTextError> for CallError {
    fn from(error: CallTextError) -> Self {
        match error {
            CallTextError::Arguments { .. } => Self::Incompatible(error.to_string()),
            CallTextError::Call(error) => error,
        }
    }
}

impl From<ClassError> for CallTextError {
    fn from(error: ClassError) -> Self {
        match error {
            ClassError::Method(text) => Self::Call(CallError::NotFound(text)),
            ClassError::Value { path, message } => Self::Arguments { path, message },
        }
    }
}

impl Inner {
    pub(crate) async fn call_text(
        self: &Arc<Self>,
        to: GrainId,
        method: &str,
        format: TextFormat,
        args: &str,
        context: TurnContext,
        timeout: Duration,
    ) -> Result<String, CallTextError> {
        let class = self.seams.types.class(to.grain_type()).ok_or_else(|| {
            match self.nobody_serves(to.grain_type()) {
                error @ (CallError::NotFound(_) | CallError::Quarantined(_)) => error,
                _ => CallError::NotDelivered(format!(
                    "this silo does not have the grain type {} ready, which it needs to read arguments",
                    to.grain_type()
                )),
            }
        })?;
        let method = class.method(method)?;
        let args = class.args_from_text(&method, format, args)?;
        let request = CallRequest {
            to,
            method: method.clone(),
            args,
            context,
            call_id: 0,
            forwards: 0,
            one_way: false,
            may_activate: false,
        };
        let deadline = Instant::now() + timeout.min(CALL_TIMEOUT_MAX);
        let result = self.call(request, deadline).await.outcome?;
        class.result_to_text(&method, format, &result).map_err(|error| {
            CallError::Incompatible(format!("the result does not fit the method: {error}")).into()
        })
    }
}
