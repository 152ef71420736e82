//! The shell around a pure machine: events in, commands out, and a timer. One task owns the machine.

use granary_core::id::Time;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::clock;

/// Events waiting for one machine. Senders that may wait do; messages of peers beyond it are dropped, since the
/// machines repeat what matters.
pub(crate) const INBOX_MAX: usize = 4_096;

/// What carrying out a command means for the loop.
pub(crate) enum Step {
    Done,
    /// The machine wants a tick then; replaces the earlier wish.
    WakeAt(Time),
}

/// Feeds a machine until `cancel`: `handle` is its transition, `tick` the event that says that a wake-up time has
/// come. Commands are carried out in their order and must not block.
pub(crate) async fn drive<Event, Command>(
    mut handle: impl FnMut(Time, Event, &mut Vec<Command>),
    tick: impl Fn() -> Event,
    mut inbox: mpsc::Receiver<Event>,
    mut execute: impl FnMut(Command) -> Step,
    cancel: CancellationToken,
) {
    let mut out = Vec::new();
    let mut wake: Option<Time> = None;
    loop {
        let timer = async {
            match wake {
                Some(time) => tokio::time::sleep(clock::until(time)).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            // Before the inbox: what a full inbox dropped is repeated by ticks, and each tick moves the next one.
            () = timer => {
                wake = None;
                tick()
            }
            event = inbox.recv() => match event {
                Some(event) => event,
                None => return,
            },
        };
        handle(clock::now(), event, &mut out);
        for command in out.drain(..) {
            if let Step::WakeAt(time) = execute(command) {
                wake = Some(time);
            }
        }
    }
}
