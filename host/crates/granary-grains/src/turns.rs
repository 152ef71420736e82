//! One call's turn: checks before it, the turn itself, the reply after it.

use std::sync::Arc;

use granary_core::hosting::{
    BoxFuture, CallError, GrainClass, GrainInstance, MethodInfo, MethodRef, OverlappingTurns, Turn,
    TurnContext, TurnFailure,
};
use granary_core::wire::CallRequest;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::activation::Activation;
use crate::activation::mailbox::QueuedCall;
use crate::grains::Inner;
use crate::seams::Types;

/// Whether the instance is sound after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterCall {
    Sound,
    /// It trapped and must be dropped.
    Gone,
}

/// Runs a call that was taken from the mailbox, and answers it. The turn runs to its end, whoever waits for it.
pub(crate) async fn run_call(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    instance: &mut dyn GrainInstance,
    mut call: QueuedCall,
) -> AfterCall {
    let (outcome, after) = run(inner, activation, instance, &mut call.request, call.deadline).await;
    answer(inner, activation, call, outcome);
    after
}

/// The same for a call whose caller takes the outcome. The request's context and arguments are used up.
pub(crate) async fn run(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    instance: &mut dyn GrainInstance,
    request: &mut CallRequest,
    deadline: Instant,
) -> (Result<Vec<u8>, CallError>, AfterCall) {
    run_by(inner, activation, request, deadline, |method, args, context| {
        instance.turn(Turn::Invoke { method, args }, context)
    })
    .await
}

/// The same for a turn that may overlap with others. The caller drives the instance meanwhile.
pub(crate) async fn run_overlapping(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    turns: &dyn OverlappingTurns,
    mut call: QueuedCall,
) -> AfterCall {
    let (outcome, after) =
        run_by(inner, activation, &mut call.request, call.deadline, |method, args, context| {
            turns.start(method, args, context)
        })
        .await;
    answer(inner, activation, call, outcome);
    after
}

fn answer(inner: &Inner, activation: &Activation, call: QueuedCall, outcome: Result<Vec<u8>, CallError>) {
    if let (true, Err(error)) = (call.request.one_way, &outcome) {
        inner.metrics.one_way_failed.add();
        tracing::debug!(grain = %activation.grain(), method = %call.request.method.method,
            "one-way call failed: {error}");
    }
    call.answer(outcome);
}

async fn run_by<'a>(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    request: &mut CallRequest,
    deadline: Instant,
    start: impl FnOnce(MethodRef, Vec<u8>, TurnContext) -> BoxFuture<'a, Result<Vec<u8>, TurnFailure>>,
) -> (Result<Vec<u8>, CallError>, AfterCall) {
    let now = match begin(inner, activation, request, deadline).await {
        Ok(now) => now,
        Err(error) => {
            activation.call_ended(false);
            return (Err(error), AfterCall::Sound);
        }
    };
    inner.metrics.turns.add();
    let mut context = std::mem::take(&mut request.context);
    context.chain.push(activation.grain().clone());
    context.remaining = Some(deadline.saturating_duration_since(now));
    let (method, args) = (request.method.clone(), std::mem::take(&mut request.args));
    let span = tracing::debug_span!("turn", grain = %activation.grain(), method = %request.method.method);
    let turn = start(method, args, context);
    // Nobody pays for a span that nobody sees.
    let result = if span.is_disabled() { turn.await } else { turn.instrument(span).await };
    activation.call_ended(true);

    let (mut outcome, after) = match result {
        Ok(bytes) => (Ok(bytes), AfterCall::Sound),
        Err(TurnFailure::Refused(text)) => (Err(CallError::Failed(text)), AfterCall::Sound),
        Err(TurnFailure::BadRequest(text)) => (Err(CallError::Incompatible(text)), AfterCall::Sound),
        Err(TurnFailure::Trapped { kind, message }) => {
            inner.metrics.traps.add();
            tracing::warn!(grain = %activation.grain(), ?kind, "the activation ends: {message}");
            (Err(CallError::Failed(message)), AfterCall::Gone)
        }
    };
    if !inner.validity.hold(inner.options.fence_hold, None).await {
        inner.metrics.fenced.add();
        outcome = Err(CallError::Fenced);
    }
    (outcome, after)
}

/// What is asked before a turn; gives the time at which it begins.
async fn begin(
    inner: &Inner,
    activation: &Activation,
    request: &CallRequest,
    deadline: Instant,
) -> Result<Instant, CallError> {
    let now = Instant::now();
    if deadline <= now {
        inner.metrics.calls_expired.add();
        return Err(CallError::TimedOut);
    }
    check(activation.class().as_ref(), request, inner.seams.types.as_ref())?;
    if inner.validity.is_valid() {
        return Ok(now);
    }
    if inner.validity.hold(inner.options.fence_hold, Some(deadline)).await {
        return Ok(Instant::now());
    }
    inner.metrics.fenced.add();
    Err(CallError::Fenced)
}

/// Checks method and sizes before anything runs (decision A5).
fn check(class: &dyn GrainClass, request: &CallRequest, types: &dyn Types) -> Result<(), CallError> {
    let (info, wanted) = (class.info(), &request.method);
    let interface = info.interfaces.iter().find(|interface| *interface.id == *wanted.interface);
    let Some(method) = interface.and_then(|interface| interface.methods.get(&*wanted.method)) else {
        let name = format!("{}.{}", wanted.interface, wanted.method);
        let text = match class.method(&name) {
            Err(error) => error.to_string(),
            Ok(_) => format!("{} has no method {name}", info.grain_type),
        };
        return Err(CallError::NotFound(text));
    };
    // A one-way call is about the parameters alone.
    let fits = method.hash == wanted.hash || request.one_way && method.params_hash == wanted.hash;
    if !fits {
        return Err(CallError::Incompatible(mismatch(class, method, request, types)));
    }
    let bytes_max = info.limits.value_bytes_max;
    if request.args.len() > usize::try_from(bytes_max).unwrap_or(usize::MAX) {
        return Err(CallError::Incompatible(format!(
            "the arguments have {} bytes, {} takes at most {bytes_max}",
            request.args.len(),
            info.grain_type
        )));
    }
    Ok(())
}

/// Names both signatures, the caller's where its type is known here.
fn mismatch(class: &dyn GrainClass, method: &MethodInfo, request: &CallRequest, types: &dyn Types) -> String {
    let wanted = &request.method;
    let caller = request.context.chain.last().and_then(|caller| types.class(caller.grain_type()));
    let expected = caller.as_ref().and_then(|caller| {
        let references = &caller.info().references;
        let interface = references.iter().find(|interface| *interface.id == *wanted.interface)?;
        let expected = interface.methods.get(&*wanted.method)?;
        (expected.hash == wanted.hash).then(|| format!("{:?}", expected.signature))
    });
    format!(
        "{}.{} is {:?} in {} (component {}), but the caller takes it for {}",
        wanted.interface,
        wanted.method,
        method.signature,
        class.info().grain_type,
        class.info().digest.short(),
        expected.unwrap_or_else(|| format!("a method with type hash {}", wanted.hash.short())),
    )
}
