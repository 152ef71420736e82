//! What a membership machine is told at its construction.

use std::net::SocketAddr;
use std::time::Duration;

use crate::id::SiloAddress;

/// Who this silo is: the constant part of its row in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiloIdentity {
    /// The endpoint for other silos, and this start's generation.
    pub address: SiloAddress,
    /// The silo's name; at most one living silo has it.
    pub name: String,
    /// Where the gateway listens.
    pub gateway: SocketAddr,
    /// Where the admin API listens.
    pub admin: SocketAddr,
    /// The host; with `boot_id` it says for which rows a file lock proves a death (decision B7).
    pub host_id: String,
    /// The host's boot.
    pub boot_id: String,
    /// The process, for people.
    pub process_id: u32,
}

/// Settings of a membership machine. [`MembershipConfig::new`] has the defaults of decision B4.
///
/// How they hang together: a crash is suspected after `probe_period × missed_probes` (1.5 s) and, where the
/// renewal must be watched, declared after `fencing_time × 1.03` since the last renewal (about 4 s); so
/// `renewal_period` should be at most a quarter of `fencing_time`, and a fencing time below 3 s gains nothing,
/// since the slowest cases are bounded by the probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipConfig {
    /// Who this silo is.
    pub identity: SiloIdentity,
    /// The silo holds the exclusive lock of its name's directory: an older incarnation of the same name on the
    /// same host and boot is proved dead by that (decision B7).
    pub holds_name_lock: bool,
    /// How often each probed silo is probed, and how long an answer may take. Above the slowest usual round trip
    /// of the network plus the longest usual pause of a process. Default 0.5 s.
    pub probe_period: Duration,
    /// So many consecutive unanswered probes make a silo suspect. Default 3.
    pub missed_probes: u32,
    /// How many silos each silo probes in large clusters (spec MB-50); in smaller ones everybody probes everybody.
    /// Default 10.
    pub probed_silos: usize,
    /// How long a renewal keeps a silo valid (decision B2). Default 4 s.
    pub fencing_time: Duration,
    /// How often the silo renews its row. Default 1 s.
    pub renewal_period: Duration,
    /// How often the table is read when nothing else causes it: the repair of lost gossip. Default 5 s.
    pub table_refresh: Duration,
    /// How long one store operation may take before its outcome counts as unknown. Default 2 s.
    pub store_timeout: Duration,
    /// The longest back-off after store failures; it starts at 50 ms and doubles. Default 2 s.
    pub store_backoff_max: Duration,
    /// A join that has not succeeded by then fails (spec MB-31). Default 60 s.
    pub join_timeout: Duration,
    /// A silo that was seen Joining for so long may be suspected even though it answers (spec MB-34). More than
    /// `join_timeout`, so that the joiner gives up first. Default 90 s.
    pub stuck_joining: Duration,
    /// How long each of the two status writes of a graceful leave may take; then the leave goes on without it.
    /// Default 5 s.
    pub leave_timeout: Duration,
    /// How long the shell may take to prove a death before the answer counts as unknown. Default 1 s.
    pub proof_timeout: Duration,
    /// Dead rows beyond so many are removed, those of the oldest generations first (spec MB-83). Default 25.
    pub dead_rows_max: usize,
    /// A planted fault, to prove that the simulator's checks bite.
    #[doc(hidden)]
    pub mutant: Option<Mutant>,
}

impl MembershipConfig {
    /// The defaults of decision B4 for a silo on a local network.
    #[must_use]
    pub fn new(identity: SiloIdentity) -> Self {
        Self {
            identity,
            holds_name_lock: false,
            probe_period: Duration::from_millis(500),
            missed_probes: 3,
            probed_silos: 10,
            fencing_time: Duration::from_secs(4),
            renewal_period: Duration::from_secs(1),
            table_refresh: Duration::from_secs(5),
            store_timeout: Duration::from_secs(2),
            store_backoff_max: Duration::from_secs(2),
            join_timeout: Duration::from_secs(60),
            stuck_joining: Duration::from_secs(90),
            leave_timeout: Duration::from_secs(5),
            proof_timeout: Duration::from_secs(1),
            dead_rows_max: 25,
            mutant: None,
        }
    }
}

/// A planted fault.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// One vote declares a silo dead, whatever the size of the view.
    OneVoteKills,
    /// A silo that reads itself Dead goes on.
    OwnDeathIgnored,
    /// A joiner becomes Active without having reached the Active silos.
    JoinWithoutProbing,
    /// After a conflict the same row is written again over whatever is there now.
    ConflictOverwritten,
    /// An older view replaces a newer one.
    OlderViewAccepted,
    /// Votes of silos that are dead or gone count.
    DeadVotersCount,
    /// A death that could not be proved counts as proved.
    UnknownProofBelieved,
    /// A vote stays when its target answers again.
    VoteNotRetracted,
    /// In a view of two the victim's renewal is not watched.
    RenewalNotWatched,
}
