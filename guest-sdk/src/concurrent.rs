//! Several things at once: calls that are awaited together, and the handle to a grain whose turns overlap.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Awaits all futures at once, and gives their results in the same order. Calls of other grains are under way together:
///
/// ```text
/// let accounts: Vec<AccountRef> = …;
/// let balances = join_all(accounts.iter().map(|account| async { account.concurrent().balance().await })).await;
/// ```
///
/// A silo lets one activation have 256 calls under way; further ones fail as overloaded.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Result<F::Output, Pin<Box<F>>>> =
        futures.into_iter().map(|future| Err(Box::pin(future))).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for slot in &mut running {
            let Err(future) = slot else { continue };
            match future.as_mut().poll(context) {
                Poll::Ready(output) => *slot = Ok(output),
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(Result::ok).collect()
}

/// A grain whose turns overlap (`#[grain(reentrant)]`). Between two awaits of a turn other turns run, so that none may
/// keep the grain: each step borrows it anew.
pub struct Shared<G> {
    #[cfg(target_family = "wasm")]
    grain: std::marker::PhantomData<fn() -> G>,
    #[cfg(not(target_family = "wasm"))]
    grain: std::rc::Rc<std::cell::RefCell<G>>,
}

impl<G> Clone for Shared<G> {
    fn clone(&self) -> Self {
        #[allow(clippy::clone_on_copy, reason = "it is a counted reference natively")]
        Self { grain: self.grain.clone() }
    }
}

impl<G> std::fmt::Debug for Shared<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

#[cfg(target_family = "wasm")]
impl<G: crate::Grain> Shared<G> {
    pub(crate) fn of_instance() -> Self {
        Self { grain: std::marker::PhantomData }
    }

    /// Borrows the grain for one step. A step within a step is a mistake, and panics.
    pub fn with<R>(&self, step: impl FnOnce(&mut G) -> R) -> R {
        crate::grain::turn(step)
    }
}

#[cfg(not(target_family = "wasm"))]
impl<G> Shared<G> {
    /// Borrows the grain for one step. A step within a step is a mistake, and panics.
    pub fn with<R>(&self, step: impl FnOnce(&mut G) -> R) -> R {
        step(&mut self.grain.borrow_mut())
    }
}

/// Runs a future natively, where all that a grain can await is there at once.
#[cfg(not(target_family = "wasm"))]
#[expect(clippy::panic, reason = "a test whose grain waits for nothing can only fail")]
pub fn now<R>(future: impl Future<Output = R>) -> R {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => {
            panic!("the grain awaits something that is no call of a grain; in a test it never comes")
        }
    }
}

/// Runs one method of a reentrant grain natively.
#[cfg(not(target_family = "wasm"))]
pub fn shared<G: Default, R>(grain: &mut G, method: impl AsyncFnOnce(Shared<G>) -> R) -> R {
    let cell = std::rc::Rc::new(std::cell::RefCell::new(std::mem::take(grain)));
    let result = now(method(Shared { grain: std::rc::Rc::clone(&cell) }));
    std::mem::swap(grain, &mut cell.borrow_mut());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_futures_run_together_and_their_results_keep_the_order() {
        let started = std::cell::Cell::new(0);
        let futures = (0..3).map(|n| {
            let started = &started;
            let mut first = true;
            poll_fn(move |context| {
                if std::mem::take(&mut first) {
                    started.set(started.get() + 1);
                }
                context.waker().wake_by_ref();
                // None ends before all have started.
                if started.get() == 3 { Poll::Ready(n) } else { Poll::Pending }
            })
        });
        let mut all = std::pin::pin!(join_all(futures));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(all.as_mut().poll(&mut context).is_pending());
        assert_eq!(all.as_mut().poll(&mut context), Poll::Ready(vec![0, 1, 2]));
        assert_eq!(now(join_all(Vec::<std::future::Ready<u8>>::new())), [0; 0]);
    }

    #[test]
    fn a_shared_grain_keeps_what_a_step_did() {
        let mut grain = 1;
        let seen = shared(&mut grain, async |this: Shared<i32>| {
            this.with(|grain| *grain += 1);
            this.with(|grain| *grain)
        });
        assert_eq!((seen, grain), (2, 2));
    }
}
