//! Cycles of calls across chains (decision A12), found by chasing their edges.
//!
//! A call to a grain that is on its own chain is answered at once by its caller's silo. Two chains that wait for
//! each other cannot be seen in either chain: A's turn waits for B, B's turn waits for A, and each call lies in the
//! other's mailbox. So a silo sends a [`Probe`] along a call that has waited for a while. Each silo that it reaches
//! checks that the call is still there, adds the call for which the callee waits itself, and passes it on. A probe
//! that comes to a call which it has followed before has found a cycle.
//!
//! Why what it finds is real: a grain of this kind runs one turn at a time, and a turn waits for one call at a time.
//! The last call of a path is seen unanswered, so the callee before it has stood still since the probe passed, and
//! with it the one before that: all edges of the path hold at that moment. Only a caller whose time was up meanwhile
//! has left; its call would have expired anyway. Turns that may wait for several things at once (asynchronous
//! components) are not followed: they might go on, and what they wait for has its deadline.
//!
//! Every silo that finds the cycle chooses the same call to break: of those that have not started, the one with the
//! largest id. It is answered with [`CallError::Deadlock`](crate::hosting::CallError::Deadlock) and never runs. A probe
//! that is still under way then may report the broken cycle again: it chooses the same call, which is not there any
//! more. And where the caller of the broken call went on and waits for another, the probe sees that grain wait for two
//! calls, and ends.

use serde::{Deserialize, Serialize};

use crate::id::{GrainId, SiloAddress};

/// The longest path that a probe follows, which is also the longest chain of calls.
pub const PATH_MAX: usize = 128;

/// A call for which a turn waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub call_id: u128,
    /// The grain whose turn waits.
    pub from: GrainId,
    pub to: GrainId,
}

/// Where a call is at its callee's silo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallPhase {
    /// It has not started.
    Queued,
    /// Its turn runs.
    Running,
}

/// A call that a probe has followed to its callee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    pub wait: Wait,
    pub phase: CallPhase,
    /// The callee's silo.
    pub at: SiloAddress,
}

/// A search for a cycle on its way to the callee of `next`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Calls that were followed, oldest first.
    pub path: Vec<Edge>,
    pub next: Wait,
    /// How often it was passed on for want of the callee.
    pub forwards: u8,
}

/// The call that shall be answered so that a cycle ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Break {
    pub call_id: u128,
    /// The callee, in whose mailbox the call lies.
    pub to: GrainId,
    /// The grains of the cycle; each waits for the next, and the last is the first again.
    pub cycle: Vec<GrainId>,
}

/// What silos say to each other about cycles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadlockMessage {
    Probe(Probe),
    Break(Break),
}

/// What becomes of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There is no cycle on this path, as far as one can see.
    Stop,
    /// On to the next callee.
    Follow(Probe),
    /// A cycle; the call to break lies at this silo.
    Cycle(SiloAddress, Break),
}

impl Probe {
    /// A search that begins with a call that waits.
    #[must_use]
    pub fn new(wait: Wait) -> Self {
        Self { path: Vec::new(), next: wait, forwards: 0 }
    }

    /// Takes the probe past the callee of its next call, on silo `at`. `phase` is where that call is there, `None`
    /// when it is not; `callee` is the call for which the callee's own turn waits, if it waits.
    #[must_use]
    pub fn step(mut self, at: SiloAddress, phase: Option<CallPhase>, callee: Option<Wait>) -> Step {
        let (Some(phase), Some(callee)) = (phase, callee) else { return Step::Stop };
        if callee.from != self.next.to || self.path.len() >= PATH_MAX {
            return Step::Stop;
        }
        self.path.push(Edge { wait: self.next, phase, at });
        let seen = self.path.iter().position(|edge| edge.wait.from == callee.from);
        match seen.and_then(|start| self.path.get(start..)) {
            Some(cycle @ [first, ..]) if first.wait == callee => broken(cycle),
            Some(_) => Step::Stop,
            None => Step::Follow(Self { path: self.path, next: callee, forwards: 0 }),
        }
    }
}

/// Chooses the call to break in a cycle.
fn broken(cycle: &[Edge]) -> Step {
    let queued = cycle.iter().enumerate().filter(|(_, edge)| edge.phase == CallPhase::Queued);
    // A cycle within one chain has none; the caller's silo has answered it.
    let Some((start, edge)) = queued.max_by_key(|(_, edge)| edge.wait.call_id) else { return Step::Stop };
    let mut grains: Vec<_> =
        cycle.iter().cycle().skip(start).take(cycle.len()).map(|edge| edge.wait.from.clone()).collect();
    grains.push(edge.wait.from.clone());
    let broken = Break { call_id: edge.wait.call_id, to: edge.wait.to.clone(), cycle: grains };
    Step::Cycle(edge.at, broken)
}

#[cfg(test)]
mod tests;
