//! Migrations of a running activation: restore at the target, commit at the directory, go (decision B10).

use granary_core::directory::{LocalOp, Outcome};
use granary_core::id::{ActivationId, SiloAddress};

use crate::calls::Reply;
use crate::faults::{MS, SECOND};
use crate::grains::{Activation, GrainMessage, Purpose, State};
use crate::net::Wire;
use crate::silo::{Effect, Fact, Life, Silo, Timer};

/// How long the source waits for the target to be restored.
const RESTORE_MAX: u64 = 1_500 * MS;
/// How often a frozen target asks where it stands.
const POLL_EVERY: u64 = SECOND;

/// Grain, source and target.
type Migration = (u32, ActivationId, ActivationId);

fn send(to: SiloAddress, message: GrainMessage, fx: &mut Vec<Effect>) {
    fx.push(Effect::Send { to, wire: Wire::Grain(message) });
}

impl Silo {
    /// Freezes an activation and sends it to another silo.
    pub(crate) fn migrate(&mut self, grain: u32, source: ActivationId, fx: &mut Vec<Effect>) {
        let mut peers = self.peers();
        peers.retain(|silo| *silo != self.address);
        let Some(to) = self.rng.pick(&peers) else { return };
        let target = self.new_activation();
        let Some(activation) = self.activations.get_mut(&(grain, source)) else { return };
        let view = &self.view;
        let waits = activation.unconfirmed.is_some_and(|(_, silo)| !view.is_dead(silo));
        if self.life != Life::Active || !activation.is_running() || waits {
            return;
        }
        activation.state = State::Restoring { target, to };
        activation.unconfirmed = None;
        let Activation { fence, value, .. } = *activation;
        send(to, GrainMessage::Restore { grain, source, target, fence, value }, fx);
        fx.push(Effect::Timer { after: RESTORE_MAX, timer: Timer::Restore { grain, source, target } });
    }

    /// At the target: keeps the activation frozen, and answers when the directory knows of it.
    pub(crate) fn restore(
        &mut self,
        now: u64,
        from: SiloAddress,
        (grain, source, target): Migration,
        (fence, value): (u64, u64),
        fx: &mut Vec<Effect>,
    ) {
        if self.life != Life::Active {
            send(from, GrainMessage::Restored { grain, source, target, accepted: false }, fx);
            return;
        }
        if !self.restored_here.insert(target) {
            // A late copy must not bring back what went live, moved on or ended meanwhile.
            return;
        }
        let activation = Activation {
            state: State::Frozen { source, from, thawing: false },
            value,
            fence,
            unconfirmed: None,
            restored_from: Some(source),
            waiting: Vec::new(),
        };
        self.activations.insert((grain, target), activation);
        fx.push(Effect::Timer { after: POLL_EVERY, timer: Timer::Poll { grain, target } });
        let mut address = self.own_address(grain, target);
        address.previous = Some(source);
        address.fence = fence;
        let purpose = Purpose::Announce { grain, source, target, from };
        self.operate(now, LocalOp::AddFrozen { address }, purpose, fx);
    }

    pub(crate) fn announced(
        &mut self,
        now: u64,
        (grain, source, target): Migration,
        from: SiloAddress,
        outcome: &Outcome,
        fx: &mut Vec<Effect>,
    ) {
        let accepted = *outcome == Outcome::Added;
        if matches!(outcome, Outcome::Lost(_)) {
            self.drop_activation(now, grain, target, Reply::Retry, fx);
        }
        send(from, GrainMessage::Restored { grain, source, target, accepted }, fx);
    }

    /// At the source: commits, unless it has given up meanwhile.
    pub(crate) fn restored(
        &mut self,
        now: u64,
        (grain, source, target): Migration,
        accepted: bool,
        fx: &mut Vec<Effect>,
    ) {
        let Some(to) = self.restoring(grain, source, target) else { return };
        if !accepted {
            self.run(now, grain, source, None, fx);
            return;
        }
        if let Some(activation) = self.activations.get_mut(&(grain, source)) {
            activation.state = State::Committing { target };
        }
        let address = granary_core::directory::GrainAddress {
            silo: to,
            previous: Some(source),
            ..self.own_address(grain, target)
        };
        let request = LocalOp::Move { from: source, to: address };
        self.operate(now, request, Purpose::Move { grain, source, target, to }, fx);
    }

    /// The target's silo, if that migration waits for its restoration.
    fn restoring(&self, grain: u32, source: ActivationId, target: ActivationId) -> Option<SiloAddress> {
        match self.activations.get(&(grain, source))?.state {
            State::Restoring { target: wanted, to } if wanted == target => Some(to),
            _ => None,
        }
    }

    pub(crate) fn restore_timed_out(
        &mut self,
        now: u64,
        grain: u32,
        source: ActivationId,
        target: ActivationId,
        fx: &mut Vec<Effect>,
    ) {
        if let Some(to) = self.restoring(grain, source, target) {
            if let Some(activation) = self.activations.get_mut(&(grain, source)) {
                activation.unconfirmed = Some((target, to));
            }
            self.run(now, grain, source, None, fx);
        }
        // Told until confirmed: two targets of one source must not exist at once, since an owner that has lost the
        // source could not tell which one was committed.
        let activation = self.activations.get(&(grain, source));
        if let Some((unconfirmed, to)) = activation.and_then(|activation| activation.unconfirmed)
            && unconfirmed == target
        {
            send(to, GrainMessage::Abort { grain, source, target }, fx);
            fx.push(Effect::Timer { after: RESTORE_MAX, timer: Timer::Restore { grain, source, target } });
        }
    }

    pub(crate) fn aborted(&mut self, grain: u32, source: ActivationId, target: ActivationId) {
        if let Some(activation) = self.activations.get_mut(&(grain, source))
            && activation.unconfirmed.is_some_and(|(unconfirmed, _)| unconfirmed == target)
        {
            activation.unconfirmed = None;
        }
    }

    pub(crate) fn move_done(
        &mut self,
        now: u64,
        (grain, source, target): Migration,
        to: SiloAddress,
        outcome: &Outcome,
        fx: &mut Vec<Effect>,
    ) {
        match outcome {
            Outcome::Moved(_) => {
                send(to, GrainMessage::Go { grain, target }, fx);
                fx.push(Effect::Fact(Fact::Moved { from: source, to: target, host: to }));
                self.drop_activation(now, grain, source, Reply::At(to), fx);
            }
            Outcome::NotMoved => {
                send(to, GrainMessage::Abort { grain, source, target }, fx);
                self.run(now, grain, source, None, fx);
            }
            _ => {
                fx.push(Effect::Fact(Fact::Moved { from: source, to: target, host: to }));
                self.drop_activation(now, grain, source, Reply::Retry, fx);
            }
        }
    }

    /// At the target: asks the directory whether this activation is the grain's now.
    pub(crate) fn thaw(&mut self, now: u64, grain: u32, target: ActivationId, fx: &mut Vec<Effect>) {
        let Some(activation) = self.activations.get_mut(&(grain, target)) else { return };
        let State::Frozen { source, from, thawing: thawing @ false } = &mut activation.state else { return };
        *thawing = true;
        let purpose = Purpose::Thaw { grain, target, source: *source, from: *from };
        let request = LocalOp::Thaw { grain: self.names.get(grain), activation: target };
        self.operate(now, request, purpose, fx);
    }

    pub(crate) fn thaw_over(&mut self, grain: u32, target: ActivationId) {
        if let Some(activation) = self.activations.get_mut(&(grain, target))
            && let State::Frozen { thawing, .. } = &mut activation.state
        {
            *thawing = false;
        }
    }

    pub(crate) fn thaw_done(
        &mut self,
        now: u64,
        (grain, source, target): Migration,
        from: SiloAddress,
        outcome: &Outcome,
        fx: &mut Vec<Effect>,
    ) {
        self.thaw_over(grain, target);
        match outcome {
            Outcome::Registered(entry) => self.run(now, grain, target, Some(entry.fence), fx),
            Outcome::Lost(_) => self.drop_activation(now, grain, target, Reply::Retry, fx),
            _ => send(from, GrainMessage::StillMoving { grain, source, target }, fx),
        }
    }

    pub(crate) fn poll(&mut self, now: u64, grain: u32, target: ActivationId, fx: &mut Vec<Effect>) {
        let state = self.activations.get(&(grain, target)).map(|activation| &activation.state);
        if matches!(state, Some(State::Frozen { .. })) {
            fx.push(Effect::Timer { after: POLL_EVERY, timer: Timer::Poll { grain, target } });
            self.thaw(now, grain, target, fx);
        }
    }

    /// At the source: a target asks whether it still matters. Only a source that runs, or moves elsewhere, may say
    /// no; one that is gone may have moved.
    pub(crate) fn still_moving(
        &self,
        from: SiloAddress,
        grain: u32,
        source: ActivationId,
        target: ActivationId,
        fx: &mut Vec<Effect>,
    ) {
        let Some(activation) = self.activations.get(&(grain, source)) else { return };
        let moving = match &activation.state {
            State::Restoring { target: wanted, .. } | State::Committing { target: wanted } => {
                *wanted == target
            }
            State::Registering | State::Running | State::Frozen { .. } => false,
        };
        if !moving {
            send(from, GrainMessage::Abort { grain, source, target }, fx);
        }
    }

    /// At the target: the migration is off.
    pub(crate) fn abort(&mut self, now: u64, grain: u32, target: ActivationId, fx: &mut Vec<Effect>) {
        // Also when it has not come yet, so that it does not come after this.
        self.restored_here.insert(target);
        let state = self.activations.get(&(grain, target)).map(|activation| &activation.state);
        if matches!(state, Some(State::Frozen { .. })) {
            self.drop_activation(now, grain, target, Reply::Retry, fx);
            let request = LocalOp::DropFrozen { grain: self.names.get(grain), activation: target };
            self.operate(now, request, Purpose::Tell, fx);
        }
    }
}
