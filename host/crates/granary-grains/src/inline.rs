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

use granary_core::hosting::GrainInstance;

use crate::activation::Activation;
use crate::activation::mailbox::QueuedCall;
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

/// Runs the call now if its activation is idle. Gives it back when it has to go through the mailbox.
pub(crate) async fn begin(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    call: QueuedCall,
) -> Result<(), QueuedCall> {
    // Nobody waits for a one-way call, so its turn has no business on the caller's task.
    if call.request.one_way || activation.class().info().asynchronous || DEPTH.get() >= INLINE_DEPTH_MAX {
        return Err(call);
    }
    let Some(instance) = activation.borrow_idle(&call) else { return Err(call) };
    inner.metrics.calls_inline.add();
    let borrowed = Borrowed { activation: Arc::clone(activation), instance: Some(instance) };
    let mut turn = Box::pin(run(Arc::clone(inner), borrowed, call));
    let ended = poll_fn(|context| {
        let _nested = Nested::enter();
        let polled = catch_unwind(AssertUnwindSafe(|| turn.as_mut().poll(context)));
        // After a panic there is nothing to go on with: dropping the turn tells the activation and the caller.
        Poll::Ready(polled.map_or(true, |turn| turn.is_ready()))
    })
    .await;
    if !ended {
        let stop = inner.stop.clone();
        inner.tracker.spawn(async move {
            stop.run_until_cancelled(turn).await;
        });
    }
    Ok(())
}

async fn run(inner: Arc<Inner>, mut borrowed: Borrowed, call: QueuedCall) {
    // Taken out, so that an instance whose turn is dropped is not given back.
    let Some(mut instance) = borrowed.instance.take() else { return };
    let after = turns::run_call(&inner, &borrowed.activation, instance.as_mut(), call).await;
    if after == AfterCall::Sound {
        borrowed.instance = Some(instance);
    }
}
