//! PostgreSQL: one schema for each cluster, `granary_CLUSTER`.
//!
//! Every write of a table is one statement, so no lock of ours outlives a message: a silo that is paused, or that
//! dies, never stands in the others' way. A write is acknowledged when the server has it on disk; whether it outlives
//! the loss of that server is the server's configuration (`synchronous_standby_names`). What would break the promise
//! (`fsync=off`, `synchronous_commit=off`, a read-only server) is refused, for every connection anew.
//!
//! The membership table has a connection of its own, so that nothing delays a renewal. A connection is made when it
//! is first needed, belongs to the runtime of the call that made it, and is made again after it broke.

mod blobs;
mod deployments;
mod error;
mod lane;
mod membership;
mod quarantine;
mod schema;
mod session;
mod state;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use granary_core::hosting::{BoxFuture, StateError, StateValue};
use granary_core::id::{Digest, GrainId, SiloAddress};
use granary_core::membership::table::{CasOutcome, MembershipRow, TableSnapshot};
use granary_core::quarantine::QuarantineTable;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::{
    BlobStore, ClusterId, DeploymentRecord, DeploymentStore, GrainStateStore, MembershipTable,
    QuarantineStore, ServerUrl, StoreError,
};
use error::malformed;
use lane::Lane;
use session::Connector;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The CA that the server's certificate is checked against, in PEM form; `None`: no TLS.
    pub ca_file: Option<PathBuf>,
    /// How long an operation may take, waiting and connecting included, before it fails as unavailable. The server
    /// gives a statement up after the same time. Default 2 s.
    pub timeout: Duration,
    /// The same for putting or getting a blob, of which each piece has `timeout`. Default 60 s.
    pub blob_timeout: Duration,
    /// How long making one connection may take. Default 2 s.
    pub connect_timeout: Duration,
    /// Connections for grain state; the membership table has one more, and what is left has one. Default 4.
    pub state_connections: usize,
    /// How many operations may wait for each group of connections; more fail at once as unavailable. Default 1024.
    pub queue_operations_max: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            ca_file: None,
            timeout: Duration::from_secs(2),
            blob_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(2),
            state_connections: 4,
            queue_operations_max: 1024,
        }
    }
}

/// The store of one cluster in a PostgreSQL database. Clones share its connections.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    membership: Lane,
    state: Lane,
    /// Deployments and quarantine.
    rest: Lane,
    blobs: Lane,
    blob_timeout: Duration,
    connector: Arc<Connector>,
    warnings: Vec<String>,
}

impl PostgresStore {
    /// Connects, checks the server, and makes the cluster's schema where it is missing. Settings of the server that
    /// weaken a promise without breaking it are logged as warnings.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] for a wrong address, password or database, a server that is too old, read-only or set
    /// up to lose acknowledged writes, and a schema of a newer version; [`StoreError::Unavailable`] when there is no
    /// answer in time. Both name the address, without the password.
    pub async fn open(
        url: &ServerUrl,
        cluster: &ClusterId,
        options: PostgresOptions,
    ) -> Result<Self, StoreError> {
        let connector = Arc::new(Connector::new(url, cluster, &options)?);
        let opened = schema::open(&connector);
        let warnings = match tokio::time::timeout(options.connect_timeout + options.timeout, opened).await {
            Ok(warnings) => warnings?,
            Err(_) => {
                return Err(connector.no_answer(options.connect_timeout + options.timeout, "open timeout"));
            }
        };
        for warning in &warnings {
            tracing::warn!("{url}: {warning}");
        }
        let lane = |connections| {
            Lane::new(Arc::clone(&connector), connections, options.queue_operations_max, options.timeout)
        };
        let inner = Inner {
            membership: lane(1),
            state: lane(options.state_connections.max(1)),
            rest: lane(1),
            blobs: lane(1),
            blob_timeout: options.blob_timeout,
            connector: Arc::clone(&connector),
            warnings,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the server's settings do not promise, for people.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }
}

impl Inner {
    /// Bounds an operation on a blob as a whole.
    async fn blob<T>(&self, operation: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        match tokio::time::timeout(self.blob_timeout, operation).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.connector.no_answer(self.blob_timeout, "blob timeout")),
        }
    }
}

impl MembershipTable for PostgresStore {
    fn read(&self) -> BoxFuture<'_, Result<TableSnapshot, StoreError>> {
        Box::pin(membership::read(&self.inner.membership))
    }

    fn insert(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(membership::insert(&self.inner.membership, row, expected_version))
    }

    fn update(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(membership::update(&self.inner.membership, row, expected_version))
    }

    fn renew(&self, address: SiloAddress) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(membership::renew(&self.inner.membership, address))
    }

    fn remove_dead(&self, addresses: Vec<SiloAddress>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(membership::remove_dead(&self.inner.membership, addresses))
    }
}

impl GrainStateStore for PostgresStore {
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

impl DeploymentStore for PostgresStore {
    fn read(&self) -> BoxFuture<'_, Result<(u64, Vec<DeploymentRecord>), StoreError>> {
        Box::pin(deployments::read(&self.inner.rest))
    }

    fn put(
        &self,
        record: DeploymentRecord,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(deployments::put(&self.inner.rest, record, expected_version))
    }

    fn remove(
        &self,
        grain_type: String,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(deployments::remove(&self.inner.rest, grain_type, expected_version))
    }
}

impl QuarantineStore for PostgresStore {
    fn read(&self) -> BoxFuture<'_, Result<(u64, QuarantineTable), StoreError>> {
        Box::pin(quarantine::read(&self.inner.rest))
    }

    fn replace(
        &self,
        table: QuarantineTable,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(quarantine::replace(&self.inner.rest, table, expected_version))
    }
}

impl BlobStore for PostgresStore {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        Box::pin(self.inner.blob(blobs::put(&self.inner.blobs, bytes)))
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        Box::pin(self.inner.blob(blobs::get(&self.inner.blobs, digest)))
    }
}

/// What a conditional write that returns the new version came to.
fn outcome(lane: &Lane, rows: &[Row]) -> Result<CasOutcome, StoreError> {
    match rows.first() {
        Some(row) => {
            Ok(CasOutcome::Written { version: from_sql(lane, "version", column(lane, row, "version")?)? })
        }
        None => Ok(CasOutcome::Conflict),
    }
}

fn column<'r, T: FromSql<'r>>(lane: &Lane, row: &'r Row, name: &str) -> Result<T, StoreError> {
    row.try_get(name).map_err(|err| malformed(lane.address(), name, &err))
}

/// SQL's integers are signed.
fn to_sql(lane: &Lane, name: &str, number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| {
        StoreError::Unusable(format!("{}: {name} {number} is above {}", lane.address(), i64::MAX))
    })
}

fn from_sql(lane: &Lane, name: &str, number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|err| malformed(lane.address(), name, &err))
}

fn digest_from_sql(lane: &Lane, bytes: &[u8]) -> Result<Digest, StoreError> {
    bytes.try_into().map(Digest).map_err(|err| malformed(lane.address(), "digest", &err))
}
