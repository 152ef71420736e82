//! The owner's side: the entries of this silo's part of the ring, and the answers to requests about them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Answer, Command, Directory, DirectoryMessage, DirectoryView, GrainAddress, LocalActivation};
use super::{Mutant, Question};
use crate::id::{ActivationId, GrainId, SiloAddress, Time};

/// Ended activations, and lost registrations, that are remembered within one view; the oldest is forgotten first.
const RECENT_MAX: usize = 65_536;

/// A request that waits for the barrier or for a view.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) view: u64,
    pub(super) id: u64,
    pub(super) question: Question,
}

/// An activation that lost a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loser {
    pub(super) address: GrainAddress,
    pub(super) winner: GrainAddress,
}

/// The most recent items, each once.
#[derive(Debug)]
struct Recent<T> {
    order: VecDeque<T>,
    set: BTreeSet<T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), set: BTreeSet::new() }
    }
}

impl<T: Copy + Ord> Recent<T> {
    fn add(&mut self, item: T) {
        if self.set.insert(item) {
            self.order.push_back(item);
        }
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
    }

    fn contains(&self, item: &T) -> bool {
        self.set.contains(item)
    }
}

#[derive(Debug, Default)]
pub(super) struct Owner {
    entries: BTreeMap<GrainId, GrainAddress>,
    /// Activations whose entries were removed or replaced in this view. A late copy of a request must not bring one
    /// back; copies from earlier views are refused by their version.
    ended: Recent<ActivationId>,
    /// Registrations that lost in this view. Their silos have given the activations up, so a late copy must not win.
    lost: Recent<(SiloAddress, u64)>,
    /// The last fence given.
    fence: u64,
    held: BTreeMap<(SiloAddress, u64), Held>,
}

impl Owner {
    pub(super) fn entries(&self) -> impl Iterator<Item = &GrainAddress> {
        self.entries.values()
    }

    pub(super) fn forget_ended(&mut self) {
        self.ended = Recent::default();
        self.lost = Recent::default();
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    fn next_fence(&mut self, version: u64) -> u64 {
        self.fence = (self.fence + 1).max(version << 32);
        self.fence
    }

    fn end(&mut self, activation: ActivationId, mutant: Option<Mutant>) {
        if mutant != Some(Mutant::EndedForgotten) {
            self.ended.add(activation);
        }
    }

    fn store(&mut self, version: u64, mut address: GrainAddress) -> GrainAddress {
        address.fence = self.next_fence(version);
        self.entries.insert(address.grain.clone(), address.clone());
        address
    }

    /// The first registration wins, unless the caller names what it replaces (spec B2.8).
    fn register(
        &mut self,
        view: &DirectoryView,
        request: (SiloAddress, u64),
        address: GrainAddress,
        previous: Option<ActivationId>,
        mutant: Option<Mutant>,
    ) -> Answer {
        if self.ended.contains(&address.activation) {
            return Answer::Ended;
        }
        if let Some(entry) = self.entries.get(&address.grain).cloned() {
            if entry.activation == address.activation {
                return Answer::Entry(Some(entry));
            }
            if Some(entry.activation) != previous && view.hosting.contains(&entry.silo) {
                if mutant != Some(Mutant::EndedForgotten) {
                    self.lost.add(request);
                }
                return Answer::Entry(Some(entry));
            }
        }
        if self.lost.contains(&request) {
            return Answer::Ended;
        }
        if let Some(entry) = self.entries.get(&address.grain) {
            let replaced = entry.activation;
            self.end(replaced, mutant);
        }
        Answer::Entry(Some(self.store(view.version, address)))
    }

    /// Removes the entry only if it is of that activation (spec B2.10).
    fn unregister(&mut self, grain: &GrainId, activation: ActivationId, mutant: Option<Mutant>) -> Answer {
        self.end(activation, mutant);
        let any = mutant == Some(Mutant::UnregisterAnyActivation);
        if self.entries.get(grain).is_some_and(|entry| any || entry.activation == activation) {
            self.entries.remove(grain);
        }
        Answer::Entry(self.entries.get(grain).cloned())
    }

    /// The commit of a migration (decision B10).
    fn relocate(
        &mut self,
        view: &DirectoryView,
        from: ActivationId,
        mut to: GrainAddress,
        since: u64,
        mutant: Option<Mutant>,
    ) -> Answer {
        let blind = mutant == Some(Mutant::MoveWithoutCompare);
        match self.entries.get(&to.grain).cloned() {
            Some(entry) if entry.activation == to.activation => Answer::Moved(entry),
            Some(entry) if entry.activation == from || blind => {
                if self.ended.contains(&to.activation) || !view.hosting.contains(&to.silo) {
                    return Answer::TargetGone { since };
                }
                self.end(from, mutant);
                to.previous = Some(from);
                Answer::Moved(self.store(view.version, to))
            }
            None if blind => Answer::Moved(self.store(view.version, to)),
            entry => Answer::SourceGone(entry),
        }
    }

    /// Makes the entries from what all silos reported, and tells who lost.
    pub(super) fn rebuild(
        &mut self,
        version: u64,
        candidates: BTreeMap<GrainId, Vec<LocalActivation>>,
        mutant: Option<Mutant>,
    ) -> Vec<Loser> {
        let mut losers = Vec::new();
        for (grain, candidates) in candidates {
            let Some(chosen) = choose(&candidates, mutant) else { continue };
            let mut winner = chosen.address.clone();
            if chosen.frozen {
                // A migration target whose source is gone: registered here, so it gets its fence here.
                winner.fence = self.next_fence(version);
            }
            for other in &candidates {
                if !other.frozen && other.address.activation != winner.activation {
                    self.end(other.address.activation, mutant);
                    losers.push(Loser { address: other.address.clone(), winner: winner.clone() });
                }
            }
            self.entries.insert(grain, winner);
        }
        losers
    }
}

/// Chooses which of a grain's reported activations stays: the newest registration. A frozen target counts as its
/// source does, whose fence it carries, but after it. So it loses to its source, and to everything that came after
/// its source; and it wins against an older source that is still in doubt.
fn choose(candidates: &[LocalActivation], mutant: Option<Mutant>) -> Option<&LocalActivation> {
    let frozen_first = mutant == Some(Mutant::FrozenBeatsLive);
    candidates.iter().max_by_key(|candidate| {
        let LocalActivation { address, frozen } = candidate;
        (frozen_first && *frozen, address.fence, !*frozen, address.activation)
    })
}

impl Directory {
    /// Answers a request, or keeps it until the view and the barrier allow an answer.
    pub(super) fn serve(&mut self, now: Time, from: SiloAddress, held: Held, out: &mut Vec<Command>) {
        let version = self.view.version;
        let stale = held.view < version && !self.is(Mutant::StaleViewAccepted);
        let foreign = held.view == version && self.ring.owner_of(held.question.grain()) != Some(self.me);
        if stale || foreign {
            self.send(from, DirectoryMessage::StaleView { version }, out);
            return;
        }
        let settled = self.barrier.is_settled() || self.is(Mutant::NoBarrier);
        if held.view > version || !settled {
            self.refresh(now, held.view, out);
            let key = (from, held.id);
            if self.owner.held.len() < self.config.held_max || self.owner.held.contains_key(&key) {
                self.owner.held.insert(key, held);
            }
            return;
        }
        let answer = self.decide((from, held.id), held.question);
        self.send(from, DirectoryMessage::Answer { view: held.view, id: held.id, answer }, out);
    }

    fn decide(&mut self, request: (SiloAddress, u64), question: Question) -> Answer {
        let (view, mutant) = (&*self.view, self.config.mutant);
        match question {
            Question::Register { address, previous } => {
                self.owner.register(view, request, address, previous, mutant)
            }
            Question::Lookup { grain } => Answer::Entry(self.owner.entries.get(&grain).cloned()),
            Question::Unregister { grain, activation } => self.owner.unregister(&grain, activation, mutant),
            Question::Move { from, to } => self.owner.relocate(view, from, to, self.barrier.since(), mutant),
        }
    }

    /// Looks again at the requests that were kept.
    pub(super) fn serve_held(&mut self, now: Time, out: &mut Vec<Command>) {
        for ((from, _), held) in std::mem::take(&mut self.owner.held) {
            self.serve(now, from, held, out);
        }
    }
}
