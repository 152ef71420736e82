//! Turns of a reentrant instance beside each other.
//!
//! One driver runs wasmtime's event loop for the instance. It takes orders for turns, starts each as a task of the
//! component, and ends when no more orders can come and nothing of the component runs any more.
//!
//! Invariants:
//! - While the driver runs, and after it failed or was dropped, the instance takes no turn that runs alone.
//! - Every order is answered: by its turn, or with the failure that ended the instance.
//! - A turn that waits longer than any turn may ends the instance, as one that waits alone does; so the driver ends in
//!   bounded time after its last order.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use granary_core::hosting::{
    BoxFuture, MethodRef, OVERLAPPING_TURNS_MAX, Overlap, OverlappingTurns, TrapKind, TurnContext,
    TurnFailure,
};
use tokio::sync::{mpsc, oneshot};
use wasmtime::component::{Accessor, Func, Val};

use super::Instance;
use crate::class::{Method, Shared};
use crate::state::{HostState, WAIT_MAX};
use crate::trap;
use crate::value;

type Outcome = Result<Vec<u8>, TurnFailure>;

/// A turn that is to be started.
struct Order {
    method: MethodRef,
    args: Vec<u8>,
    context: TurnContext,
    reply: oneshot::Sender<Outcome>,
}

/// Takes orders, for as long as the driver is there.
struct Orders(mpsc::Sender<Order>);

impl OverlappingTurns for Orders {
    fn start(&self, method: MethodRef, args: Vec<u8>, context: TurnContext) -> BoxFuture<'static, Outcome> {
        let (reply, outcome) = oneshot::channel();
        let sent = self.0.try_send(Order { method, args, context, reply });
        Box::pin(async move {
            match sent {
                Ok(()) => outcome.await.unwrap_or_else(|_| Err(ended())),
                Err(mpsc::error::TrySendError::Full(_)) => Err(TurnFailure::BadRequest(format!(
                    "more than {OVERLAPPING_TURNS_MAX} turns are to be started at once"
                ))),
                Err(mpsc::error::TrySendError::Closed(_)) => Err(ended()),
            }
        })
    }
}

fn ended() -> TurnFailure {
    TurnFailure::Trapped {
        kind: TrapKind::Other,
        message: "the instance ended in an earlier turn".to_owned(),
    }
}

pub(super) fn waited_too_long() -> wasmtime::Error {
    wasmtime::Error::msg("the grain waited longer than its turn may take")
}

/// The turns that run, by number. Apart from the event loop, since a failure drops what is in there.
#[derive(Default)]
struct Running {
    turns: BTreeMap<u64, (Instant, oneshot::Sender<Outcome>)>,
    next: u64,
    /// No more turns come; until when what they left running may go on.
    rest: Option<Instant>,
}

/// Shared between the event loop and what watches over it.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<Running>>);

impl Board {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, until: Instant, reply: oneshot::Sender<Outcome>) -> u64 {
        let mut running = self.lock();
        let number = running.next;
        running.next += 1;
        running.turns.insert(number, (until, reply));
        number
    }

    fn answer(&self, number: u64, outcome: Outcome) {
        let turn = self.lock().turns.remove(&number);
        if let Some((_, reply)) = turn {
            // The caller may have gone.
            let _ = reply.send(outcome);
        }
    }

    fn answer_all(&self, failure: &TurnFailure) {
        let turns = std::mem::take(&mut self.lock().turns);
        for (_, reply) in turns.into_values() {
            let _ = reply.send(Err(failure.clone()));
        }
    }

    /// When the next one has waited too long.
    fn first_until(&self) -> Option<Instant> {
        let running = self.lock();
        running.turns.values().map(|(until, _)| *until).chain(running.rest).min()
    }

    /// Waits until something has waited too long. A turn may wait for [`WAIT_MAX`] at least, so that looking as
    /// often misses none.
    async fn watch(&self) {
        loop {
            let now = Instant::now();
            let first = self.first_until();
            if first.is_some_and(|until| until <= now) {
                return;
            }
            let look_again = now + WAIT_MAX;
            tokio::time::sleep_until(first.unwrap_or(look_again).min(look_again).into()).await;
        }
    }
}

/// Why the event loop ended early.
enum End {
    Failed(wasmtime::Error),
    /// A result that cannot be passed on.
    Result(TrapKind, String),
}

pub(super) fn begin(instance: &mut Instance) -> Overlap<'_> {
    let (sender, orders) = mpsc::channel(OVERLAPPING_TURNS_MAX);
    Overlap { turns: Arc::new(Orders(sender)), driver: Box::pin(drive(instance, orders)) }
}

/// Runs turns until no more can be ordered and all have ended.
async fn drive(instance: &mut Instance, mut orders: mpsc::Receiver<Order>) -> Result<(), TurnFailure> {
    if !instance.sound {
        return Err(ended());
    }
    instance.sound = false;
    let shared = Arc::clone(&instance.shared);
    // Looked up before the event loop has the store.
    let functions: Vec<Option<Func>> = shared
        .methods
        .iter()
        .enumerate()
        .map(|(position, method)| instance.callable(position, method).map(|callable| callable.function))
        .collect();
    instance.store.data_mut().start_overlapping();
    instance.store.set_epoch_deadline(1);

    let board = Board::default();
    let turns = Turns { shared: &shared, functions: &functions, board: &board };
    let running = instance.store.run_concurrent(async |accessor| turns.run(accessor, &mut orders).await);
    let outcome = tokio::select! {
        outcome = running => outcome.unwrap_or_else(|error| Err(End::Failed(error))),
        () = board.watch() => Err(End::Failed(waited_too_long())),
    };
    let state = instance.store.data_mut();
    let failure = match outcome {
        Ok(()) => {
            state.flush_log();
            instance.sound = true;
            return Ok(());
        }
        Err(End::Failed(error)) => trap::failure(&error, state),
        Err(End::Result(kind, message)) => trap::ended(kind, &message, state),
    };
    board.answer_all(&failure);
    orders.close();
    while let Ok(order) = orders.try_recv() {
        let _ = order.reply.send(Err(failure.clone()));
    }
    Err(failure)
}

/// What the event loop knows.
struct Turns<'a> {
    shared: &'a Shared,
    functions: &'a [Option<Func>],
    board: &'a Board,
}

impl Turns<'_> {
    async fn run(
        &self,
        accessor: &Accessor<HostState>,
        orders: &mut mpsc::Receiver<Order>,
    ) -> Result<(), End> {
        let mut running = FuturesUnordered::new();
        let mut open = true;
        while open || !running.is_empty() {
            tokio::select! {
                order = orders.recv(), if open => match order {
                    Some(order) => running.push(self.turn(accessor, order)),
                    None => open = false,
                },
                Some(ended) = running.next(), if !running.is_empty() => ended?,
            }
        }
        self.board.lock().rest = Some(Instant::now() + WAIT_MAX);
        poll_fn(|context| accessor.poll_no_interesting_tasks(context)).await;
        Ok(())
    }

    /// Runs one turn to its end. An error is the end of the instance.
    async fn turn(&self, accessor: &Accessor<HostState>, order: Order) -> Result<(), End> {
        let Order { method, args, context, reply } = order;
        let (function, method, params) = match self.resolve(accessor, &method, &args) {
            Ok(found) => found,
            Err(text) => {
                let _ = reply.send(Err(TurnFailure::BadRequest(text)));
                return Ok(());
            }
        };
        drop(args);
        let mut results = vec![Val::Bool(false); usize::from(method.signature.result.is_some())];
        let begun = accessor.with(|mut access| {
            let call = function.start_call_concurrent(&mut access, &params, &mut results)?;
            let until = access.data_mut().enter_turn(call.task(), context);
            Ok((call, until))
        });
        let (call, until) = begun.map_err(End::Failed)?;
        let task = call.task();
        let number = self.board.enter(until, reply);
        let finished = function.finish_call_concurrent(accessor, call).await;
        let bytes_max = accessor.with(|mut access| {
            let state = access.data_mut();
            state.leave_turn(task);
            state.flush_log();
            state.value_bytes_max
        });
        finished.map_err(End::Failed)?;
        match value::encode_result(&method.signature, results.first(), bytes_max) {
            Ok(bytes) => {
                self.board.answer(number, Ok(bytes));
                Ok(())
            }
            Err(error) => {
                let kind = if error.is_too_large() { TrapKind::ResultTooLarge } else { TrapKind::Other };
                Err(End::Result(kind, format!("the result of {}: {error}", method.reference.method)))
            }
        }
    }

    /// The function and its arguments; the error is for the caller, and nothing ran.
    fn resolve(
        &self,
        accessor: &Accessor<HostState>,
        wanted: &MethodRef,
        args: &[u8],
    ) -> Result<(Func, &Method, Vec<Val>), String> {
        let (position, method) = self.shared.find(wanted)?;
        let bytes_max = accessor.with(|mut access| access.data_mut().value_bytes_max);
        if args.len() > bytes_max {
            return Err(format!("the arguments have {} bytes, the limit is {bytes_max}", args.len()));
        }
        let function = self.functions.get(position).copied().flatten();
        let function = function.ok_or_else(|| format!("{} is not callable", wanted.method))?;
        let params = value::decode_params(&method.signature, args)
            .map_err(|error| format!("the arguments do not decode: {error}"))?;
        Ok((function, method, params))
    }
}
