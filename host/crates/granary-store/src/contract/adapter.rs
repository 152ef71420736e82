//! A store in front of stores, for what networks do: calls are spread over them, acknowledgements are lost after the
//! write was applied, and reads give what was read before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use granary_core::hosting::{BoxFuture, StateError, StateValue};
use granary_core::id::{Digest, GrainId, SiloAddress};
use granary_core::membership::table::{CasOutcome, MembershipRow, TableSnapshot};
use granary_core::quarantine::QuarantineTable;

use crate::{
    BlobStore, DeploymentRecord, DeploymentStore, GrainStateStore, MembershipTable, QuarantineStore, Store,
    StoreError,
};

/// What an adapter tells where the acknowledgement is lost.
pub(super) const LOST: &str = "the acknowledgement was lost";

/// Passes each operation to the next of its stores, and plants faults on the way back.
pub struct Adapter {
    stores: Vec<Arc<dyn Store>>,
    turn: AtomicUsize,
    writes: AtomicUsize,
    reads: AtomicUsize,
    lose_each: Option<usize>,
    stale_each: Option<usize>,
    before: Mutex<Before>,
}

/// What was read before.
#[derive(Default)]
struct Before {
    table: Option<TableSnapshot>,
    deployments: Option<(u64, Vec<DeploymentRecord>)>,
    state: Option<(GrainId, Option<StateValue>)>,
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapter").field("stores", &self.stores.len()).finish_non_exhaustive()
    }
}

impl Adapter {
    /// Takes the stores in turn, as processes that share what is behind them.
    #[must_use]
    pub fn alternating(stores: Vec<Arc<dyn Store>>) -> Self {
        let (turn, writes, reads) = Default::default();
        Self { stores, turn, writes, reads, lose_each: None, stale_each: None, before: Mutex::default() }
    }

    /// Each `each`th write is applied and then reported as unavailable.
    #[must_use]
    pub fn losing_acknowledgements(store: Arc<dyn Store>, each: usize) -> Self {
        Self { lose_each: Some(each), ..Self::alternating(vec![store]) }
    }

    /// Each `each`th read gives what the read before it gave.
    #[must_use]
    pub fn with_stale_reads(store: Arc<dyn Store>, each: usize) -> Self {
        Self { stale_each: Some(each), ..Self::alternating(vec![store]) }
    }

    fn store(&self) -> &dyn Store {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.stores.len().max(1);
        match self.stores.get(turn) {
            Some(store) => store.as_ref(),
            None => super::fail("an adapter needs a store"),
        }
    }

    async fn written<T, E>(
        &self,
        operation: BoxFuture<'_, Result<T, E>>,
        lost: impl FnOnce(String) -> E,
    ) -> Result<T, E> {
        let outcome = operation.await;
        let count = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        match self.lose_each {
            Some(each) if outcome.is_ok() && count.is_multiple_of(each) => Err(lost(LOST.to_owned())),
            _ => outcome,
        }
    }

    /// The fresh value, or the one before it; the fresh one is kept either way.
    fn seen<T: Clone>(&self, fresh: T, before: impl FnOnce(&mut Before) -> Option<T>) -> T {
        let count = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        let before = before(&mut self.before.lock().unwrap_or_else(PoisonError::into_inner));
        match (self.stale_each, before) {
            (Some(each), Some(before)) if count.is_multiple_of(each) => before,
            _ => fresh,
        }
    }
}

impl MembershipTable for Adapter {
    fn read(&self) -> BoxFuture<'_, Result<TableSnapshot, StoreError>> {
        Box::pin(async {
            let fresh = MembershipTable::read(self.store()).await?;
            Ok(self.seen(fresh.clone(), |before| before.table.replace(fresh)))
        })
    }

    fn insert(&self, row: MembershipRow, version: u64) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.written(self.store().insert(row, version), StoreError::Unavailable))
    }

    fn update(&self, row: MembershipRow, version: u64) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.written(self.store().update(row, version), StoreError::Unavailable))
    }

    fn renew(&self, address: SiloAddress) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.written(self.store().renew(address), StoreError::Unavailable))
    }

    fn remove_dead(&self, addresses: Vec<SiloAddress>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.written(self.store().remove_dead(addresses), StoreError::Unavailable))
    }
}

impl GrainStateStore for Adapter {
    fn read(
        &self,
        grain: GrainId,
        name: String,
        fence: u64,
    ) -> BoxFuture<'_, Result<Option<StateValue>, StateError>> {
        Box::pin(async move {
            let fresh = GrainStateStore::read(self.store(), grain.clone(), name, fence).await?;
            let kept = (grain.clone(), fresh.clone());
            Ok(self.seen(fresh, |before| {
                before.state.replace(kept).filter(|(of, _)| *of == grain).map(|(_, value)| value)
            }))
        })
    }

    fn write(
        &self,
        grain: GrainId,
        name: String,
        value: Vec<u8>,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<String, StateError>> {
        let operation = self.store().write(grain, name, value, expected, fence);
        Box::pin(self.written(operation, StateError::Unavailable))
    }

    fn clear(
        &self,
        grain: GrainId,
        name: String,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<(), StateError>> {
        let operation = self.store().clear(grain, name, expected, fence);
        Box::pin(self.written(operation, StateError::Unavailable))
    }
}

impl DeploymentStore for Adapter {
    fn read(&self) -> BoxFuture<'_, Result<(u64, Vec<DeploymentRecord>), StoreError>> {
        Box::pin(async {
            let fresh = DeploymentStore::read(self.store()).await?;
            Ok(self.seen(fresh.clone(), |before| before.deployments.replace(fresh)))
        })
    }

    fn put(&self, record: DeploymentRecord, version: u64) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.written(DeploymentStore::put(self.store(), record, version), StoreError::Unavailable))
    }

    fn remove(&self, grain_type: String, version: u64) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.written(self.store().remove(grain_type, version), StoreError::Unavailable))
    }
}

impl QuarantineStore for Adapter {
    fn read(&self) -> BoxFuture<'_, Result<(u64, QuarantineTable), StoreError>> {
        QuarantineStore::read(self.store())
    }

    fn replace(&self, table: QuarantineTable, version: u64) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        Box::pin(self.written(self.store().replace(table, version), StoreError::Unavailable))
    }
}

impl BlobStore for Adapter {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        Box::pin(self.written(BlobStore::put(self.store(), bytes), StoreError::Unavailable))
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        self.store().get(digest)
    }
}
