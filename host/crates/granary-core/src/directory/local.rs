//! The silo's own side: its activations, and its operations on their way to owners.

mod answers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use super::{Command, Cursor, Directory, DirectoryMessage, GrainAddress, LocalActivation, LocalOp};
use super::{Mutant, OpId, Outcome, Pace, Question, Refusal};
use crate::id::{ActivationId, GrainId, SiloAddress, Time};

/// Completed registrations that can still be cancelled.
const REGISTERED_MAX: usize = 1_024;

/// A received eviction.
#[derive(Debug)]
pub(super) struct Eviction {
    pub(super) view: u64,
    pub(super) grain: GrainId,
    pub(super) activation: ActivationId,
    pub(super) winner: GrainAddress,
}

/// What a pending operation wants to know.
#[derive(Debug, Clone)]
enum Purpose {
    /// The question says it all.
    Plain,
    /// A lookup on behalf of this frozen activation, which wants to go live.
    Thaw(ActivationId),
    /// A lookup on behalf of this frozen activation, which is new.
    Announce(ActivationId),
}

#[derive(Debug)]
struct Pending {
    /// `None` when nobody waits for it.
    op: Option<OpId>,
    question: Question,
    purpose: Purpose,
    /// The view in which it was sent first.
    first_view: Option<u64>,
    pace: Pace,
}

/// The silo's activations and operations.
#[derive(Debug, Default)]
pub(super) struct Local {
    activations: BTreeMap<(GrainId, ActivationId), LocalActivation>,
    pending: BTreeMap<u64, Pending>,
    by_op: BTreeMap<OpId, u64>,
    /// From an activation to the request that registers it or moves it away.
    by_activation: BTreeMap<ActivationId, u64>,
    due: BTreeSet<(Time, u64)>,
    /// The last registrations that were completed, for cancellations that cross with the completion.
    registered: VecDeque<(OpId, GrainId, ActivationId)>,
    /// The last request id; ids are never used again, so that late answers meet nothing.
    last_id: u64,
}

impl Local {
    pub(super) fn activations(&self) -> impl Iterator<Item = &LocalActivation> {
        self.activations.values()
    }

    pub(super) fn due_at(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The activations behind the cursor, in order; all without one.
    pub(super) fn activations_after(&self, after: Option<&Cursor>) -> impl Iterator<Item = &LocalActivation> {
        let start = after
            .map_or(Bound::Unbounded, |cursor| Bound::Excluded((cursor.grain.clone(), cursor.activation)));
        self.activations.range((start, Bound::Unbounded)).map(|(_, activation)| activation)
    }

    fn take(&mut self, id: u64) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.due.remove(&(pending.pace.due_at, id));
        if let Some(op) = pending.op {
            self.by_op.remove(&op);
        }
        if let Some(activation) = subject(&pending.question) {
            self.by_activation.remove(&activation);
        }
        Some(pending)
    }

    fn get(&self, grain: &GrainId, activation: ActivationId) -> Option<&LocalActivation> {
        self.activations.get(&(grain.clone(), activation))
    }

    fn remove(&mut self, grain: &GrainId, activation: ActivationId) {
        self.activations.remove(&(grain.clone(), activation));
    }

    /// The request that registers this activation.
    fn registering(&self, activation: ActivationId) -> Option<u64> {
        self.about(activation, |question| matches!(question, Question::Register { .. }))
    }

    /// The request that moves this activation away.
    fn moving(&self, activation: ActivationId) -> Option<u64> {
        self.about(activation, |question| matches!(question, Question::Move { .. }))
    }

    fn about(&self, activation: ActivationId, wanted: impl Fn(&Question) -> bool) -> Option<u64> {
        let id = *self.by_activation.get(&activation)?;
        self.pending.get(&id).is_some_and(|pending| wanted(&pending.question)).then_some(id)
    }

    /// Whether an entry that names this silo is right: its activation lives or is about to.
    fn knows(&self, entry: &GrainAddress) -> bool {
        self.get(&entry.grain, entry.activation).is_some() || self.registering(entry.activation).is_some()
    }
}

/// The activation that a registration or a move is about.
fn subject(question: &Question) -> Option<ActivationId> {
    match question {
        Question::Register { address, .. } => Some(address.activation),
        Question::Move { from, .. } => Some(*from),
        Question::Lookup { .. } | Question::Unregister { .. } => None,
    }
}

impl Directory {
    /// Starts a local operation.
    pub(super) fn start(&mut self, now: Time, op: OpId, request: LocalOp, out: &mut Vec<Command>) {
        let outcome = if self.local.by_op.contains_key(&op) {
            Some(Outcome::Refused(Refusal::DuplicateOperation))
        } else {
            match request {
                LocalOp::Register { address, previous } => {
                    self.start_register(now, op, address, previous, out)
                }
                LocalOp::Lookup { grain } => {
                    self.ask(now, Some(op), Question::Lookup { grain }, Purpose::Plain, out)
                }
                LocalOp::Unregister { grain, activation } | LocalOp::DropFrozen { grain, activation } => {
                    self.start_unregister(now, op, grain, activation, out)
                }
                LocalOp::Move { from, to } => self.start_move(now, op, from, to, out),
                LocalOp::AddFrozen { address } => self.add_frozen(now, op, address, out),
                LocalOp::Thaw { grain, activation } => self.start_thaw(now, op, grain, activation, out),
                LocalOp::LocalActivations => {
                    Some(Outcome::Activations(self.local.activations().cloned().collect()))
                }
            }
        };
        if let Some(outcome) = outcome {
            out.push(Command::Complete { op, outcome });
        }
    }

    fn start_register(
        &mut self,
        now: Time,
        op: OpId,
        address: GrainAddress,
        previous: Option<ActivationId>,
        out: &mut Vec<Command>,
    ) -> Option<Outcome> {
        if address.silo != self.me {
            return Some(Outcome::Refused(Refusal::WrongSilo));
        }
        self.ask(now, Some(op), Question::Register { address, previous }, Purpose::Plain, out)
    }

    /// The activation is gone from this moment on; the owner is told until it knows.
    fn start_unregister(
        &mut self,
        now: Time,
        op: OpId,
        grain: GrainId,
        activation: ActivationId,
        out: &mut Vec<Command>,
    ) -> Option<Outcome> {
        self.local.remove(&grain, activation);
        let registering = self.local.registering(activation);
        if let Some(Pending { op: Some(op), .. }) = registering.and_then(|id| self.local.take(id)) {
            out.push(Command::Complete { op, outcome: Outcome::Refused(Refusal::Ended) });
        }
        self.ask(now, Some(op), Question::Unregister { grain, activation }, Purpose::Plain, out)
    }

    fn start_move(
        &mut self,
        now: Time,
        op: OpId,
        from: ActivationId,
        mut to: GrainAddress,
        out: &mut Vec<Command>,
    ) -> Option<Outcome> {
        if to.silo == self.me {
            return Some(Outcome::Refused(Refusal::WrongSilo));
        }
        let live = self.local.get(&to.grain, from).is_some_and(|activation| !activation.frozen);
        if !live || self.local.moving(from).is_some() {
            return Some(Outcome::Refused(Refusal::NotLive));
        }
        to.previous = Some(from);
        self.ask(now, Some(op), Question::Move { from, to }, Purpose::Plain, out)
    }

    /// Announces a target, and waits until the owner has answered in this silo's view. By then every silo, the
    /// source too, has reported in that view. Were the target added without waiting, a source that is a view behind
    /// could commit to it at the old owner after this silo has reported to the new one.
    fn add_frozen(
        &mut self,
        now: Time,
        op: OpId,
        address: GrainAddress,
        out: &mut Vec<Command>,
    ) -> Option<Outcome> {
        if address.silo != self.me {
            return Some(Outcome::Refused(Refusal::WrongSilo));
        }
        let (grain, activation) = (address.grain.clone(), address.activation);
        // Announcing twice must not freeze what went live in between.
        let key = (grain.clone(), activation);
        self.local.activations.entry(key).or_insert(LocalActivation { address, frozen: true });
        if self.is(Mutant::TargetNotAnnounced) {
            return Some(Outcome::Added);
        }
        self.ask(now, Some(op), Question::Lookup { grain }, Purpose::Announce(activation), out)
    }

    fn start_thaw(
        &mut self,
        now: Time,
        op: OpId,
        grain: GrainId,
        activation: ActivationId,
        out: &mut Vec<Command>,
    ) -> Option<Outcome> {
        match self.local.get(&grain, activation) {
            None => Some(Outcome::Refused(Refusal::NotLive)),
            Some(live) if !live.frozen => Some(Outcome::Registered(live.address.clone())),
            Some(_) => self.ask(now, Some(op), Question::Lookup { grain }, Purpose::Thaw(activation), out),
        }
    }

    /// Puts a question on its way; refuses when too many are waiting.
    fn ask(
        &mut self,
        now: Time,
        op: Option<OpId>,
        question: Question,
        purpose: Purpose,
        out: &mut Vec<Command>,
    ) -> Option<Outcome> {
        if self.local.pending.len() >= self.config.operations_max {
            return Some(Outcome::Refused(Refusal::Overloaded));
        }
        self.local.last_id += 1;
        let id = self.local.last_id;
        let pace = Pace::start(now, self.config.request_repeat_min);
        if let Some(activation) = subject(&question) {
            self.local.by_activation.insert(activation, id);
        }
        self.local.pending.insert(id, Pending { op, question, purpose, first_view: None, pace });
        self.local.due.insert((now, id));
        if let Some(op) = op {
            self.local.by_op.insert(op, id);
        }
        self.send_request(now, id, out);
        None
    }

    /// Sends a request to the owner in the installed view, if this silo takes part in it.
    fn send_request(&mut self, now: Time, id: u64, out: &mut Vec<Command>) {
        let takes_part = self.view.hosting.contains(&self.me);
        let Some(pending) = self.local.pending.get_mut(&id) else { return };
        self.local.due.remove(&(pending.pace.due_at, id));
        pending.pace.sent(now, self.config.request_repeat_max);
        self.local.due.insert((pending.pace.due_at, id));
        let question = pending.question.clone();
        if let Some(owner) = self.ring.owner_of(question.grain()).filter(|_| takes_part) {
            let view = self.view.version;
            pending.first_view.get_or_insert(view);
            self.send(owner, DirectoryMessage::Request { view, id, question }, out);
        }
    }

    /// Repeats the requests that are due.
    pub(super) fn repeat_requests(&mut self, now: Time, out: &mut Vec<Command>) {
        let due: Vec<u64> = self.local.due.range(..=(now, u64::MAX)).map(|(_, id)| *id).collect();
        for id in due {
            self.send_request(now, id, out);
        }
    }

    /// Asks everything again in the new view.
    pub(super) fn ask_again(&mut self, now: Time, out: &mut Vec<Command>) {
        let ids: Vec<u64> = self.local.pending.keys().copied().collect();
        for id in ids {
            if let Some(pending) = self.local.pending.get_mut(&id) {
                self.local.due.remove(&(pending.pace.due_at, id));
                pending.pace = Pace::start(now, self.config.request_repeat_min);
            }
            self.send_request(now, id, out);
        }
    }

    pub(super) fn cancel(&mut self, now: Time, op: OpId, out: &mut Vec<Command>) {
        let id = self.local.by_op.get(&op).copied();
        let Some((id, pending)) = id.and_then(|id| Some((id, self.local.pending.get_mut(&id)?))) else {
            return self.cancel_registered(now, op, out);
        };
        match pending.question.clone() {
            // In doubt until the owner answers; the source needs to know (decision B10).
            Question::Move { .. } => {}
            Question::Unregister { .. } => {
                pending.op = None;
                self.local.by_op.remove(&op);
            }
            Question::Lookup { .. } => {
                self.local.take(id);
            }
            Question::Register { address, .. } => {
                self.local.take(id);
                self.remove_in_background(now, address.grain, address.activation, out);
            }
        }
    }

    /// Undoes a registration whose completion crossed with its cancellation.
    fn cancel_registered(&mut self, now: Time, op: OpId, out: &mut Vec<Command>) {
        let found = self.local.registered.iter().position(|(registered, ..)| *registered == op);
        if let Some((_, grain, activation)) = found.and_then(|at| self.local.registered.remove(at)) {
            self.local.remove(&grain, activation);
            self.remove_in_background(now, grain, activation, out);
        }
    }

    /// Removes an entry that nobody waits for. When there is no room, the stale entry is found at its next use.
    fn remove_in_background(
        &mut self,
        now: Time,
        grain: GrainId,
        activation: ActivationId,
        out: &mut Vec<Command>,
    ) {
        self.ask(now, None, Question::Unregister { grain, activation }, Purpose::Plain, out);
    }

    /// An owner says that an activation of this silo lost a conflict.
    pub(super) fn evicted(
        &mut self,
        now: Time,
        from: SiloAddress,
        eviction: Eviction,
        out: &mut Vec<Command>,
    ) {
        let Eviction { view, grain, activation, winner } = eviction;
        if view > self.view.version {
            // Not acknowledged, so it comes again.
            self.refresh(now, view, out);
            return;
        }
        if view < self.view.version {
            // From before this view: the owner repeats it in its own newer view, if it still holds.
            return;
        }
        if self.local.get(&grain, activation).is_some() {
            self.local.remove(&grain, activation);
            self.end_loser(&grain, activation, winner, out);
        }
        self.send(from, DirectoryMessage::EvictAck { view, grain, activation }, out);
    }

    fn end_loser(
        &mut self,
        grain: &GrainId,
        activation: ActivationId,
        winner: GrainAddress,
        out: &mut Vec<Command>,
    ) {
        let moving = self.local.moving(activation).and_then(|id| self.local.take(id));
        let Some(Pending { op: Some(op), question: Question::Move { to, .. }, .. }) = moving else {
            out.push(Command::Deactivate { grain: grain.clone(), activation, winner });
            return;
        };
        let outcome = if winner.activation == to.activation {
            Outcome::Moved(winner)
        } else {
            Outcome::Lost(Some(winner))
        };
        out.push(Command::Complete { op, outcome });
    }
}
