//! Runs the directory machine, and matches its completions with the callers that wait for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use granary_core::directory::{
    Command, Directory, DirectoryConfig, DirectoryMessage, DirectoryView, Event, GrainAddress, LocalOp, OpId,
    Outcome, Refusal,
};
use granary_core::hosting::BoxFuture;
use granary_core::id::{ActivationId, GrainId, SiloAddress};
use granary_core::membership::MembershipView;
use granary_core::membership::table::SiloStatus;
use granary_core::wire::OneWay;
use granary_grains::{DirectoryError, MoveOutcome, ThawOutcome};
use granary_net::{Lane, Network};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::driver::{INBOX_MAX, Step, drive};

/// What the machine's commands act on.
pub(crate) struct DirectoryParts {
    pub(crate) me: SiloAddress,
    pub(crate) network: Arc<Network>,
    /// An activation of this silo lost a conflict.
    pub(crate) on_duplicate: Box<dyn Fn(GrainId, ActivationId, Option<GrainAddress>) + Send>,
    /// Somebody has a newer view.
    pub(crate) on_refresh: Box<dyn Fn(u64) + Send>,
}

/// A handle to the running machine.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryHandle {
    inbox: mpsc::Sender<Event>,
    waiting: Arc<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: AtomicU64,
    callers: Mutex<BTreeMap<OpId, oneshot::Sender<Outcome>>>,
}

impl Waiting {
    fn take(&self, op: OpId) -> Option<oneshot::Sender<Outcome>> {
        self.callers.lock().ok()?.remove(&op)
    }
}

/// Starts the machine in a task of `tracker`.
pub(crate) fn start(
    parts: DirectoryParts,
    tracker: &TaskTracker,
    cancel: CancellationToken,
) -> DirectoryHandle {
    let (inbox, events) = mpsc::channel(INBOX_MAX);
    let waiting = Arc::new(Waiting::default());
    let mut machine = Directory::new(parts.me, DirectoryConfig::default());
    let callers = Arc::clone(&waiting);
    let execute = move |command| {
        match command {
            Command::Send { to, message } => parts.network.send(to, Lane::System, OneWay::Directory(message)),
            Command::Complete { op, outcome } => {
                if let Some(caller) = callers.take(op) {
                    let _ = caller.send(outcome);
                }
            }
            Command::Deactivate { grain, activation, winner } => {
                (parts.on_duplicate)(grain, activation, Some(winner));
            }
            Command::RefreshMembership { version } => (parts.on_refresh)(version),
            Command::WakeAt(time) => return Step::WakeAt(time),
        }
        Step::Done
    };
    let ended = Arc::clone(&waiting);
    tracker.spawn(async move {
        drive(
            move |now, event, out| machine.handle(now, event, out),
            || Event::Tick,
            events,
            execute,
            cancel,
        )
        .await;
        // The inbox is gone with the machine, so whoever still waits would wait for ever.
        if let Ok(mut callers) = ended.callers.lock() {
            callers.clear();
        }
    });
    DirectoryHandle { inbox, waiting }
}

impl DirectoryHandle {
    pub(crate) fn message(&self, from: SiloAddress, message: DirectoryMessage) {
        let _ = self.inbox.try_send(Event::Message { from, message });
    }

    /// Installs a view; waits for room, since views must arrive.
    pub(crate) async fn view(&self, view: &MembershipView) {
        let _ = self.inbox.send(Event::View(Arc::new(directory_view(view)))).await;
    }

    /// Asks, and waits for the outcome. Dropping the future cancels the operation. `None` when the silo stops.
    pub(crate) async fn ask(&self, request: LocalOp) -> Option<Outcome> {
        let op = OpId(self.waiting.next.fetch_add(1, Ordering::Relaxed));
        let (caller, outcome) = oneshot::channel();
        self.waiting.callers.lock().ok()?.insert(op, caller);
        let mut guard = CancelOnDrop { handle: self, op, armed: true };
        self.inbox.send(Event::Local { op, request }).await.ok()?;
        let outcome = outcome.await.ok();
        guard.armed = false;
        outcome
    }
}

struct CancelOnDrop<'a> {
    handle: &'a DirectoryHandle,
    op: OpId,
    armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.handle.waiting.take(self.op);
            let _ = self.handle.inbox.try_send(Event::Cancel(self.op));
        }
    }
}

fn directory_view(view: &MembershipView) -> DirectoryView {
    let with = |wanted: &[SiloStatus]| {
        view.members
            .iter()
            .filter(|(_, member)| wanted.contains(&member.status))
            .map(|(silo, _)| *silo)
            .collect()
    };
    DirectoryView {
        version: view.version,
        active: with(&[SiloStatus::Active]),
        hosting: with(&[SiloStatus::Active, SiloStatus::ShuttingDown]),
    }
}

impl granary_grains::Directory for DirectoryHandle {
    fn register(
        &self,
        address: GrainAddress,
        previous: Option<ActivationId>,
    ) -> BoxFuture<'_, Result<GrainAddress, DirectoryError>> {
        Box::pin(async move {
            match self.answer(LocalOp::Register { address, previous }).await? {
                Outcome::Registered(address) | Outcome::Exists(address) => Ok(address),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn lookup(&self, grain: GrainId) -> BoxFuture<'_, Result<Option<GrainAddress>, DirectoryError>> {
        Box::pin(async move {
            match self.answer(LocalOp::Lookup { grain }).await? {
                Outcome::Found(address) => Ok(address),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn unregister(
        &self,
        grain: GrainId,
        activation: ActivationId,
    ) -> BoxFuture<'_, Result<(), DirectoryError>> {
        Box::pin(self.done(LocalOp::Unregister { grain, activation }))
    }

    fn move_to(
        &self,
        from: ActivationId,
        to: GrainAddress,
    ) -> BoxFuture<'_, Result<MoveOutcome, DirectoryError>> {
        Box::pin(async move {
            match self.answer(LocalOp::Move { from, to }).await? {
                Outcome::Moved(address) => Ok(MoveOutcome::Moved(address)),
                Outcome::NotMoved => Ok(MoveOutcome::NotMoved),
                Outcome::Lost(winner) => Ok(MoveOutcome::Lost(winner)),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn add_frozen(&self, address: GrainAddress) -> BoxFuture<'_, Result<(), DirectoryError>> {
        Box::pin(async move {
            match self.answer(LocalOp::AddFrozen { address }).await? {
                Outcome::Added => Ok(()),
                Outcome::Lost(_) => {
                    Err(DirectoryError::Refused("the grain has another activation".to_owned()))
                }
                other => Err(unexpected(&other)),
            }
        })
    }

    fn drop_frozen(
        &self,
        grain: GrainId,
        activation: ActivationId,
    ) -> BoxFuture<'_, Result<(), DirectoryError>> {
        Box::pin(self.done(LocalOp::DropFrozen { grain, activation }))
    }

    fn thaw(
        &self,
        grain: GrainId,
        activation: ActivationId,
    ) -> BoxFuture<'_, Result<ThawOutcome, DirectoryError>> {
        Box::pin(async move {
            let outcome = self.ask(LocalOp::Thaw { grain, activation }).await;
            // Not live: the machine has dropped the target already, so it can never run.
            if outcome == Some(Outcome::Refused(Refusal::NotLive)) {
                return Ok(ThawOutcome::Lost(None));
            }
            match settle(outcome)? {
                Outcome::Registered(address) => Ok(ThawOutcome::Registered(address)),
                Outcome::NotYet => Ok(ThawOutcome::NotYet),
                Outcome::Lost(winner) => Ok(ThawOutcome::Lost(winner)),
                other => Err(unexpected(&other)),
            }
        })
    }
}

impl DirectoryHandle {
    /// Asks, with refusals and the end of the silo as errors.
    async fn answer(&self, request: LocalOp) -> Result<Outcome, DirectoryError> {
        settle(self.ask(request).await)
    }

    /// Asks where every outcome that is no refusal means that it is done.
    async fn done(&self, request: LocalOp) -> Result<(), DirectoryError> {
        self.answer(request).await.map(drop)
    }
}

fn settle(outcome: Option<Outcome>) -> Result<Outcome, DirectoryError> {
    match outcome {
        Some(Outcome::Refused(refusal)) => Err(DirectoryError::Refused(refusal.to_string())),
        Some(outcome) => Ok(outcome),
        None => Err(DirectoryError::Unavailable("the silo stops".to_owned())),
    }
}

fn unexpected(outcome: &Outcome) -> DirectoryError {
    DirectoryError::Unavailable(format!(
        "the directory gave an answer that does not belong here: {outcome:?}"
    ))
}
