//! NATS JetStream: four streams for each cluster, laid out as key-value buckets, `granary_CLUSTER_membership`, `…_state`,
//! `…_deployments` and `…_pieces`.
//!
//! A key is a subject of which the stream keeps the last message; a compare-and-swap is a publication that expects the
//! number of that message. There is no transaction over keys, so what must change together stands in one: the
//! membership table is one key, and so are the deployments and the quarantine. Reads ask the stream's leader, never a
//! follower. JetStream is spoken as plain requests, in the form that servers from 2.9 on understand.
//!
//! What an acknowledgement means is the server's configuration: by default it writes to disk every two minutes, so an
//! acknowledged write outlives the process, but the power only with `sync_interval: always` or with replicas
//! elsewhere. A client cannot see that setting.

mod blobs;
mod bucket;
mod document;
mod link;
mod membership;
mod pieces;
mod server;
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

use crate::{
    BlobStore, ClusterId, DeploymentRecord, DeploymentStore, GrainStateStore, MembershipTable,
    QuarantineStore, ServerUrl, StoreError,
};
use bucket::Bucket;
use document::Documents;
use link::{Connector, Link};
use membership::Table;
use pieces::Pieces;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct NatsOptions {
    /// The CA that the server's certificate is checked against, in PEM form; `None`: TLS only for `tls://`, with the
    /// CAs of the system.
    pub ca_file: Option<PathBuf>,
    /// How long an operation may take, waiting included, before it fails as unavailable. Default 2 s.
    pub timeout: Duration,
    /// The same for putting or getting a blob, of which each piece has `timeout`. Default 60 s.
    pub blob_timeout: Duration,
    /// How long making a connection may take. Default 2 s.
    pub connect_timeout: Duration,
    /// How many operations may wait for each of the two connections; more fail at once as unavailable. Default 1024.
    pub queue_operations_max: usize,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            ca_file: None,
            timeout: Duration::from_secs(2),
            blob_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(2),
            queue_operations_max: 1024,
        }
    }
}

/// The store of one cluster in NATS JetStream. Clones share its connections: one for the membership table, so that
/// nothing delays a renewal, and one for everything else. A connection belongs to the runtime of the call that made it.
#[derive(Debug, Clone)]
pub struct NatsStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    table: Table,
    state: Bucket,
    documents: Documents,
    pieces: Pieces,
    timeout: Duration,
    blob_timeout: Duration,
    warnings: Vec<String>,
}

impl NatsStore {
    /// Connects, checks the server, and makes the cluster's streams where they are missing. What the server does not
    /// promise is logged as warnings. The address takes one option: `?replicas=N`, how many servers keep each stream
    /// that is made (default: 3 in a cluster of servers, else 1).
    ///
    /// # Errors
    /// [`StoreError::Unusable`] for a wrong address or password, a server that is too old or has no JetStream, streams
    /// that are kept in memory or by fewer servers than asked for, and a layout of a newer version;
    /// [`StoreError::Unavailable`] when there is no answer in time. Both name the address, without the password.
    pub async fn open(
        url: &ServerUrl,
        cluster: &ClusterId,
        options: NatsOptions,
    ) -> Result<Self, StoreError> {
        let connector = Arc::new(Connector::new(url, &options)?);
        let link = |own: &str| Arc::new(Link::new(Arc::clone(&connector), own, options.queue_operations_max));
        let (membership, rest) = (link("membership"), link("store"));
        let (replicas, warnings) = server::check(&rest, &connector).await?;
        let bucket = |link: &Arc<Link>, name: &str| Bucket::new(Arc::clone(link), cluster, name);
        let buckets = ["membership", "state", "deployments", "pieces"].map(|name| bucket(&rest, name));
        for bucket in &buckets {
            bucket.make(replicas).await?;
        }
        bucket(&rest, "membership").check_layout().await?;
        for warning in &warnings {
            tracing::warn!("{url}: {warning}");
        }
        let [_, state, deployments, pieces] = buckets;
        let inner = Inner {
            table: Table::new(bucket(&membership, "membership")),
            state,
            documents: Documents::new(deployments),
            pieces: Pieces::new(pieces),
            timeout: options.timeout,
            blob_timeout: options.blob_timeout,
            warnings,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the server does not promise, for people.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }
}

impl Inner {
    /// Bounds an operation of several requests as a whole.
    async fn within<T>(
        &self,
        limit: (Duration, &str),
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(limit.0, operation).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.state.link().no_answer(limit.0, limit.1)),
        }
    }

    async fn bounded<T>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.within((self.timeout, "timeout"), operation).await
    }

    async fn bounded_state<T>(
        &self,
        operation: impl Future<Output = Result<T, StateError>>,
    ) -> Result<T, StateError> {
        match self.bounded(async { Ok(operation.await) }).await {
            Ok(outcome) => outcome,
            Err(err) => Err(state::unavailable(err)),
        }
    }
}

impl MembershipTable for NatsStore {
    fn read(&self) -> BoxFuture<'_, Result<TableSnapshot, StoreError>> {
        Box::pin(self.inner.bounded(self.inner.table.read()))
    }

    fn insert(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.bounded(self.inner.table.insert(row, expected_version)))
    }

    fn update(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.bounded(self.inner.table.update(row, expected_version)))
    }

    fn renew(&self, address: SiloAddress) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.inner.bounded(self.inner.table.renew(address)))
    }

    fn remove_dead(&self, addresses: Vec<SiloAddress>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.inner.bounded(self.inner.table.remove_dead(addresses)))
    }
}

impl GrainStateStore for NatsStore {
    fn read(
        &self,
        grain: GrainId,
        name: String,
        fence: u64,
    ) -> BoxFuture<'_, Result<Option<StateValue>, StateError>> {
        let Inner { state, pieces, .. } = &*self.inner;
        Box::pin(self.inner.bounded_state(state::read(state, pieces, grain, name, fence)))
    }

    fn write(
        &self,
        grain: GrainId,
        name: String,
        value: Vec<u8>,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<String, StateError>> {
        let Inner { state, pieces, .. } = &*self.inner;
        Box::pin(self.inner.bounded_state(state::write(state, pieces, (grain, name), value, expected, fence)))
    }

    fn clear(
        &self,
        grain: GrainId,
        name: String,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<(), StateError>> {
        let Inner { state, pieces, .. } = &*self.inner;
        Box::pin(self.inner.bounded_state(state::clear(state, pieces, (grain, name), expected, fence)))
    }
}

impl DeploymentStore for NatsStore {
    fn read(&self) -> BoxFuture<'_, Result<(u64, Vec<DeploymentRecord>), StoreError>> {
        Box::pin(self.inner.bounded(self.inner.documents.deployments()))
    }

    fn put(
        &self,
        record: DeploymentRecord,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.bounded(self.inner.documents.put(record, expected_version)))
    }

    fn remove(
        &self,
        grain_type: String,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.bounded(self.inner.documents.remove(grain_type, expected_version)))
    }
}

impl QuarantineStore for NatsStore {
    fn read(&self) -> BoxFuture<'_, Result<(u64, QuarantineTable), StoreError>> {
        Box::pin(self.inner.bounded(self.inner.documents.quarantine()))
    }

    fn replace(
        &self,
        table: QuarantineTable,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.inner.bounded(self.inner.documents.replace(table, expected_version)))
    }
}

impl BlobStore for NatsStore {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        let limit = (self.inner.blob_timeout, "blob timeout");
        Box::pin(self.inner.within(limit, blobs::put(&self.inner.pieces, bytes)))
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        let limit = (self.inner.blob_timeout, "blob timeout");
        Box::pin(self.inner.within(limit, blobs::get(&self.inner.pieces, digest)))
    }
}

/// A number that no other write has: what tells an own write from another's.
fn random_id() -> String {
    // A generator that fails yields zero; the revision beside the id still keeps an etag from coming back.
    format!("{:016x}", getrandom::u64().unwrap_or_default())
}
