//! What an instance may ask of its silo.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use granary_core::hosting::{
    ActivationHost, ActivationIdentity, BoxFuture, CallError, DeactivationReason, LifecycleRequest, LogLevel,
    OutgoingCall, StateError, StateValue, TextFormat, TurnContext,
};
use granary_core::id::GrainId;
use granary_core::wire::CallRequest;
use tokio::time::Instant;

use crate::activation::{Activation, ActivationState};
use crate::grains::Inner;
use crate::migration::{MigrateCommand, MigrateTarget};
use crate::options::CALL_TIMEOUT_MAX;
use crate::state::Access;

/// The host of one activation.
pub(crate) struct Host {
    inner: Arc<Inner>,
    activation: Arc<Activation>,
}

impl Host {
    pub(crate) fn new(inner: Arc<Inner>, activation: Arc<Activation>) -> Self {
        Self { inner, activation }
    }

    /// Until when a call from the running turn may take: never longer than the turn's own call. An error where the
    /// grain may not call at all.
    fn call_deadline(&self, remaining: Option<Duration>, own: bool) -> Result<Instant, CallError> {
        let (state, turn_deadline) = self.activation.state_and_deadline();
        if not_started(state) {
            return Err(CallError::NotDelivered("a grain cannot call others from rehydrate".to_owned()));
        }
        let limit = self.inner.options.call_timeout.min(CALL_TIMEOUT_MAX);
        if own {
            return Ok(Instant::now() + limit);
        }
        let limit = Instant::now() + remaining.map_or(limit, |remaining| limit.min(remaining));
        Ok(turn_deadline.map_or(limit, |deadline| limit.min(deadline)))
    }

    fn may_write(&self) -> Result<(), StateError> {
        if not_started(self.activation.state()) {
            return Err(StateError::Unavailable("a grain cannot write its state from rehydrate".to_owned()));
        }
        Ok(())
    }

    /// Ends the activation after the turn when its idea of the state is out of date, so that the next call reads
    /// again (spec AL-36).
    fn note<T>(&self, result: Result<T, StateError>) -> Result<T, StateError> {
        if matches!(result, Err(StateError::Conflict { .. } | StateError::Fenced)) {
            self.activation.request_end(DeactivationReason::StateConflict, None);
        }
        result
    }

    fn access(&self) -> Access<'_> {
        Access {
            store: self.inner.seams.state.as_ref(),
            grain: self.activation.grain(),
            fence: self.activation.fence(),
            timeout: self.inner.options.state_timeout,
        }
    }
}

/// A migration target has no effects before its commit, since it may be dropped.
fn not_started(state: ActivationState) -> bool {
    matches!(state, ActivationState::Restoring | ActivationState::Frozen)
}

impl ActivationHost for Host {
    fn identity(&self) -> &ActivationIdentity {
        self.activation.identity()
    }

    fn resolve(&self, interface: &str, key: &str) -> Result<GrainId, CallError> {
        let grain_type = self.inner.seams.types.resolve(interface)?;
        GrainId::new(grain_type, key).map_err(|error| CallError::NotFound(error.to_string()))
    }

    fn call(&self, call: OutgoingCall) -> BoxFuture<'_, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            // Nobody waits for a one-way call, so it has time of its own.
            let deadline = self.call_deadline(call.context.remaining, call.one_way)?;
            let request = CallRequest {
                to: call.to,
                method: call.method,
                args: call.args,
                context: call.context,
                call_id: 0,
                forwards: 0,
                one_way: call.one_way,
                may_activate: false,
            };
            self.inner.call(request, deadline).await.outcome
        })
    }

    fn call_json<'a>(
        &'a self,
        to: GrainId,
        method: &'a str,
        args: &'a str,
        context: TurnContext,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move {
            let deadline = self.call_deadline(context.remaining, false)?;
            let timeout = deadline.saturating_duration_since(Instant::now());
            let result = self.inner.call_text(to, method, TextFormat::Json, args, context, timeout).await;
            result.map_err(CallError::from)
        })
    }

    fn state_read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<StateValue>, StateError>> {
        Box::pin(async move { self.note(self.access().read(name).await) })
    }

    fn state_write<'a>(
        &'a self,
        name: &'a str,
        value: Vec<u8>,
        expected: Option<String>,
    ) -> BoxFuture<'a, Result<String, StateError>> {
        Box::pin(async move {
            self.may_write()?;
            self.note(self.access().write(name, value, expected).await)
        })
    }

    fn state_clear<'a>(
        &'a self,
        name: &'a str,
        expected: Option<String>,
    ) -> BoxFuture<'a, Result<(), StateError>> {
        Box::pin(async move {
            self.may_write()?;
            self.note(self.access().clear(name, expected).await)
        })
    }

    fn log(&self, level: LogLevel, target: &str, text: &str) {
        self.inner.seams.logs.line(self.activation.identity(), level, target, text);
    }

    fn request(&self, request: LifecycleRequest) {
        match request {
            LifecycleRequest::DeactivateOnIdle => {
                self.activation.request_end(DeactivationReason::ApplicationRequested, None);
            }
            LifecycleRequest::MigrateOnIdle(name) => {
                let target = name.map_or(MigrateTarget::Any, MigrateTarget::Name);
                let command = MigrateCommand { target, reply: None };
                if self.activation.request_migration(command).is_err() {
                    tracing::debug!(grain = %self.activation.grain(), "it moves or ends already");
                }
            }
            LifecycleRequest::KeepAlive(duration) => self.activation.keep_alive(duration),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({:?})", self.activation)
    }
}
