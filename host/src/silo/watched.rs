//! A class whose turns are watched: a fault inside of one names its component, a panic of the host fails one call, and
//! a component in quarantine runs no more.
//!
//! All guest code runs below the futures that are wrapped here: the start code of an instance, its turns, and what
//! drives overlapping turns. They are marked while they are polled and not while they wait, so a death blames only the
//! component that ran.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use granary_core::hosting::{
    ActivationHost, BoxFuture, ClassError, ClassInfo, GrainClass, GrainInstance, MethodRef, Overlap,
    TextFormat, TrapKind, Turn, TurnContext, TurnFailure,
};

use super::failpoint::Failpoint;
use super::fault::{self, Mark};
use super::quarantine::Quarantine;

/// What is known of one component while its turns are watched.
#[derive(Debug)]
struct Watch {
    mark: Mark,
    quarantine: Arc<Quarantine>,
    panics: Arc<AtomicU64>,
    class: Arc<dyn GrainClass>,
    failpoint: Option<Arc<Failpoint>>,
}

impl Watch {
    /// Refuses what would run a component in quarantine.
    fn admit(&self) -> Result<(), TurnFailure> {
        match self.quarantine.why(&self.class.info().digest) {
            None => Ok(()),
            Some(why) => Err(TurnFailure::Trapped { kind: TrapKind::Other, message: why }),
        }
    }

    /// The failure of the one turn in which the host panicked.
    fn panicked(&self) -> TurnFailure {
        self.panics.fetch_add(1, Ordering::Relaxed);
        let info = self.class.info();
        tracing::error!(grain_type = %info.grain_type, digest = %info.digest.short(), "the host panicked in a turn");
        let message =
            "the host panicked in this turn, which is a defect of Granary; the silo's log says where";
        TurnFailure::Trapped { kind: TrapKind::Other, message: message.to_owned() }
    }
}

/// What the silo watches with.
#[derive(Debug, Clone)]
pub(super) struct Watcher {
    pub(super) quarantine: Arc<Quarantine>,
    /// Where a fault is written.
    pub(super) file: Arc<std::fs::File>,
    pub(super) generation: i32,
    /// Turns in which the host panicked.
    pub(super) panics: Arc<AtomicU64>,
    pub(super) failpoint: Option<Arc<Failpoint>>,
}

impl Watcher {
    /// The same class, watched.
    pub(super) fn watch(&self, class: Arc<dyn GrainClass>) -> Arc<dyn GrainClass> {
        let watch = Watch {
            mark: Mark::new(&self.file, self.generation, &class.info().digest),
            quarantine: Arc::clone(&self.quarantine),
            panics: Arc::clone(&self.panics),
            class,
            failpoint: self.failpoint.clone(),
        };
        Arc::new(WatchedClass(Arc::new(watch)))
    }
}

/// Work that may run guest code, while it is polled.
struct Watched<'a, T> {
    watch: &'a Watch,
    work: Option<BoxFuture<'a, Result<T, TurnFailure>>>,
    abort: bool,
}

impl<T> Future for Watched<'_, T> {
    type Output = Result<T, TurnFailure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(work) = &mut this.work else { return Poll::Ready(Err(this.watch.panicked())) };
        let abort = this.abort;
        let polled = fault::inside(&this.watch.mark, || {
            if abort {
                std::process::abort();
            }
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)))
        });
        polled.unwrap_or_else(|_| {
            // Whatever it left is dropped here, and never polled again.
            this.work = None;
            Poll::Ready(Err(this.watch.panicked()))
        })
    }
}

fn watched<'a, T: Send + 'a>(
    watch: &'a Watch,
    abort: bool,
    work: BoxFuture<'a, Result<T, TurnFailure>>,
) -> BoxFuture<'a, Result<T, TurnFailure>> {
    Box::pin(Watched { watch, work: Some(work), abort })
}

#[derive(Debug)]
struct WatchedClass(Arc<Watch>);

impl GrainClass for WatchedClass {
    fn info(&self) -> &ClassInfo {
        self.0.class.info()
    }

    fn method(&self, name: &str) -> Result<MethodRef, ClassError> {
        self.0.class.method(name)
    }

    fn args_from_text(
        &self,
        method: &MethodRef,
        format: TextFormat,
        text: &str,
    ) -> Result<Vec<u8>, ClassError> {
        self.0.class.args_from_text(method, format, text)
    }

    fn result_to_text(
        &self,
        method: &MethodRef,
        format: TextFormat,
        result: &[u8],
    ) -> Result<String, ClassError> {
        self.0.class.result_to_text(method, format, result)
    }

    fn instantiate(
        &self,
        host: Arc<dyn ActivationHost>,
    ) -> BoxFuture<'_, Result<Box<dyn GrainInstance>, TurnFailure>> {
        let watch = &self.0;
        Box::pin(async move {
            watch.admit()?;
            let failpoint = watch.failpoint.as_ref().filter(|it| it.is_of(&host.identity().grain));
            let abort = failpoint.is_some_and(|it| it.aborts());
            let host = match failpoint {
                Some(failpoint) => failpoint.host(host),
                None => host,
            };
            let instance = watched(watch, false, watch.class.instantiate(host)).await?;
            Ok(Box::new(WatchedInstance { watch: Arc::clone(watch), instance, abort })
                as Box<dyn GrainInstance>)
        })
    }
}

struct WatchedInstance {
    watch: Arc<Watch>,
    instance: Box<dyn GrainInstance>,
    /// A failpoint: its turns abort the process.
    abort: bool,
}

impl GrainInstance for WatchedInstance {
    fn overlap(&mut self) -> Option<Overlap<'_>> {
        let Overlap { turns, driver } = self.instance.overlap()?;
        Some(Overlap { turns, driver: watched(&self.watch, self.abort, driver) })
    }

    fn turn(&mut self, turn: Turn, context: TurnContext) -> BoxFuture<'_, Result<Vec<u8>, TurnFailure>> {
        match self.watch.admit() {
            Ok(()) => watched(&self.watch, self.abort, self.instance.turn(turn, context)),
            Err(failure) => Box::pin(std::future::ready(Err(failure))),
        }
    }
}
