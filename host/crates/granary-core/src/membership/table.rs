//! The membership table's rows and the outcomes of its operations (spec 7.2).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::SiloAddress;

/// A silo's status, in the order of its life (spec MB-2). Dead is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SiloStatus {
    Joining,
    Active,
    ShuttingDown,
    Dead,
}

/// One vote against a silo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    pub voter: SiloAddress,
    /// Counts the voter's votes in this row, so that a repeated vote is seen to be fresh without a clock.
    pub number: u64,
}

/// One incarnation of a silo in the table (spec MB-10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipRow {
    pub address: SiloAddress,
    pub name: String,
    pub status: SiloStatus,
    pub gateway: SocketAddr,
    pub admin: SocketAddr,
    /// Host and boot that the silo runs on; a file lock proves a death only for the same two (decision B7).
    pub host_id: String,
    pub boot_id: String,
    pub process_id: u32,
    pub votes: Vec<Vote>,
    /// Changes with every change of this row but renewals; set by the store.
    pub etag: u64,
    /// Counts the silo's renewals ("I am alive"); changes neither etag nor version (spec MB-14).
    pub renewal: u64,
}

/// The whole table at one version: rows and version from one consistent read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableSnapshot {
    pub version: u64,
    pub rows: BTreeMap<SiloAddress, MembershipRow>,
}

/// The outcome of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CasOutcome {
    /// Written; the table now has this version.
    Written { version: u64 },
    /// The version or the etag was another; nothing was written.
    Conflict,
}
