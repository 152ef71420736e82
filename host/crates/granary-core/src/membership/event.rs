//! What goes into a membership machine and what comes out of it.

use std::sync::Arc;

use crate::id::{SiloAddress, Time};
use crate::membership::table::{CasOutcome, MembershipRow, TableSnapshot};
use crate::membership::{MembershipMessage, MembershipView};

/// Why a store operation gave no answer. A write may have been applied all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFailure {
    /// It may work later.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Trying again does not help.
    #[error("unusable: {0}")]
    Unusable(String),
}

/// An operation on the membership table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreRequest {
    /// Read rows and version from one snapshot.
    Read,
    /// Insert this silo's row.
    Insert {
        /// The row.
        row: MembershipRow,
        /// The version that the table must have.
        expected_version: u64,
    },
    /// Replace a row.
    Update {
        /// The row, with the etag that the stored one must have.
        row: MembershipRow,
        /// The version that the table must have.
        expected_version: u64,
    },
    /// Count this silo's renewal up.
    Renew(SiloAddress),
    /// Remove these Dead rows.
    RemoveDead(Vec<SiloAddress>),
}

/// The end of a [`StoreRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreReply {
    /// Of `Read`.
    Read(Result<TableSnapshot, StoreFailure>),
    /// Of `Insert` and `Update`.
    Written(Result<CasOutcome, StoreFailure>),
    /// Of `Renew`: whether the row was there and not Dead.
    Renewed(Result<bool, StoreFailure>),
    /// Of `RemoveDead`.
    Removed(Result<(), StoreFailure>),
}

/// What the shell found out about a silo's process (decision B7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeathProof {
    /// The lock of the silo's directory was free: its process is gone.
    Proved,
    /// The lock is held, or cannot be tried from here.
    Unknown,
}

/// An input of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Begin to join. Once.
    Start,
    /// The time of the last [`Command::WakeAt`] has come. Early or superfluous ticks do no harm.
    Tick,
    /// A store operation ended. Replies of operations that timed out are recognised by their number.
    Store {
        /// The number of the operation.
        op: u64,
        /// Its end.
        reply: StoreReply,
    },
    /// A message from another silo.
    Message {
        /// The incarnation that sent it.
        from: SiloAddress,
        /// The message.
        message: MembershipMessage,
    },
    /// A connection to this silo was refused or reset. Counts at most as one missed probe for each probe.
    PeerUnreachable(SiloAddress),
    /// The answer to [`Command::ProveDeath`].
    DeathProof {
        /// The silo asked about.
        silo: SiloAddress,
        /// What was found.
        proof: DeathProof,
    },
    /// This silo's own manifest generation changed (decision B1).
    ManifestGeneration(u64),
    /// Begin a graceful leave (spec MB-90).
    Leave,
    /// Everything is drained: write the own row Dead and be gone. Also without a `Leave` before it.
    Finish,
}

/// An output of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Start a store operation; report its end as [`Event::Store`] with the same number.
    Store {
        /// The number of the operation, unique in the machine.
        op: u64,
        /// What to do.
        request: StoreRequest,
    },
    /// Send a message, and forget it.
    Send {
        /// The incarnation to send to.
        to: SiloAddress,
        /// The message.
        message: MembershipMessage,
    },
    /// Find out whether the silo's process is gone; the row says where it lives. Answer with
    /// [`Event::DeathProof`].
    ProveDeath(Box<MembershipRow>),
    /// Send a [`Event::Tick`] at this time. Replaces the earlier request.
    WakeAt(Time),
    /// A newer view. Comes before any command that depends on it.
    ViewChanged(Arc<MembershipView>),
    /// A peer says that its manifest has this generation; repeated with every answered probe.
    PeerGeneration {
        /// The peer.
        silo: SiloAddress,
        /// Its manifest generation.
        generation: u64,
    },
    /// The own row is Active.
    Joined,
    /// The join failed for good; the machine does nothing more. The own row is Dead or was never written, unless
    /// the store could not be reached.
    JoinFailed(JoinError),
    /// A leave has begun: the others were told (`recorded`), or could not be told in time. Drain, then send
    /// [`Event::Finish`].
    ShuttingDown {
        /// Whether the own row is known to be ShuttingDown.
        recorded: bool,
    },
    /// The leave is over; the machine does nothing more.
    Left {
        /// Whether the own row is known to be Dead.
        recorded: bool,
    },
    /// The cluster took this silo for dead: its process must stop at once, without a drain (spec MB-23).
    Fatal(FatalReason),
    /// Something worth a log line, a metric and a check.
    Report(Fact),
}

/// Why a silo must stop at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FatalReason {
    /// The own row is Dead and this silo did not write that.
    #[error("the other silos declared this silo dead (table version {version})")]
    DeclaredDead {
        /// The table's version.
        version: u64,
    },
    /// The own row is gone.
    #[error("this silo's row is gone from the membership table (table version {version})")]
    RowMissing {
        /// The table's version.
        version: u64,
    },
    /// A renewal was refused: the own row is Dead or gone.
    #[error("this silo's renewal was refused, so its row in the membership table is dead or gone")]
    RenewalRefused,
}

/// Why a join failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Another living silo has the name.
    #[error("a silo named {name} is already running at {silo}: choose another name, or stop that silo first")]
    NameTaken {
        /// The name.
        name: String,
        /// The silo that has it.
        silo: SiloAddress,
    },
    /// A start with this or a later generation was at the same endpoint. Start again with a generation above it.
    #[error(
        "the table has a later start at this endpoint ({silo}): this host's clock may have been set back"
    )]
    LaterGeneration {
        /// The incarnation found.
        silo: SiloAddress,
    },
    /// Active silos did not answer, or did not see this silo's row, in time.
    #[error("these active silos could not be reached in time, and were not found dead either: {}", list(.silos))]
    Unreachable {
        /// The silos that are missing.
        silos: Vec<SiloAddress>,
    },
    /// The membership table could not be used.
    #[error("the membership table cannot be used")]
    Store(#[source] StoreFailure),
    /// The table changed too often, or the store was too slow.
    #[error("the membership table could not be written within the join timeout")]
    TimedOut,
    /// While joining, this silo was declared dead. Start again with a new generation.
    #[error("this silo was declared dead while it was joining")]
    DeclaredDead,
}

fn list(silos: &[SiloAddress]) -> String {
    silos.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How a death was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeathCause {
    /// Votes of a majority of the view.
    Majority,
    /// Fewer votes, and the renewal was watched unchanged for the fencing time.
    RenewalExpired,
    /// Its file lock was free.
    LockProof,
    /// A newer start took over its endpoint, or its name on the same host.
    Replaced,
    /// No Active silo was left to decide: a joiner watched all renewals unchanged.
    NobodyLeft,
}

/// Something that happened, for logs, metrics and checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The silo stopped answering, or is stuck while joining.
    Suspected(SiloAddress),
    /// The silo answers again.
    Cleared(SiloAddress),
    /// This silo's vote is in the table.
    Voted(SiloAddress),
    /// This silo's vote is out of the table again.
    Retracted(SiloAddress),
    /// This silo wrote another one Dead.
    DeclaredDead {
        /// The dead silo.
        silo: SiloAddress,
        /// How it was decided.
        cause: DeathCause,
    },
    /// A store operation failed or timed out; reported at the first of a row of failures.
    StoreFailed(String),
    /// The store answers again.
    StoreRecovered,
}
