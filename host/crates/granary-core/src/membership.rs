//! Membership: the versioned table, and the machine that joins, probes, suspects and leaves (spec §7).
//!
//! [`Membership`] is one silo's side of it, a pure machine: the shell feeds it events with the silo's own
//! monotonic time and carries out its commands in order. It owns the silo's row in the table, its view of the
//! cluster, its probes of other silos and its votes against them.
//!
//! Invariants:
//! - At most one store operation is in flight, and every one has a deadline. After an outcome that is not known
//!   the table is read again before anything else is written.
//! - What to write is computed from the newest snapshot and from local knowledge each time; nothing is queued,
//!   so nothing stale is ever written. Every write is conditional on the snapshot's version.
//! - Views are accepted only if they are newer (spec MB-20). Dead is final.
//! - No decision compares the clocks of two silos.
//!
//! Not here: the fence that stops a silo which can prove neither renewal nor promises.

mod adopt;
mod config;
mod event;
mod judge;
mod probe;
mod rng;
mod store;
#[cfg(test)]
mod tests;
mod view;

pub mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{SiloAddress, Time};
use crate::membership::judge::Watch;
use crate::membership::probe::Peer;
use crate::membership::rng::Rng;
use crate::membership::store::Store;
use crate::membership::table::TableSnapshot;

pub use config::{MembershipConfig, Mutant, SiloIdentity};
pub use event::{
    Command, DeathCause, DeathProof, Event, Fact, FatalReason, JoinError, StoreFailure, StoreReply,
    StoreRequest,
};
pub use view::{Member, MembershipView};

/// What the membership machines of two silos say to each other. Losing, repeating and reordering them is fine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MembershipMessage {
    /// "Are you there?" Answered at once by the incarnation it is for, and by no other (spec MB-53).
    Probe {
        /// The incarnation that is asked.
        to: SiloAddress,
        /// Counts the sender's probes of this target.
        sequence: u64,
        /// The sender's view; a receiver with an older one reads the table.
        view_version: u64,
        /// The sender's manifest generation (decision B1).
        generation: u64,
    },
    /// The answer to the probe of the same sequence.
    ProbeAck {
        /// The probe's sequence.
        sequence: u64,
        /// The answerer's view; a receiver with an older one reads the table.
        view_version: u64,
        /// The answerer's manifest generation (decision B1).
        generation: u64,
    },
    /// A status changed in the table, which now has this version: read it if yours is older (spec MB-25).
    TableChanged {
        /// The table's version.
        version: u64,
    },
}

/// Where the silo is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Before [`Event::Start`].
    Idle,
    /// Until the own row is Active, at most to the deadline.
    Joining {
        deadline: Time,
    },
    Active,
    /// The own row is to be ShuttingDown; `announced` once the shell was told to drain.
    Leaving {
        deadline: Time,
        announced: bool,
    },
    /// The own row is to be Dead.
    Finishing {
        deadline: Time,
    },
    /// The join has failed; the own row is to be Dead.
    Abandoning {
        deadline: Time,
        error: JoinError,
    },
    /// Nothing more happens.
    Over,
}

/// One silo's membership machine.
#[derive(Debug)]
pub struct Membership {
    config: MembershipConfig,
    rng: Rng,
    phase: Phase,
    /// The newest accepted snapshot, and the view made of it.
    table: TableSnapshot,
    view: Arc<MembershipView>,
    store: Store,
    /// The silos that are probed now.
    peers: BTreeMap<SiloAddress, Peer>,
    /// What is remembered about every row.
    watches: BTreeMap<SiloAddress, Watch>,
    /// The own manifest's generation.
    generation: u64,
    /// An insert of the own row was begun, so it may be in the table.
    insert_tried: bool,
    /// The own row was seen in the table.
    row_seen: bool,
    /// The first version with the own row, which the Active silos must acknowledge before the join is done.
    join_version: Option<u64>,
    /// The time of the last [`Command::WakeAt`], until it came.
    armed: Option<Time>,
}

impl Membership {
    /// A machine that has not started. `seed` feeds its own random numbers (probe phases and back-off).
    #[must_use]
    pub fn new(config: MembershipConfig, seed: u64) -> Self {
        Self {
            config,
            rng: Rng::new(seed),
            phase: Phase::Idle,
            table: TableSnapshot::default(),
            view: Arc::default(),
            store: Store::default(),
            peers: BTreeMap::new(),
            watches: BTreeMap::new(),
            generation: 0,
            insert_tried: false,
            row_seen: false,
            join_version: None,
            armed: None,
        }
    }

    /// The newest accepted view; version 0 without members before the first read.
    #[must_use]
    pub fn view(&self) -> &Arc<MembershipView> {
        &self.view
    }

    /// This silo's address.
    #[must_use]
    pub fn address(&self) -> SiloAddress {
        self.config.identity.address
    }

    /// The join is done and no leave has begun.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The machine has given its last command: `JoinFailed`, `Left` or `Fatal`.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Takes one event at the silo's own time `now` and appends what is to be done, in order.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Command>) {
        if self.phase == Phase::Over || (self.phase == Phase::Idle && !can_be_first(&event)) {
            return;
        }
        match event {
            Event::Start => self.start(now),
            Event::Tick => self.armed = None,
            Event::Store { op, reply } => self.on_store(now, op, reply, out),
            Event::Message { from, message } => self.on_message(now, from, message, out),
            Event::PeerUnreachable(silo) => self.on_unreachable(now, silo, out),
            Event::DeathProof { silo, proof } => self.on_proof(silo, proof),
            Event::ManifestGeneration(generation) => self.generation = generation,
            Event::Leave => self.leave(now, out),
            Event::Finish => self.finish(now, out),
        }
        self.advance(now, out);
    }

    fn mutant(&self, mutant: Mutant) -> bool {
        self.config.mutant == Some(mutant)
    }

    fn start(&mut self, now: Time) {
        if self.phase == Phase::Idle {
            self.phase = Phase::Joining { deadline: now.after(self.config.join_timeout) };
            self.store.must_read = true;
        }
    }

    fn leave(&mut self, now: Time, out: &mut Vec<Command>) {
        if !matches!(self.phase, Phase::Idle | Phase::Joining { .. } | Phase::Active) {
            return;
        }
        // Nobody has seen this silo yet: there is nobody to tell.
        let announced = !self.row_seen;
        if announced {
            out.push(Command::ShuttingDown { recorded: false });
        }
        self.phase = Phase::Leaving { deadline: now.after(self.config.leave_timeout), announced };
        self.choose_peers(now);
    }

    fn finish(&mut self, now: Time, out: &mut Vec<Command>) {
        if matches!(self.phase, Phase::Finishing { .. } | Phase::Abandoning { .. }) {
            return;
        }
        if !self.insert_tried {
            return self.over(Command::Left { recorded: true }, out);
        }
        self.phase = Phase::Finishing { deadline: now.after(self.config.leave_timeout) };
        self.store.must_read |= !self.row_seen;
        self.choose_peers(now);
    }

    /// Does what is due, and says when something is due next.
    fn advance(&mut self, now: Time, out: &mut Vec<Command>) {
        self.expire_store(now, out);
        self.expire_proofs(now);
        self.expire_phase(now, out);
        self.probe(now, out);
        self.pump(now, out);
        self.arm(now, out);
    }

    fn expire_phase(&mut self, now: Time, out: &mut Vec<Command>) {
        match &mut self.phase {
            Phase::Joining { deadline } if *deadline <= now => {
                let error = self.join_timed_out();
                self.fail_join(now, error, out);
            }
            Phase::Leaving { deadline, announced } if *deadline <= now && !*announced => {
                *announced = true;
                out.push(Command::ShuttingDown { recorded: false });
            }
            Phase::Finishing { deadline } | Phase::Abandoning { deadline, .. } if *deadline <= now => {
                self.gone(false, out);
            }
            _ => {}
        }
    }

    fn join_timed_out(&self) -> JoinError {
        if let Some(failure) = &self.store.last_failure {
            return JoinError::Store(failure.clone());
        }
        if let Some(silo) = self.namesakes().next() {
            return JoinError::NameTaken { name: self.config.identity.name.clone(), silo };
        }
        let silos: Vec<_> = self.unreached().collect();
        if silos.is_empty() { JoinError::TimedOut } else { JoinError::Unreachable { silos } }
    }

    fn arm(&mut self, now: Time, out: &mut Vec<Command>) {
        let phase_wake = match self.phase {
            Phase::Idle | Phase::Over => return,
            Phase::Active | Phase::Leaving { announced: true, .. } => None,
            Phase::Joining { deadline }
            | Phase::Leaving { deadline, .. }
            | Phase::Finishing { deadline }
            | Phase::Abandoning { deadline, .. } => Some(deadline),
        };
        let others = [phase_wake, self.probe_wake(), self.stuck_wake(now)];
        let wake = others.into_iter().flatten().fold(self.store_wake(now), Time::min);
        // A silo that is told to wake earlier than now would spin; it is told to wake at once instead.
        let wake = wake.max(now);
        if self.armed != Some(wake) {
            self.armed = Some(wake);
            out.push(Command::WakeAt(wake));
        }
    }
}

/// A machine that has not started knows its manifest, and can be told to stop again.
fn can_be_first(event: &Event) -> bool {
    matches!(event, Event::Start | Event::ManifestGeneration(_) | Event::Leave | Event::Finish)
}
