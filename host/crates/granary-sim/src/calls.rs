//! Calls from clients: found, placed, sent, and tried again until they are done or nobody wants them any more.

use granary_core::directory::LocalOp;
use granary_core::id::SiloAddress;

use crate::faults::{MS, SECOND};
use crate::grains::{GrainMessage, Incoming, Purpose};
use crate::net::Wire;
use crate::silo::{Effect, Fact, Life, Silo, Timer};

/// How long one attempt waits for its answer.
const ATTEMPT_MAX: u64 = 2 * SECOND;
/// How long a call waits before it is tried again.
const AGAIN_AFTER: u64 = 200 * MS;
/// Attempts after which a call is given up.
const ATTEMPTS_MAX: u32 = 200;

/// How a silo answers a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    /// The grain is on that silo.
    At(SiloAddress),
    /// Not here, not now.
    Retry,
}

/// A call of a client of this silo.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) grain: u32,
    pub(crate) attempt: u32,
}

impl Silo {
    pub(crate) fn call(&mut self, now: u64, call: u64, grain: u32, fx: &mut Vec<Effect>) {
        self.calls.insert(call, Call { grain, attempt: 0 });
        self.route(now, call, fx);
    }

    /// Finds out where the grain is.
    pub(crate) fn route(&mut self, now: u64, call: u64, fx: &mut Vec<Effect>) {
        let Some((grain, attempt)) = self.next_attempt(call, fx) else { return };
        if self.life != Life::Active {
            fx.push(Effect::Timer { after: AGAIN_AFTER, timer: Timer::Again { call } });
        } else if self.current(grain).is_some() {
            self.invoke(now, grain, Incoming { call, attempt, reply_to: None }, fx);
        } else {
            let request = LocalOp::Lookup { grain: self.names.get(grain) };
            self.operate(now, request, Purpose::Lookup { call, attempt, asked_at: now }, fx);
        }
    }

    fn next_attempt(&mut self, call: u64, fx: &mut Vec<Effect>) -> Option<(u32, u32)> {
        let entry = self.calls.get_mut(&call)?;
        entry.attempt += 1;
        let (grain, attempt) = (entry.grain, entry.attempt);
        if attempt > ATTEMPTS_MAX {
            self.calls.remove(&call);
            return None;
        }
        fx.push(Effect::Timer { after: ATTEMPT_MAX, timer: Timer::Attempt { call, attempt } });
        Some((grain, attempt))
    }

    fn is_current(&self, call: u64, attempt: u32) -> bool {
        self.calls.get(&call).is_some_and(|entry| entry.attempt == attempt)
    }

    /// The directory has answered: a silo, or the grain is to be placed.
    pub(crate) fn located(
        &mut self,
        now: u64,
        call: u64,
        attempt: u32,
        silo: Option<SiloAddress>,
        fx: &mut Vec<Effect>,
    ) {
        if !self.is_current(call, attempt) {
            return;
        }
        let peers = self.peers();
        match silo.or_else(|| self.rng.pick(&peers)) {
            Some(silo) => self.send_call(now, call, attempt, silo, fx),
            None => self.replied(now, call, attempt, Reply::Retry, fx),
        }
    }

    fn send_call(&mut self, now: u64, call: u64, attempt: u32, to: SiloAddress, fx: &mut Vec<Effect>) {
        let Some(grain) = self.calls.get(&call).map(|entry| entry.grain) else { return };
        if to == self.address {
            self.invoke(now, grain, Incoming { call, attempt, reply_to: None }, fx);
        } else {
            let wire = Wire::Grain(GrainMessage::Invoke { call, attempt, grain });
            fx.push(Effect::Send { to, wire });
        }
    }

    pub(crate) fn replied(&mut self, now: u64, call: u64, attempt: u32, reply: Reply, fx: &mut Vec<Effect>) {
        if reply == Reply::Done {
            if self.calls.remove(&call).is_some() {
                fx.push(Effect::Fact(Fact::CallDone(call)));
            }
            return;
        }
        if !self.is_current(call, attempt) {
            return;
        }
        match reply {
            Reply::At(silo) if silo != self.address => {
                if let Some((_, attempt)) = self.next_attempt(call, fx) {
                    self.send_call(now, call, attempt, silo, fx);
                }
            }
            _ => fx.push(Effect::Timer { after: AGAIN_AFTER, timer: Timer::Again { call } }),
        }
    }

    pub(crate) fn attempt_timed_out(&mut self, now: u64, call: u64, attempt: u32, fx: &mut Vec<Effect>) {
        if self.is_current(call, attempt) {
            self.route(now, call, fx);
        }
    }
}
