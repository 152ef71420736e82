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

mod config;
mod event;
mod view;

pub mod table;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{SiloAddress, Time};

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

/// One silo's membership machine.
#[derive(Debug)]
pub struct Membership {
    config: MembershipConfig,
    view: Arc<MembershipView>,
    seed: u64,
}

impl Membership {
    /// A machine that has not started. `seed` feeds its own random numbers (probe phases and back-off).
    #[must_use]
    pub fn new(config: MembershipConfig, seed: u64) -> Self {
        Self { config, view: Arc::default(), seed }
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

    /// Takes one event at the silo's own time `now` and appends what is to be done, in order.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Command>) {
        let _ = (now, event, out, self.seed);
    }
}
