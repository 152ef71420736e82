//! The cluster store: traits, one contract suite that every engine passes, and the engines.
//!
//! Nothing here replicates data: a store is an existing engine. Policy (who is dead, when to retry) is not here
//! either.

mod cluster;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod memory;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod text;
#[cfg(test)]
mod tls_files;
mod url;

pub use cluster::{CLUSTER_ID_BYTES_MAX, ClusterId, ClusterIdError};
pub use memory::MemoryStore;
#[cfg(feature = "nats")]
pub use nats::{NatsOptions, NatsStore};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{OpenOptions, SqliteStore};
pub use url::{ServerUrl, StoreUrl, StoreUrlError};

use granary_core::hosting::{BoxFuture, StateError, StateValue};
use granary_core::id::{Digest, GrainId, SiloAddress};
use granary_core::membership::table::{CasOutcome, MembershipRow, TableSnapshot};
use granary_core::quarantine::QuarantineTable;

/// The longest name of a state in bytes.
pub const STATE_NAME_BYTES_MAX: usize = 128;

/// The longest value of a state in bytes.
pub const STATE_VALUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The largest blob in bytes.
pub const BLOB_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The store cannot be reached, or failed. A write may have been applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Corrupt, of a newer format, or not permitted: retrying does not help.
    #[error("the store is unusable: {0}")]
    Unusable(String),
}

/// The membership table (spec 7.2).
pub trait MembershipTable: Send + Sync {
    /// Rows and version from one consistent snapshot.
    fn read(&self) -> BoxFuture<'_, Result<TableSnapshot, StoreError>>;

    /// Inserts a row if the table has version `expected_version` and no row of that address.
    fn insert(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>>;

    /// Replaces a row if the table has version `expected_version` and the row still has `row.etag`.
    /// The stored renewal stays.
    fn update(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>>;

    /// Counts the silo's renewal up by one, if its row is there and not Dead; `false` otherwise.
    fn renew(&self, address: SiloAddress) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Removes the given rows that are Dead, without changing the version (spec MB-15).
    fn remove_dead(&self, addresses: Vec<SiloAddress>) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Persistent grain state with etag and fence (spec GP-1, decision B11).
pub trait GrainStateStore: Send + Sync {
    /// Reads a value, and raises the row's stored fence to `fence`; a higher stored fence is `Fenced`.
    fn read(
        &self,
        grain: GrainId,
        name: String,
        fence: u64,
    ) -> BoxFuture<'_, Result<Option<StateValue>, StateError>>;

    /// Writes if the stored etag is `expected` (`None`: no row) and the stored fence is not above `fence`.
    /// Returns the new etag when the write is durable.
    fn write(
        &self,
        grain: GrainId,
        name: String,
        value: Vec<u8>,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<String, StateError>>;

    /// Removes the value under the same conditions; the fence stays.
    fn clear(
        &self,
        grain: GrainId,
        name: String,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<(), StateError>>;
}

/// One deployed component.
#[derive(Clone, PartialEq, Eq)]
pub struct DeploymentRecord {
    /// The grain type; the key of the record.
    pub grain_type: String,
    pub digest: Digest,
    pub bytes: u64,
    /// The component's file name at deploy, for people.
    pub name: String,
    /// Counts the deploys of this type.
    pub revision: u64,
    /// Properties that override the component's own, as JSON.
    pub properties: String,
    /// Unix time in seconds.
    pub deployed_at: u64,
    /// What the deployment grants, in the form of `granary-wasm`; empty for nothing.
    pub grants: String,
}

/// Without the grants, which may hold secrets.
impl std::fmt::Debug for DeploymentRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeploymentRecord")
            .field("grain_type", &self.grain_type)
            .field("digest", &self.digest)
            .field("revision", &self.revision)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

/// What is deployed in the cluster: a small versioned table.
pub trait DeploymentStore: Send + Sync {
    /// All records and the table's version, from one snapshot.
    fn read(&self) -> BoxFuture<'_, Result<(u64, Vec<DeploymentRecord>), StoreError>>;

    /// Adds or replaces a record if the table has version `expected_version`.
    fn put(
        &self,
        record: DeploymentRecord,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>>;

    /// Removes a record if the table has version `expected_version`.
    fn remove(
        &self,
        grain_type: String,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>>;
}

/// The components that silos died of: a small versioned table, read and replaced as a whole.
pub trait QuarantineStore: Send + Sync {
    /// The table and its version, from one snapshot.
    fn read(&self) -> BoxFuture<'_, Result<(u64, QuarantineTable), StoreError>>;

    /// Replaces the table if it has version `expected_version`.
    fn replace(
        &self,
        table: QuarantineTable,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>>;
}

/// Component bytes by digest. What is read back is verified.
pub trait BlobStore: Send + Sync {
    /// Keeps the bytes durably under their digest; the same bytes again are fine.
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>>;

    /// The bytes, verified against the digest; `None` when absent (or found corrupt, which is logged).
    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>>;
}

/// All that a cluster keeps, in one engine.
pub trait Store: MembershipTable + GrainStateStore + DeploymentStore + QuarantineStore + BlobStore {}

impl<T> Store for T where T: MembershipTable + GrainStateStore + DeploymentStore + QuarantineStore + BlobStore {}

/// Refuses names and values beyond the limits, alike in all engines.
fn check_state_size(name: &str, value_bytes: usize) -> Result<(), StateError> {
    if name.is_empty() || name.len() > STATE_NAME_BYTES_MAX {
        return Err(StateError::TooLarge(format!(
            "the name of a state has 1 to {STATE_NAME_BYTES_MAX} bytes, this one has {}",
            name.len()
        )));
    }
    if value_bytes > STATE_VALUE_BYTES_MAX {
        return Err(StateError::TooLarge(format!(
            "the value of state {name:?} has {value_bytes} bytes, at most {STATE_VALUE_BYTES_MAX} are allowed"
        )));
    }
    Ok(())
}

/// Refuses blobs beyond the limit, alike in all engines.
fn check_blob_size(bytes: u64) -> Result<(), StoreError> {
    if bytes > BLOB_BYTES_MAX {
        return Err(StoreError::Unusable(format!(
            "a blob has {bytes} bytes, at most {BLOB_BYTES_MAX} are allowed"
        )));
    }
    Ok(())
}
