//! Calls between grains of one silo, beside the bare function and a plain actor.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;
use wasmtime::Store;
use wasmtime::component::{Func, Val};

use crate::Run;
use crate::bare::Component;
use crate::measure::{interleaved, thread_cpu};
use crate::report::Line;
use crate::world::{World, runtime};

pub(crate) fn measure(run: &Run) -> Result<Vec<Line>> {
    let calls = run.pick(20_000, 100_000);
    let repetitions = run.pick(7, 21);
    let world = World::new(&run.pinger)?;
    let without_inline = World::with(&run.pinger, |options| options.inline_depth_max = 0)?;
    let run_u64 = world.request("a", "run", &format!(r#"["b", {calls}]"#))?;
    let few = calls / 10;
    let run_1k = world.request("a", "run-bytes", &format!(r#"["b", 1024, {few}]"#))?;
    let mut bare = Bare::new(&run.pinger)?;
    let actor = Actor::new()?;

    let [u64s, bares, actors, kibs, mailboxes] = interleaved(
        repetitions,
        [
            &mut || per_call(calls, || world.call(run_u64.clone()).map(drop)),
            &mut || per_call(calls, || bare.echo(calls)),
            &mut || per_call(calls, || actor.calls(calls)),
            &mut || per_call(few, || world.call(run_1k.clone()).map(drop)),
            &mut || per_call(calls, || without_inline.call(run_u64.clone()).map(drop)),
        ],
    )?;
    let inline = world.grains.metrics().calls_inline;
    Ok(vec![
        Line::new("local-u64", "call between grains, u64 → u64", "ns", u64s.clone())
            .against("bare dynamic call_async of the same function", &bares)
            .note("CPU time of the calling thread, which does all the work"),
        Line::new("local-u64-actor", "the same", "ns", u64s.clone())
            .against("round trip to a tokio task by mpsc and oneshot", &actors),
        Line::new("local-rate", "calls per second on one core", "1/s", u64s.map(|ns| 1e9 / ns))
            .note(format!("{inline} of the calls of this row ran inline")),
        Line::new("local-1k", "call between grains, 1 KiB list<u8>", "ns", kibs)
            .against("the u64 call", &u64s),
        Line::new("local-mailbox", "u64 call through the mailbox", "ns", mailboxes)
            .against("the same call inline", &u64s),
    ])
}

/// Nanoseconds of this thread for each of the calls.
fn per_call(calls: u32, act: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = thread_cpu();
    act()?;
    Ok((thread_cpu() - before).as_secs_f64() * 1e9 / f64::from(calls))
}

/// The function itself, called as a value of unknown type.
struct Bare {
    runtime: Runtime,
    store: Store<()>,
    echo: Func,
}

impl Bare {
    fn new(component: &Path) -> Result<Self> {
        let runtime = runtime()?;
        let component = Component::new(component)?;
        let (mut store, instance) = runtime.block_on(component.instantiate())?;
        let echo = component.function(&mut store, &instance, "echo")?;
        Ok(Self { runtime, store, echo })
    }

    fn echo(&mut self, calls: u32) -> Result<()> {
        let Self { runtime, store, echo } = self;
        runtime.block_on(async {
            for n in 0..u64::from(calls) {
                let mut results = [Val::Bool(false)];
                echo.call_async(&mut *store, &[Val::U64(n)], &mut results).await?;
                ensure!(results == [Val::U64(n)], "the bare function answered {results:?}");
            }
            Ok(())
        })
    }
}

/// A message to the plain actor, with the way back.
type Message = (u64, oneshot::Sender<u64>);

/// A task with a mailbox: what one writes without a framework.
struct Actor {
    runtime: Runtime,
    mailbox: mpsc::Sender<Message>,
}

impl Actor {
    fn new() -> Result<Self> {
        let runtime = runtime()?;
        let (mailbox, mut messages) = mpsc::channel::<Message>(1_000);
        TaskTracker::new().spawn_on(
            async move {
                while let Some((n, reply)) = messages.recv().await {
                    let _ = reply.send(n);
                }
            },
            runtime.handle(),
        );
        Ok(Self { runtime, mailbox })
    }

    fn calls(&self, calls: u32) -> Result<()> {
        self.runtime.block_on(async {
            for n in 0..u64::from(calls) {
                let (reply, answer) = oneshot::channel();
                self.mailbox.send((n, reply)).await.ok().context("the actor is gone")?;
                ensure!(answer.await? == n, "the actor answered something else");
            }
            Ok(())
        })
    }
}
