//! The local grain directory: one machine for each silo.
//!
//! A machine holds (a) the partition of the ring that its silo owns, (b) the activations that live on its silo,
//! and (c) its silo's pending operations. Nothing is replicated. Instead, whenever the set of silos changes, every
//! owner asks all silos that may hold activations for those whose entries it owns now, and serves nobody until it
//! has heard from all of them (the *barrier*). One mechanism so serves joins, leaves and deaths (decision B6).
//!
//! Invariants:
//! - An owner answers a request only in the requester's own view, and only after the barrier of that view.
//! - An answer given in another view than the current one is not believed; the question is asked again.
//! - An activation whose entry was removed or replaced never returns to the directory.
//! - Of a grain's activations in one barrier the newest registration stays, others are evicted; a frozen migration
//!   target counts only when neither its source nor anything newer was reported.
//! - An activation that moved away, or of which nobody can know whether it did, never runs again.
//!
//! What this machine does not promise: a silo that was declared dead but still runs turns is not stopped by the
//! directory (decision B5).

mod barrier;
mod config;
mod local;
mod owner;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{ActivationId, GrainId, SiloAddress, Time};
use crate::ring::Ring;

pub use config::{DirectoryConfig, Mutant};

/// Where a grain's registered activation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrainAddress {
    pub grain: GrainId,
    pub activation: ActivationId,
    pub silo: SiloAddress,
    /// Given by the owner at registration: view version × 2³² + a counter. Grows with each registration of a grain;
    /// zero before registration.
    pub fence: u64,
    /// The activation from which this one was migrated.
    pub previous: Option<ActivationId>,
}

/// What the directory needs to know of a membership view. The same version means the same content on every silo.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryView {
    pub version: u64,
    /// Silos that own parts of the ring: those that are Active.
    pub active: BTreeSet<SiloAddress>,
    /// Silos that may hold activations: those that are Active or ShuttingDown.
    pub hosting: BTreeSet<SiloAddress>,
}

impl DirectoryView {
    /// The ring of this view. When nobody is Active any more, the silos that are shutting down own it, so that
    /// their grains can still be found while they stop (spec B2.3).
    #[must_use]
    pub fn ring(&self) -> Ring {
        Ring::new(if self.active.is_empty() { &self.hosting } else { &self.active })
    }
}

/// One local operation; chosen by the caller, never used twice in the life of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// What this silo asks of the directory. Each is answered by exactly one [`Command::Complete`], unless cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalOp {
    /// Registers a new activation of this silo, which may run once the answer is [`Outcome::Registered`]. The
    /// activation given in `previous` may be replaced.
    Register { address: GrainAddress, previous: Option<ActivationId> },
    /// Asks where a grain is. Never answers with an activation of this silo that does not live any more.
    Lookup { grain: GrainId },
    /// Tells that an activation of this silo ended.
    Unregister { grain: GrainId, activation: ActivationId },
    /// The commit of a migration: if `from`, of this silo, is registered, registers `to` in its place. The
    /// activation must not run turns from here on until the answer is there. Cannot be cancelled.
    Move { from: ActivationId, to: GrainAddress },
    /// Announces a migration target on this silo that is restored from `address.previous`, whose fence is
    /// `address.fence`, and does not run yet. The source may commit only after this was answered by
    /// [`Outcome::Added`]. A source has at most one target at a time: before it tries another one, the last one must
    /// be dropped for sure, or its silo gone.
    AddFrozen { address: GrainAddress },
    /// Drops a migration target that did not start.
    DropFrozen { grain: GrainId, activation: ActivationId },
    /// Makes a migration target live if the directory names it. Ask when the source says so, and now and then
    /// while nothing is heard of the source.
    Thaw { grain: GrainId, activation: ActivationId },
    /// The activations of this silo as this machine knows them, for listings and audits.
    LocalActivations,
}

/// How a local operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// `Register`, `Thaw`: the directory names this activation, which may run. Holds the fence.
    Registered(GrainAddress),
    /// `Register`: the grain has another activation; use that one.
    Exists(GrainAddress),
    /// `Lookup`.
    Found(Option<GrainAddress>),
    /// `Unregister`, `DropFrozen`.
    Removed,
    /// `AddFrozen`.
    Added,
    /// `Move`: committed. The source never runs again.
    Moved(GrainAddress),
    /// `Move`: not committed and never will be; the source is still registered and may go on.
    NotMoved,
    /// `Thaw`: the source is still registered; stay frozen and ask again later.
    NotYet,
    /// `Move`, `AddFrozen`, `Thaw`: the directory names another activation, or none; this one must end.
    Lost(Option<GrainAddress>),
    /// `LocalActivations`.
    Activations(Vec<LocalActivation>),
    /// Nothing was done.
    Refused(Refusal),
}

/// Why an operation was not tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("too many directory operations are waiting on this silo")]
    Overloaded,
    #[error("the address names another silo")]
    WrongSilo,
    #[error("the activation is not one of this silo's, or not in the state for this operation")]
    NotLive,
    #[error("the activation ended before it was registered")]
    Ended,
    #[error("the operation's number was used before")]
    DuplicateOperation,
}

/// An activation on this silo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalActivation {
    pub address: GrainAddress,
    /// A migration target that does not run yet.
    pub frozen: bool,
}

/// A place in a silo's list of activations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub grain: GrainId,
    pub activation: ActivationId,
}

/// What a silo asks of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    Register { address: GrainAddress, previous: Option<ActivationId> },
    Lookup { grain: GrainId },
    Unregister { grain: GrainId, activation: ActivationId },
    Move { from: ActivationId, to: GrainAddress },
}

impl Question {
    /// The grain that the question is about.
    #[must_use]
    pub fn grain(&self) -> &GrainId {
        match self {
            Self::Register { address, .. } | Self::Move { to: address, .. } => &address.grain,
            Self::Lookup { grain } | Self::Unregister { grain, .. } => grain,
        }
    }
}

/// What an owner answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// `Register`, `Lookup`, `Unregister`: the entry after the operation.
    Entry(Option<GrainAddress>),
    /// `Register`: this activation had been removed or replaced before.
    Ended,
    /// `Move`: the target is registered.
    Moved(GrainAddress),
    /// `Move`: the source is registered, and the target is gone. The owner has known all of this grain's
    /// registrations since view `since`; a commit before that view may be forgotten.
    TargetGone { since: u64 },
    /// `Move`: the source is not registered.
    SourceGone(Option<GrainAddress>),
}

/// What the directories of two silos say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryMessage {
    /// To the owner, in the sender's view `view`; repeated until answered.
    Request { view: u64, id: u64, question: Question },
    /// From the owner, given in view `view`.
    Answer { view: u64, id: u64, answer: Answer },
    /// The receiver's message carried an older view than `version`; nothing was changed.
    StaleView { version: u64 },
    /// From an owner that installed view `view`: which activations of yours have their entries here in that view?
    /// The answer goes on behind `after`. Repeated until answered.
    AskReport { view: u64, after: Option<Cursor> },
    /// The answer, in the order of grains and activations; `more` when it does not end here.
    Report { view: u64, after: Option<Cursor>, entries: Vec<LocalActivation>, more: bool },
    /// The activation lost against `winner` in a barrier of the sender; repeated until acknowledged.
    Evict { view: u64, grain: GrainId, activation: ActivationId, winner: GrainAddress },
    /// The eviction was seen.
    EvictAck { view: u64, grain: GrainId, activation: ActivationId },
}

/// What happens to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Membership installed a view. Older ones than the current one are ignored.
    View(Arc<DirectoryView>),
    Message {
        from: SiloAddress,
        message: DirectoryMessage,
    },
    Local {
        op: OpId,
        request: LocalOp,
    },
    /// Nobody waits for the operation any more. A registration is undone, also one whose completion crossed with the
    /// cancellation; a removal goes on; a move goes on and is completed nevertheless; what was announced as frozen
    /// stays so until it is dropped.
    Cancel(OpId),
    /// The time asked for by [`Command::WakeAt`] has come. Harmless at any other time.
    Tick,
}

/// What a machine wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Send {
        to: SiloAddress,
        message: DirectoryMessage,
    },
    Complete {
        op: OpId,
        outcome: Outcome,
    },
    /// The activation lost a conflict: end it as a duplicate, without unregistering it.
    Deactivate {
        grain: GrainId,
        activation: ActivationId,
        winner: GrainAddress,
    },
    /// Somebody has this newer view: have membership read it.
    RefreshMembership {
        version: u64,
    },
    /// Send [`Event::Tick`] at this time. A later command replaces an earlier one.
    WakeAt(Time),
}

/// The directory machine of one silo.
#[derive(Debug)]
pub struct Directory {
    me: SiloAddress,
    config: DirectoryConfig,
    view: Arc<DirectoryView>,
    ring: Ring,
    owner: owner::Owner,
    barrier: barrier::Barrier,
    local: local::Local,
    /// Messages to this silo itself.
    loopback: VecDeque<DirectoryMessage>,
    /// The newest version asked for by `RefreshMembership`, and when.
    refresh_asked: Option<(u64, Time)>,
    wake_at: Option<Time>,
}

impl Directory {
    /// A machine that knows no view yet.
    #[must_use]
    pub fn new(me: SiloAddress, config: DirectoryConfig) -> Self {
        Self {
            me,
            config,
            view: Arc::default(),
            ring: Ring::default(),
            owner: owner::Owner::default(),
            barrier: barrier::Barrier::default(),
            local: local::Local::default(),
            loopback: VecDeque::new(),
            refresh_asked: None,
            wake_at: None,
        }
    }

    /// The installed view's version; 0 before the first.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.view.version
    }

    /// The silo that owns the grain's entry in the installed view.
    #[must_use]
    pub fn owner_of(&self, grain: &GrainId) -> Option<SiloAddress> {
        self.ring.owner_of(grain)
    }

    /// Whether this silo has heard from every silo of its view, or owns nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.barrier.is_settled()
    }

    /// The entries that this silo owns.
    pub fn entries(&self) -> impl Iterator<Item = &GrainAddress> {
        self.owner.entries()
    }

    /// The activations of this silo.
    pub fn activations(&self) -> impl Iterator<Item = &LocalActivation> {
        self.local.activations()
    }

    /// Takes one event and appends what is to be done about it.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::View(view) => self.install(now, view, out),
            Event::Message { from, message } => self.receive(now, from, message, out),
            Event::Local { op, request } => self.start(now, op, request, out),
            Event::Cancel(op) => self.cancel(now, op, out),
            Event::Tick => {
                self.wake_at = None;
                self.repeat_requests(now, out);
                self.repeat_reports(now, out);
            }
        }
        let me = self.me;
        while let Some(message) = self.loopback.pop_front() {
            self.receive(now, me, message, out);
        }
        self.arm(out);
    }

    /// Installs a view: starts the barrier where this silo owns something, and asks pending questions again.
    fn install(&mut self, now: Time, view: Arc<DirectoryView>, out: &mut Vec<Command>) {
        if view.version <= self.view.version {
            return;
        }
        let changed = view.active != self.view.active || view.hosting != self.view.hosting;
        self.view = view;
        if changed {
            self.ring = self.view.ring();
        }
        self.owner.forget_ended();
        self.renew_barrier(now, changed, out);
        self.serve_held(now, out);
        self.ask_again(now, out);
    }

    fn receive(&mut self, now: Time, from: SiloAddress, message: DirectoryMessage, out: &mut Vec<Command>) {
        match message {
            DirectoryMessage::Request { view, id, question } => {
                self.serve(now, from, owner::Held { view, id, question }, out);
            }
            DirectoryMessage::Answer { view, id, answer } => self.answered(now, view, id, answer, out),
            DirectoryMessage::StaleView { version } => self.refresh(now, version, out),
            DirectoryMessage::AskReport { view, after } => self.report(now, from, view, after, out),
            DirectoryMessage::Report { view, after, entries, more } => {
                self.take_report(now, from, barrier::Page { view, after, entries, more }, out);
            }
            DirectoryMessage::Evict { view, grain, activation, winner } => {
                self.evicted(now, from, local::Eviction { view, grain, activation, winner }, out);
            }
            DirectoryMessage::EvictAck { grain, activation, .. } => {
                self.barrier.eviction_seen(from, grain, activation);
            }
        }
    }

    /// Asks membership for a version that is newer than the installed one, not more often than requests repeat.
    fn refresh(&mut self, now: Time, version: u64, out: &mut Vec<Command>) {
        if version <= self.view.version {
            return;
        }
        let asked = self
            .refresh_asked
            .is_some_and(|(asked, at)| asked >= version && now.since(at) < self.config.request_repeat_min);
        if !asked {
            self.refresh_asked = Some((version, now));
            out.push(Command::RefreshMembership { version });
        }
    }

    fn send(&mut self, to: SiloAddress, message: DirectoryMessage, out: &mut Vec<Command>) {
        if to == self.me {
            self.loopback.push_back(message);
        } else {
            out.push(Command::Send { to, message });
        }
    }

    /// Asks for a tick when something is due earlier than the tick already asked for.
    fn arm(&mut self, out: &mut Vec<Command>) {
        let due = [self.local.due_at(), self.barrier.due_at()].into_iter().flatten().min();
        if let Some(due) = due
            && self.wake_at.is_none_or(|at| due < at)
        {
            self.wake_at = Some(due);
            out.push(Command::WakeAt(due));
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.config.mutant == Some(mutant)
    }
}

/// The pace of one repeated message.
#[derive(Debug, Clone, Copy)]
struct Pace {
    due_at: Time,
    wait: Duration,
}

impl Pace {
    /// Due at once; then after `first`, and twice as long each time.
    fn start(now: Time, first: Duration) -> Self {
        Self { due_at: now, wait: first }
    }

    /// Sent now.
    fn sent(&mut self, now: Time, wait_max: Duration) {
        self.due_at = now.after(self.wait);
        self.wait = (self.wait * 2).min(wait_max);
    }
}
