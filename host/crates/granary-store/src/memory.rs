//! The engine for tests: everything in the memory of one process, with the semantics of the durable engines.
//!
//! Clones share their content, as several silos share one store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use granary_core::hosting::{BoxFuture, StateError, StateValue};
use granary_core::id::{Digest, GrainId, SiloAddress};
use granary_core::membership::table::{CasOutcome, MembershipRow, SiloStatus, TableSnapshot};
use granary_core::quarantine::QuarantineTable;

use crate::{
    BlobStore, DeploymentRecord, DeploymentStore, GrainStateStore, MembershipTable, QuarantineStore,
    StoreError, check_blob_size, check_state_size,
};

/// A store in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Default)]
struct Content {
    table: TableSnapshot,
    state: BTreeMap<(GrainId, String), StateRow>,
    deployments_version: u64,
    deployments: BTreeMap<String, DeploymentRecord>,
    quarantine: (u64, QuarantineTable),
    blobs: BTreeMap<Digest, Vec<u8>>,
}

/// A row outlives its value: the fence must hold, and etags must not repeat.
#[derive(Debug, Default)]
struct StateRow {
    value: Option<StateValue>,
    revision: u64,
    fence: u64,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_state(&self, grain: GrainId, name: String, fence: u64) -> Result<Option<StateValue>, StateError> {
        check_state_size(&name, 0)?;
        let mut content = self.content();
        let row = content.state.entry((grain, name)).or_default();
        row.raise(fence)?;
        Ok(row.value.clone())
    }

    fn change_state(
        &self,
        key: (GrainId, String),
        value: Option<Vec<u8>>,
        expected: Option<String>,
        fence: u64,
    ) -> Result<String, StateError> {
        check_state_size(&key.1, value.as_ref().map_or(0, Vec::len))?;
        let mut content = self.content();
        let row = content.state.entry(key).or_default();
        row.raise(fence)?;
        let stored = row.value.as_ref().map(|value| value.etag.clone());
        if stored != expected {
            return Err(StateError::Conflict { stored });
        }
        row.revision += 1;
        let etag = row.revision.to_string();
        row.value = value.map(|value| StateValue { value, etag: etag.clone() });
        Ok(etag)
    }
}

impl StateRow {
    fn raise(&mut self, fence: u64) -> Result<(), StateError> {
        if self.fence > fence {
            return Err(StateError::Fenced);
        }
        self.fence = fence;
        Ok(())
    }
}

impl Content {
    fn insert_row(&mut self, mut row: MembershipRow, expected_version: u64) -> CasOutcome {
        if self.table.version != expected_version || self.table.rows.contains_key(&row.address) {
            return CasOutcome::Conflict;
        }
        self.table.version += 1;
        row.etag = self.table.version;
        self.table.rows.insert(row.address, row);
        CasOutcome::Written { version: self.table.version }
    }

    fn update_row(&mut self, row: MembershipRow, expected_version: u64) -> CasOutcome {
        let version = self.table.version;
        match self.table.rows.get_mut(&row.address) {
            Some(stored) if version == expected_version && stored.etag == row.etag => {
                let (etag, renewal) = (version + 1, stored.renewal);
                *stored = MembershipRow { etag, renewal, ..row };
                self.table.version = etag;
                CasOutcome::Written { version: etag }
            }
            _ => CasOutcome::Conflict,
        }
    }

    fn change_deployments(
        &mut self,
        expected_version: u64,
        change: impl FnOnce(&mut BTreeMap<String, DeploymentRecord>),
    ) -> CasOutcome {
        if self.deployments_version != expected_version {
            return CasOutcome::Conflict;
        }
        change(&mut self.deployments);
        self.deployments_version += 1;
        CasOutcome::Written { version: self.deployments_version }
    }
}

/// What is already done, as the traits want it.
fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl MembershipTable for MemoryStore {
    fn read(&self) -> BoxFuture<'_, Result<TableSnapshot, StoreError>> {
        ready(Ok(self.content().table.clone()))
    }

    fn insert(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        ready(Ok(self.content().insert_row(row, expected_version)))
    }

    fn update(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        ready(Ok(self.content().update_row(row, expected_version)))
    }

    fn renew(&self, address: SiloAddress) -> BoxFuture<'_, Result<bool, StoreError>> {
        let mut content = self.content();
        let live = content.table.rows.get_mut(&address).filter(|row| row.status != SiloStatus::Dead);
        ready(Ok(live.map(|row| row.renewal += 1).is_some()))
    }

    fn remove_dead(&self, addresses: Vec<SiloAddress>) -> BoxFuture<'_, Result<(), StoreError>> {
        let rows = &mut self.content().table.rows;
        rows.retain(|address, row| row.status != SiloStatus::Dead || !addresses.contains(address));
        ready(Ok(()))
    }
}

impl GrainStateStore for MemoryStore {
    fn read(
        &self,
        grain: GrainId,
        name: String,
        fence: u64,
    ) -> BoxFuture<'_, Result<Option<StateValue>, StateError>> {
        ready(self.read_state(grain, name, fence))
    }

    fn write(
        &self,
        grain: GrainId,
        name: String,
        value: Vec<u8>,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<String, StateError>> {
        ready(self.change_state((grain, name), Some(value), expected, fence))
    }

    fn clear(
        &self,
        grain: GrainId,
        name: String,
        expected: Option<String>,
        fence: u64,
    ) -> BoxFuture<'_, Result<(), StateError>> {
        ready(self.change_state((grain, name), None, expected, fence).map(drop))
    }
}

impl DeploymentStore for MemoryStore {
    fn read(&self) -> BoxFuture<'_, Result<(u64, Vec<DeploymentRecord>), StoreError>> {
        let content = self.content();
        ready(Ok((content.deployments_version, content.deployments.values().cloned().collect())))
    }

    fn put(
        &self,
        record: DeploymentRecord,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        let outcome = self.content().change_deployments(expected_version, |records| {
            records.insert(record.grain_type.clone(), record);
        });
        ready(Ok(outcome))
    }

    fn remove(
        &self,
        grain_type: String,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        let outcome = self.content().change_deployments(expected_version, |records| {
            records.remove(&grain_type);
        });
        ready(Ok(outcome))
    }
}

impl QuarantineStore for MemoryStore {
    fn read(&self) -> BoxFuture<'_, Result<(u64, QuarantineTable), StoreError>> {
        ready(Ok(self.content().quarantine.clone()))
    }

    fn replace(
        &self,
        table: QuarantineTable,
        expected_version: u64,
    ) -> BoxFuture<'_, Result<CasOutcome, StoreError>> {
        let mut content = self.content();
        let (version, _) = content.quarantine;
        if version != expected_version {
            return ready(Ok(CasOutcome::Conflict));
        }
        content.quarantine = (version + 1, table);
        ready(Ok(CasOutcome::Written { version: version + 1 }))
    }
}

impl BlobStore for MemoryStore {
    fn put(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        let stored = check_blob_size(bytes.len() as u64).map(|()| {
            let digest = Digest::of(&bytes);
            self.content().blobs.insert(digest, bytes);
            digest
        });
        ready(stored)
    }

    fn get(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        ready(Ok(self.content().blobs.get(&digest).cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[tokio::test]
    async fn the_membership_table_keeps_the_contract() {
        contract::membership_table(Arc::new(MemoryStore::new())).await;
    }

    #[tokio::test]
    async fn lost_acknowledgements_and_stale_reads_do_no_harm() {
        contract::lost_acknowledgements(Arc::new(MemoryStore::new())).await;
        contract::stale_reads(Arc::new(MemoryStore::new())).await;
    }

    #[tokio::test]
    async fn grain_state_keeps_the_contract() {
        contract::grain_state(Arc::new(MemoryStore::new())).await;
    }

    #[tokio::test]
    async fn deployments_keep_the_contract() {
        contract::deployments(Arc::new(MemoryStore::new())).await;
    }

    #[tokio::test]
    async fn the_quarantine_keeps_the_contract() {
        contract::quarantine(Arc::new(MemoryStore::new())).await;
    }

    #[tokio::test]
    async fn blobs_keep_the_contract() {
        contract::blobs(Arc::new(MemoryStore::new())).await;
    }
}
