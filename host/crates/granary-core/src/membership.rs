//! Membership: the versioned table, and the machine that joins, probes, suspects and leaves (spec §7).

pub mod table;

/// What the membership machines of two silos say to each other.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MembershipMessage {}
