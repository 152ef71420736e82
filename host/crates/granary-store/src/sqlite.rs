//! The embedded engine: SQLite files in the data directory, shared by the silos of one host.
//!
//! ```text
//! DATA/format                     the version of this layout
//! DATA/cluster/membership.db      the membership table, alone, so that nothing delays a renewal
//! DATA/cluster/state.db           grain state
//! DATA/cluster/deployments.db     what is deployed
//! DATA/cluster/quarantine.db      the components that silos died of
//! DATA/blobs/DIGEST               component bytes
//! ```
//!
//! Each database has one thread and one connection in each process; blobs have a thread too. A write is
//! acknowledged when its transaction is committed and synced (WAL, `synchronous=FULL`); writes that queue up share
//! a transaction. Nothing is claimed beyond one host, so network file systems are refused.

mod blobs;
mod database;
mod deployments;
mod directory;
mod membership;
mod quarantine;
mod state;
mod version;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use granary_core::hosting::{BoxFuture, StateError, StateValue};
use granary_core::id::{Digest, GrainId, SiloAddress};
use granary_core::membership::table::{CasOutcome, MembershipRow, TableSnapshot};
use granary_core::quarantine::QuarantineTable;

use crate::{
    BlobStore, DeploymentRecord, DeploymentStore, GrainStateStore, MembershipTable, QuarantineStore,
    StoreError,
};
use blobs::BlobFiles;
use database::Database;

pub use directory::{DATA_FORMAT, network_file_system, prepare};

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// How long an operation on a database may take, waiting included, before it fails as unavailable.
    pub timeout: Duration,
    /// The same for putting or getting a blob.
    pub blob_timeout: Duration,
    /// How long a transaction waits for another process that writes. Below `timeout`.
    pub busy_timeout: Duration,
    /// How many operations may wait for each database; more fail at once as unavailable.
    pub queue_operations_max: usize,
    /// Opens the directory even on a network file system, where SQLite's locks may not hold.
    pub allow_network_file_system: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            blob_timeout: Duration::from_secs(60),
            busy_timeout: Duration::from_secs(5),
            queue_operations_max: 4096,
            allow_network_file_system: false,
        }
    }
}

/// The store in a data directory. Clones share its threads, which end with the last of them.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    data: PathBuf,
    membership: Database,
    state: Database,
    deployments: Database,
    quarantine: Database,
    blobs: BlobFiles,
}

impl SqliteStore {
    /// Opens the store in the directory, and makes directory and databases where they are missing. Blocks for
    /// some file operations.
    ///
    /// # Errors
    /// [`StoreError::Unusable`], with path and reason, when the path is no directory, cannot be written, lies on a
    /// network file system or has a newer format, or when a database is corrupt; [`StoreError::Unavailable`] when
    /// another process keeps a database locked.
    pub fn open(data: &Path, options: OpenOptions) -> Result<Self, StoreError> {
        prepare(data, &options)?;
        let cluster = data.join("cluster");
        let database =
            |name: &str, schema| Database::open(&cluster.join(format!("{name}.db")), name, schema, &options);
        let inner = Inner {
            data: data.to_owned(),
            membership: database("membership", membership::SCHEMA)?,
            state: database("state", state::SCHEMA)?,
            deployments: database("deployments", deployments::SCHEMA)?,
            quarantine: database("quarantine", quarantine::SCHEMA)?,
            blobs: BlobFiles::open(data.join("blobs"), &options)?,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.inner.data
    }
}

impl MembershipTable for SqliteStore {
    fn read(&self) -> BoxFuture<'_, Result<TableSnapshot, StoreError>> {
        Box::pin(self.inner.membership.read(membership::read))
    }

    fn insert(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.membership.write(move |db| membership::insert(db, &row, expected_version)))
    }

    fn update(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.membership.write(move |db| membership::update(db, &row, expected_version)))
    }

    fn renew(&self, address: SiloAddress) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.inner.membership.write(move |db| membership::renew(db, address)))
    }

    fn remove_dead(&self, addresses: Vec<SiloAddress>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.inner.membership.write(move |db| membership::remove_dead(db, &addresses)))
    }
}

impl GrainStateStore for SqliteStore {
    fn read(
        &self,
        grain: GrainId,
        name: String,
        fence: u64,
    ) -> BoxFuture<'_, Result<Option<StateValue>, StateError>> {
        Box::pin(state::read(&self.inner.state, grain, name, fence))
    }

    fn write(
        &self,
        grain: GrainId,
        name: String,
        value: Vec<u8>,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<String, StateError>> {
        Box::pin(state::write(&self.inner.state, grain, name, value, expected, fence))
    }

    fn clear(
        &self,
        grain: GrainId,
        name: String,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<(), StateError>> {
        Box::pin(state::clear(&self.inner.state, grain, name, expected, fence))
    }
}

impl DeploymentStore for SqliteStore {
    fn read(&self) -> BoxFuture<'_, Result<(u64, Vec<DeploymentRecord>), StoreError>> {
        Box::pin(self.inner.deployments.read(deployments::read))
    }

    fn put(
        &self,
        record: DeploymentRecord,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.deployments.write(move |db| deployments::put(db, &record, expected_version)))
    }

    fn remove(
        &self,
        grain_type: String,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(
            self.inner.deployments.write(move |db| deployments::remove(db, &grain_type, expected_version)),
        )
    }
}

impl QuarantineStore for SqliteStore {
    fn read(&self) -> BoxFuture<'_, Result<(u64, QuarantineTable), StoreError>> {
        Box::pin(self.inner.quarantine.read(quarantine::read))
    }

    fn replace(
        &self,
        table: QuarantineTable,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.quarantine.write(move |db| quarantine::replace(db, &table, expected_version)))
    }
}

impl BlobStore for SqliteStore {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        Box::pin(self.inner.blobs.put(bytes))
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        Box::pin(self.inner.blobs.get(digest))
    }
}

#[cfg(test)]
mod tests;
