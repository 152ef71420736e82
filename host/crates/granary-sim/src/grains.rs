//! A model of grains: each counts its turns in memory. Activations register before they run, calls wait for those
//! that are on the way, and what is sent to the wrong silo is sent on.

use granary_core::directory::{GrainAddress, LocalOp, Outcome};
use granary_core::id::{ActivationId, GrainId, IdError, SiloAddress};

use crate::calls::Reply;
use crate::net::Wire;
use crate::silo::{Effect, Fact, Life, Silo};

/// Calls that may wait for an activation.
const WAITING_MAX: usize = 64;

/// The names of the grains, which the model knows by number.
#[derive(Debug)]
pub(crate) struct Names {
    first: GrainId,
    more: Vec<GrainId>,
}

impl Names {
    /// Grains `sim/0` to `sim/count - 1`.
    pub(crate) fn new(count: u32) -> Result<Self, IdError> {
        let more: Result<_, _> = (1..count).map(|grain| format!("sim/{grain}").parse()).collect();
        Ok(Self { first: "sim/0".parse()?, more: more? })
    }

    pub(crate) fn get(&self, grain: u32) -> GrainId {
        let index = usize::try_from(grain).ok().and_then(|grain| grain.checked_sub(1));
        index.and_then(|index| self.more.get(index)).unwrap_or(&self.first).clone()
    }

    pub(crate) fn index(&self, grain: &GrainId) -> u32 {
        let found = self.more.iter().position(|name| name == grain);
        found.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(0)
    }
}

/// What the grain layers of two silos say to each other.
#[derive(Debug, Clone)]
pub(crate) enum GrainMessage {
    Invoke {
        call: u64,
        attempt: u32,
        grain: u32,
    },
    Reply {
        call: u64,
        attempt: u32,
        reply: Reply,
    },
    Restore {
        grain: u32,
        source: ActivationId,
        target: ActivationId,
        fence: u64,
        value: u64,
    },
    Restored {
        grain: u32,
        source: ActivationId,
        target: ActivationId,
        accepted: bool,
    },
    Go {
        grain: u32,
        target: ActivationId,
    },
    Abort {
        grain: u32,
        source: ActivationId,
        target: ActivationId,
    },
    Aborted {
        grain: u32,
        source: ActivationId,
        target: ActivationId,
    },
    /// A frozen target asks its source whether it still matters.
    StillMoving {
        grain: u32,
        source: ActivationId,
        target: ActivationId,
    },
}

/// What an operation of the directory is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Register {
        grain: u32,
        activation: ActivationId,
    },
    Lookup {
        call: u64,
        attempt: u32,
        asked_at: u64,
    },
    Unregister {
        activation: ActivationId,
    },
    Move {
        grain: u32,
        source: ActivationId,
        target: ActivationId,
        to: SiloAddress,
    },
    Announce {
        grain: u32,
        source: ActivationId,
        target: ActivationId,
        from: SiloAddress,
    },
    Thaw {
        grain: u32,
        source: ActivationId,
        target: ActivationId,
        from: SiloAddress,
    },
    /// Nothing depends on it.
    Tell,
}

/// A call that arrived; `reply_to` is `None` for one of this silo.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) call: u64,
    pub(crate) attempt: u32,
    pub(crate) reply_to: Option<SiloAddress>,
}

/// What an activation is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Registering,
    Running,
    /// The source of a migration: the target is being restored; not committed.
    Restoring {
        target: ActivationId,
        to: SiloAddress,
    },
    /// The source of a migration, in doubt: it runs again only if the directory says that nothing was committed.
    Committing {
        target: ActivationId,
    },
    /// The target of a migration.
    Frozen {
        source: ActivationId,
        from: SiloAddress,
        thawing: bool,
    },
}

/// One activation.
#[derive(Debug)]
pub(crate) struct Activation {
    pub(crate) state: State,
    pub(crate) value: u64,
    /// The number of the registration; of the source's for one that is frozen.
    pub(crate) fence: u64,
    /// A given up migration whose target has not confirmed that it is gone. Until then there is no other one.
    pub(crate) unconfirmed: Option<(ActivationId, SiloAddress)>,
    pub(crate) restored_from: Option<ActivationId>,
    pub(crate) waiting: Vec<Incoming>,
}

impl Activation {
    pub(crate) fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Which of several activations of a grain calls go to.
    fn rank(&self) -> u8 {
        match self.state {
            State::Running => 0,
            State::Registering => 1,
            State::Frozen { .. } => 2,
            State::Restoring { .. } | State::Committing { .. } => 3,
        }
    }
}

impl Silo {
    /// The activation of the grain on this silo that calls go to.
    pub(crate) fn current(&self, grain: u32) -> Option<ActivationId> {
        let own = self.activations.range((grain, ActivationId(0))..=(grain, ActivationId(u128::MAX)));
        own.min_by_key(|(_, activation)| activation.rank()).map(|((_, id), _)| *id)
    }

    pub(crate) fn grain_message(
        &mut self,
        now: u64,
        from: SiloAddress,
        message: GrainMessage,
        fx: &mut Vec<Effect>,
    ) {
        match message {
            GrainMessage::Invoke { call, attempt, grain } => {
                self.invoke(now, grain, Incoming { call, attempt, reply_to: Some(from) }, fx);
            }
            GrainMessage::Reply { call, attempt, reply } => self.replied(now, call, attempt, reply, fx),
            GrainMessage::Restore { grain, source, target, fence, value } => {
                self.restore(now, from, (grain, source, target), (fence, value), fx);
            }
            GrainMessage::Restored { grain, source, target, accepted } => {
                self.restored(now, (grain, source, target), accepted, fx);
            }
            GrainMessage::Go { grain, target } => self.thaw(now, grain, target, fx),
            GrainMessage::Abort { grain, source, target } => {
                self.abort(now, grain, target, fx);
                let wire = Wire::Grain(GrainMessage::Aborted { grain, source, target });
                fx.push(Effect::Send { to: from, wire });
            }
            GrainMessage::Aborted { grain, source, target } => self.aborted(grain, source, target),
            GrainMessage::StillMoving { grain, source, target } => {
                self.still_moving(from, grain, source, target, fx);
            }
        }
    }

    /// Runs a call here, or makes it wait, or makes an activation for it.
    pub(crate) fn invoke(&mut self, now: u64, grain: u32, incoming: Incoming, fx: &mut Vec<Effect>) {
        if let Some(id) = self.current(grain) {
            let Some(activation) = self.activations.get_mut(&(grain, id)) else { return };
            if activation.is_running() {
                self.turn(now, grain, id, incoming, fx);
            } else if activation.waiting.len() < WAITING_MAX {
                activation.waiting.push(incoming);
            }
            return;
        }
        if self.life != Life::Active {
            self.answer(now, incoming, Reply::Retry, fx);
            return;
        }
        let id = self.new_activation();
        let activation = Activation {
            state: State::Registering,
            value: 0,
            fence: 0,
            unconfirmed: None,
            restored_from: None,
            waiting: vec![incoming],
        };
        self.activations.insert((grain, id), activation);
        let address = self.own_address(grain, id);
        let request = LocalOp::Register { address, previous: None };
        self.operate(now, request, Purpose::Register { grain, activation: id }, fx);
    }

    pub(crate) fn own_address(&self, grain: u32, activation: ActivationId) -> GrainAddress {
        GrainAddress {
            grain: self.names.get(grain),
            activation,
            silo: self.address,
            fence: 0,
            previous: None,
        }
    }

    fn turn(&mut self, now: u64, grain: u32, id: ActivationId, incoming: Incoming, fx: &mut Vec<Effect>) {
        let Some(activation) = self.activations.get_mut(&(grain, id)) else { return };
        activation.value += 1;
        let value = activation.value;
        fx.push(Effect::Fact(Fact::Turn { grain, activation: id, value }));
        self.answer(now, incoming, Reply::Done, fx);
    }

    pub(crate) fn answer(&mut self, now: u64, incoming: Incoming, reply: Reply, fx: &mut Vec<Effect>) {
        let Incoming { call, attempt, reply_to } = incoming;
        match reply_to {
            None => self.replied(now, call, attempt, reply, fx),
            Some(to) => {
                let wire = Wire::Grain(GrainMessage::Reply { call, attempt, reply });
                fx.push(Effect::Send { to, wire });
            }
        }
    }

    /// The activation may run turns from now on; those that wait for it come first.
    pub(crate) fn run(
        &mut self,
        now: u64,
        grain: u32,
        id: ActivationId,
        fence: Option<u64>,
        fx: &mut Vec<Effect>,
    ) {
        let Some(activation) = self.activations.get_mut(&(grain, id)) else { return };
        activation.state = State::Running;
        activation.fence = fence.unwrap_or(activation.fence);
        let waiting = std::mem::take(&mut activation.waiting);
        let restored_from = activation.restored_from;
        fx.push(Effect::Fact(Fact::Runs { grain, activation: id, restored_from }));
        for incoming in waiting {
            self.turn(now, grain, id, incoming, fx);
        }
    }

    /// Removes an activation; those that wait for it are answered.
    pub(crate) fn drop_activation(
        &mut self,
        now: u64,
        grain: u32,
        id: ActivationId,
        reply: Reply,
        fx: &mut Vec<Effect>,
    ) {
        let Some(activation) = self.activations.remove(&(grain, id)) else { return };
        for incoming in activation.waiting {
            self.answer(now, incoming, reply, fx);
        }
    }

    /// Ends an activation of its own accord.
    pub(crate) fn deactivate(&mut self, now: u64, grain: u32, id: ActivationId, fx: &mut Vec<Effect>) {
        fx.push(Effect::Fact(Fact::Ended(id)));
        self.drop_activation(now, grain, id, Reply::Retry, fx);
        let request = LocalOp::Unregister { grain: self.names.get(grain), activation: id };
        self.operate(now, request, Purpose::Unregister { activation: id }, fx);
    }

    /// The directory says that the activation is a duplicate.
    pub(crate) fn evicted(
        &mut self,
        now: u64,
        grain: &GrainId,
        id: ActivationId,
        winner: SiloAddress,
        fx: &mut Vec<Effect>,
    ) {
        let grain = self.names.index(grain);
        fx.push(Effect::Fact(Fact::Evicted));
        fx.push(Effect::Fact(Fact::Ended(id)));
        self.drop_activation(now, grain, id, Reply::At(winner), fx);
    }

    pub(crate) fn operation_done(
        &mut self,
        now: u64,
        purpose: Purpose,
        outcome: Outcome,
        fx: &mut Vec<Effect>,
    ) {
        let view = self.directory.version();
        match (purpose, outcome) {
            (Purpose::Register { grain, activation }, Outcome::Registered(entry)) => {
                self.run(now, grain, activation, Some(entry.fence), fx);
            }
            (Purpose::Register { grain, activation }, Outcome::Exists(winner)) => {
                self.drop_activation(now, grain, activation, Reply::At(winner.silo), fx);
            }
            (Purpose::Lookup { call, attempt, asked_at }, Outcome::Found(entry)) => {
                if let Some(activation) = entry.as_ref().map(|entry| entry.activation) {
                    fx.push(Effect::Fact(Fact::Named { activation, asked_at, view }));
                }
                self.located(now, call, attempt, entry.map(|entry| entry.silo), fx);
            }
            (Purpose::Move { grain, source, target, to }, outcome) => {
                self.move_done(now, (grain, source, target), to, &outcome, fx);
            }
            (Purpose::Announce { grain, source, target, from }, outcome) => {
                self.announced(now, (grain, source, target), from, &outcome, fx);
            }
            (Purpose::Thaw { grain, source, target, from }, outcome) => {
                self.thaw_done(now, (grain, source, target), from, &outcome, fx);
            }
            (Purpose::Unregister { activation }, Outcome::Removed) => {
                fx.push(Effect::Fact(Fact::Forgotten { activation, view }));
            }
            (Purpose::Tell, _) => {}
            (purpose, _) => self.given_up(now, purpose, fx),
        }
    }

    /// Nobody answered in time, or the directory refused.
    pub(crate) fn given_up(&mut self, now: u64, purpose: Purpose, fx: &mut Vec<Effect>) {
        match purpose {
            Purpose::Register { grain, activation } => {
                self.drop_activation(now, grain, activation, Reply::Retry, fx);
            }
            Purpose::Lookup { call, attempt, .. } => self.replied(now, call, attempt, Reply::Retry, fx),
            Purpose::Thaw { grain, target, .. } => self.thaw_over(grain, target),
            Purpose::Announce { grain, source, target, from } => {
                self.abort(now, grain, target, fx);
                let wire = Wire::Grain(GrainMessage::Restored { grain, source, target, accepted: false });
                fx.push(Effect::Send { to: from, wire });
            }
            Purpose::Unregister { .. } | Purpose::Move { .. } | Purpose::Tell => {}
        }
    }
}
