//! What owners answer, and what follows from it for this silo's activations.

use super::{Purpose, REGISTERED_MAX};
use crate::directory::{Answer, Command, Directory, GrainAddress, LocalActivation, Mutant, OpId, Outcome};
use crate::directory::{Question, Refusal};
use crate::id::{ActivationId, GrainId, Time};

impl Directory {
    /// Takes an answer, if it was given in the installed view and the question is still open (spec B6.7d).
    pub(in crate::directory) fn answered(
        &mut self,
        now: Time,
        view: u64,
        id: u64,
        answer: Answer,
        out: &mut Vec<Command>,
    ) {
        if view != self.view.version && !self.is(Mutant::OldAnswerBelieved) {
            return;
        }
        let Some(pending) = self.local.take(id) else { return };
        let outcome = match (pending.question, pending.purpose, answer) {
            (Question::Register { address, .. }, _, answer) => {
                self.register_answered(now, pending.op, address, answer, out)
            }
            (Question::Lookup { grain }, Purpose::Thaw(activation), Answer::Entry(entry)) => {
                Some(self.thaw_answered(&grain, activation, entry))
            }
            (Question::Lookup { grain }, Purpose::Announce(activation), Answer::Entry(entry)) => {
                Some(self.announce_answered(&grain, activation, entry))
            }
            (Question::Lookup { .. }, Purpose::Plain, Answer::Entry(entry)) => {
                Some(self.lookup_answered(now, entry, out))
            }
            (Question::Unregister { .. }, _, _) => Some(Outcome::Removed),
            (Question::Move { from, to }, _, answer) => {
                self.move_answered(now, &to.grain, from, pending.first_view, answer, out)
            }
            (Question::Lookup { .. }, _, _) => None,
        };
        if let (Some(op), Some(outcome)) = (pending.op, outcome) {
            out.push(Command::Complete { op, outcome });
        }
    }

    fn register_answered(
        &mut self,
        now: Time,
        op: Option<OpId>,
        address: GrainAddress,
        answer: Answer,
        out: &mut Vec<Command>,
    ) -> Option<Outcome> {
        let Answer::Entry(Some(entry)) = answer else { return Some(Outcome::Refused(Refusal::Ended)) };
        if entry.activation == address.activation {
            let key = (entry.grain.clone(), entry.activation);
            let live = LocalActivation { address: entry.clone(), frozen: false };
            self.local.activations.insert(key, live);
            if let Some(op) = op {
                let registered = &mut self.local.registered;
                registered.push_back((op, entry.grain.clone(), entry.activation));
                if registered.len() > REGISTERED_MAX {
                    registered.pop_front();
                }
            }
            return Some(Outcome::Registered(entry));
        }
        if entry.silo == self.me && !self.local.knows(&entry) {
            // A stale entry of this very silo would lock the grain out for good (spec B4.2).
            let question = Question::Register { address, previous: Some(entry.activation) };
            return self.ask(now, op, question, Purpose::Plain, out);
        }
        Some(Outcome::Exists(entry))
    }

    fn lookup_answered(&mut self, now: Time, entry: Option<GrainAddress>, out: &mut Vec<Command>) -> Outcome {
        match entry {
            Some(entry) if entry.silo == self.me && !self.local.knows(&entry) => {
                self.remove_in_background(now, entry.grain, entry.activation, out);
                Outcome::Found(None)
            }
            entry => Outcome::Found(entry),
        }
    }

    fn thaw_answered(
        &mut self,
        grain: &GrainId,
        activation: ActivationId,
        entry: Option<GrainAddress>,
    ) -> Outcome {
        let key = (grain.clone(), activation);
        let Some(own) = self.local.activations.get_mut(&key) else {
            return Outcome::Refused(Refusal::NotLive);
        };
        match entry {
            Some(entry) if entry.activation == activation => {
                *own = LocalActivation { address: entry.clone(), frozen: false };
                Outcome::Registered(entry)
            }
            Some(entry) if Some(entry.activation) == own.address.previous => Outcome::NotYet,
            entry => {
                self.local.activations.remove(&key);
                Outcome::Lost(entry)
            }
        }
    }

    fn announce_answered(
        &mut self,
        grain: &GrainId,
        activation: ActivationId,
        entry: Option<GrainAddress>,
    ) -> Outcome {
        let Some(own) = self.local.get(grain, activation) else {
            return Outcome::Refused(Refusal::NotLive);
        };
        let source = own.address.previous;
        let pertinent =
            |entry: &GrainAddress| entry.activation == activation || Some(entry.activation) == source;
        if !own.frozen || entry.as_ref().is_some_and(pertinent) {
            return Outcome::Added;
        }
        self.local.remove(grain, activation);
        Outcome::Lost(entry)
    }

    /// After anything but a sure refusal the source never runs again.
    fn move_answered(
        &mut self,
        now: Time,
        grain: &GrainId,
        from: ActivationId,
        first_view: Option<u64>,
        answer: Answer,
        out: &mut Vec<Command>,
    ) -> Option<Outcome> {
        let outcome = match answer {
            Answer::Moved(entry) => Outcome::Moved(entry),
            Answer::SourceGone(entry) => Outcome::Lost(entry),
            Answer::TargetGone { since } => {
                let sure = first_view.is_some_and(|view| view >= since);
                if sure || self.is(Mutant::DoubtfulSourceResumed) {
                    return Some(Outcome::NotMoved);
                }
                // An earlier owner may have committed, and the target may have run before it went.
                self.remove_in_background(now, grain.clone(), from, out);
                Outcome::Lost(None)
            }
            Answer::Entry(_) | Answer::Ended => return None,
        };
        if !self.is(Mutant::MovedSourceKept) {
            self.local.remove(grain, from);
        }
        Some(outcome)
    }
}
