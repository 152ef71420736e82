//! Small versioned tables, each one key that holds the whole as JSON: deployments and quarantine.

use granary_core::id::Digest;
use granary_core::membership::table::CasOutcome;
use granary_core::quarantine::QuarantineTable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::bucket::Bucket;
use super::link::Published;
use crate::{DeploymentRecord, StoreError};

const DEPLOYMENTS: &str = "deployments";
const QUARANTINE: &str = "quarantine";

/// The tables in the bucket `deployments`.
#[derive(Debug)]
pub(super) struct Documents {
    bucket: Bucket,
}

/// A table with its version, which counts the changes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Versioned<T> {
    version: u64,
    content: T,
}

/// A deployment as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    grain_type: String,
    digest: Digest,
    bytes: u64,
    name: String,
    revision: u64,
    properties: String,
    deployed_at: u64,
    grants: String,
}

impl Documents {
    pub(super) fn new(bucket: Bucket) -> Self {
        Self { bucket }
    }

    pub(super) async fn deployments(&self) -> Result<(u64, Vec<DeploymentRecord>), StoreError> {
        let (_, found) = self.read::<Vec<Record>>(DEPLOYMENTS).await?;
        Ok((found.version, found.content.into_iter().map(Record::into_deployment).collect()))
    }

    pub(super) async fn put(
        &self,
        record: DeploymentRecord,
        expected_version: u64,
    ) -> Result<CasOutcome, StoreError> {
        self.change(DEPLOYMENTS, expected_version, |records: &mut Vec<Record>| {
            records.retain(|stored| stored.grain_type != record.grain_type);
            let place = records.partition_point(|stored| stored.grain_type < record.grain_type);
            records.insert(place, Record::from_deployment(record));
        })
        .await
    }

    pub(super) async fn remove(
        &self,
        grain_type: String,
        expected_version: u64,
    ) -> Result<CasOutcome, StoreError> {
        self.change(DEPLOYMENTS, expected_version, |records: &mut Vec<Record>| {
            records.retain(|stored| stored.grain_type != grain_type);
        })
        .await
    }

    pub(super) async fn quarantine(&self) -> Result<(u64, QuarantineTable), StoreError> {
        let (_, found) = self.read(QUARANTINE).await?;
        Ok((found.version, found.content))
    }

    pub(super) async fn replace(
        &self,
        table: QuarantineTable,
        expected_version: u64,
    ) -> Result<CasOutcome, StoreError> {
        self.change(QUARANTINE, expected_version, |stored| *stored = table).await
    }

    /// The table and the revision of its key.
    async fn read<T: DeserializeOwned + Default>(
        &self,
        key: &str,
    ) -> Result<(u64, Versioned<T>), StoreError> {
        let Some(stored) = self.bucket.last(key).await? else { return Ok((0, Versioned::default())) };
        let found = serde_json::from_slice(&stored.body).map_err(|err| self.bucket.malformed(key, &err))?;
        Ok((stored.sequence, found))
    }

    async fn change<T: DeserializeOwned + Default + Serialize>(
        &self,
        key: &str,
        expected_version: u64,
        change: impl FnOnce(&mut T),
    ) -> Result<CasOutcome, StoreError> {
        let (revision, mut found) = self.read::<T>(key).await?;
        if found.version != expected_version {
            return Ok(CasOutcome::Conflict);
        }
        change(&mut found.content);
        found.version += 1;
        let body = serde_json::to_vec(&found).map_err(|err| self.bucket.malformed(key, &err))?;
        Ok(match self.bucket.publish(key, body, revision).await? {
            Published::At(_) => CasOutcome::Written { version: found.version },
            Published::Conflict => CasOutcome::Conflict,
        })
    }
}

impl Record {
    fn from_deployment(record: DeploymentRecord) -> Self {
        let DeploymentRecord { grain_type, digest, bytes, name, revision, properties, deployed_at, grants } =
            record;
        Self { grain_type, digest, bytes, name, revision, properties, deployed_at, grants }
    }

    fn into_deployment(self) -> DeploymentRecord {
        let Self { grain_type, digest, bytes, name, revision, properties, deployed_at, grants } = self;
        DeploymentRecord { grain_type, digest, bytes, name, revision, properties, deployed_at, grants }
    }
}
