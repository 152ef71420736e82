//! The inline path (decision C4): a call to an idle activation of this silo runs on the caller's task.
//!
//! The turn is a future that owns the instance. It is polled once where the call is made, and goes on in a task of its
//! own when it has to wait. So neither a caller that is dropped nor one whose time is up drops a turn.
//!
//! Invariants:
//! - Whoever holds the instance runs the turns: the activation's task, or one inline turn ([`Borrowed`]). It is given
//!   back whatever happens; where it is unsound or lost, the activation's task hears that and ends the activation.
//! - Inline turns are nested at most [`INLINE_DEPTH_MAX`] deep on one stack.
//! - A panic in an inline turn ends that activation, not its caller's.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use granary_core::hosting::{CallError, GrainInstance};
use granary_core::wire::CallRequest;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::activation::Activation;
use crate::grains::Inner;
use crate::options::INLINE_DEPTH_MAX;
use crate::turns::{self, AfterCall};

thread_local! {
    /// Inline turns that are being polled on this thread's stack.
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// One more inline turn on this stack, until it is dropped.
struct Nested;

impl Nested {
    fn enter() -> Self {
        DEPTH.set(DEPTH.get().saturating_add(1));
        Self
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// An instance that its activation's task has lent to one turn.
struct Borrowed {
    activation: Arc<Activation>,
    instance: Option<Box<dyn GrainInstance>>,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.activation.give_back(self.instance.take());
    }
}

/// How a call began that may run inline.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and a box would cost each call through the mailbox an allocation"
)]
pub(crate) enum Begun {
    /// Its turn ran to its end.
    Ended(Result<Vec<u8>, CallError>),
    /// Its turn has to wait, and goes on in a task of its own, which tells the outcome.
    Waits(oneshot::Receiver<Result<Vec<u8>, CallError>>),
    /// It has to go through the mailbox.
    Refused(CallRequest),
}

/// Runs the call now if its activation is idle, as far as it goes.
pub(crate) async fn begin(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    request: CallRequest,
    deadline: Instant,
) -> Begun {
    // Nobody waits for a one-way call, so its turn has no business on the caller's task.
    if request.one_way || activation.class().info().asynchronous || DEPTH.get() >= INLINE_DEPTH_MAX {
        return Begun::Refused(request);
    }
    let Some(instance) = activation.borrow_idle(&request, deadline) else { return Begun::Refused(request) };
    inner.metrics.calls_inline.add();
    let borrowed = Borrowed { activation: Arc::clone(activation), instance: Some(instance) };
    let mut turn = Box::pin(run(Arc::clone(inner), borrowed, request, deadline));
    let polled = poll_fn(|context| {
        let _nested = Nested::enter();
        Poll::Ready(catch_unwind(AssertUnwindSafe(|| turn.as_mut().poll(context))))
    })
    .await;
    match polled {
        Ok(Poll::Ready(outcome)) => Begun::Ended(outcome),
        Ok(Poll::Pending) => {
            let (reply, ended) = oneshot::channel();
            let stop = inner.stop.clone();
            inner.tracker.spawn(async move {
                if let Some(outcome) = stop.run_until_cancelled(turn).await {
                    // Nobody waits any more when the caller went away.
                    let _ = reply.send(outcome);
                }
            });
            Begun::Waits(ended)
        }
        // After a panic there is nothing to go on with: dropping the turn tells the activation.
        Err(_) => Begun::Ended(Err(cut_off())),
    }
}

/// Waits for the end of a turn that goes on by itself.
pub(crate) async fn ended(
    ended: oneshot::Receiver<Result<Vec<u8>, CallError>>,
    deadline: Instant,
) -> Result<Vec<u8>, CallError> {
    match timeout_at(deadline, ended).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(cut_off()),
        Err(_) => Err(CallError::TimedOut),
    }
}

fn cut_off() -> CallError {
    CallError::UnknownOutcome("the activation was cut off".to_owned())
}

async fn run(
    inner: Arc<Inner>,
    mut borrowed: Borrowed,
    mut request: CallRequest,
    deadline: Instant,
) -> Result<Vec<u8>, CallError> {
    // Taken out, so that an instance whose turn is dropped is not given back.
    let Some(mut instance) = borrowed.instance.take() else {
        return Err(cut_off());
    };
    let (outcome, after) =
        turns::run(&inner, &borrowed.activation, instance.as_mut(), &mut request, deadline).await;
    if after == AfterCall::Sound {
        borrowed.instance = Some(instance);
    }
    outcome
}
