//! The membership table: one key with rows and version, and a renewal key for each silo (decision B2).
//!
//! A renewal changes the silo's own key alone, so it must be certain that the silo is not dead without writing the
//! table. Whoever declares a silo dead therefore first *seals* its renewal key, with the revision of the table that
//! the death will rest on, and writes the table then, on that revision. A sealed key is not renewed: the silo finds
//! the seal, reads the table, and
//!
//! - finds itself dead or gone, and renews no more;
//! - finds a newer revision than the seal's in which it lives: the death came to nothing, and it breaks the seal;
//! - finds the seal's revision: the death may still come, and is given a moment to. Then the silo writes the table once
//!   more, unchanged, after which no death can rest on the sealed revision, and breaks the seal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use granary_core::id::SiloAddress;
use granary_core::membership::table::{CasOutcome, MembershipRow, SiloStatus, TableSnapshot};
use serde::{Deserialize, Serialize};

use super::bucket::Bucket;
use super::link::Published;
use crate::StoreError;

const TABLE: &str = "table";

/// How often an operation starts anew whose keys were changed by another that did not stand in its way.
const ATTEMPTS_MAX: usize = 8;

/// How often sealing starts anew because the silo renewed meanwhile, which it does about once a second.
const SEAL_ATTEMPTS_MAX: usize = 32;

/// How long a silo that finds a seal waits for the death to come before it breaks the seal.
const DEATH_AWAITED: Duration = Duration::from_millis(100);

/// How many renewal keys are read at the same time.
const READS_IN_FLIGHT: usize = 16;

/// Renewals that are remembered; a silo renews only its own.
const REMEMBERED_MAX: usize = 16;

/// The table of a cluster.
#[derive(Debug)]
pub(super) struct Table {
    bucket: Bucket,
    /// The renewals that were written last, with the revisions of their keys: the next one needs no read.
    remembered: Mutex<BTreeMap<SiloAddress, (u64, u64)>>,
}

/// What stands in the key `table`. The rows' own renewals are of no meaning there.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Document {
    version: u64,
    rows: Vec<MembershipRow>,
}

/// What stands in a renewal key.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Renewal {
    count: u64,
    /// The revision of the table that a death rests on, if it comes.
    sealed_at: Option<u64>,
}

impl Document {
    fn row(&self, address: SiloAddress) -> Option<&MembershipRow> {
        self.rows.iter().find(|row| row.address == address)
    }
}

impl Table {
    pub(super) fn new(bucket: Bucket) -> Self {
        Self { bucket, remembered: Mutex::default() }
    }

    pub(super) async fn read(&self) -> Result<TableSnapshot, StoreError> {
        let (_, document) = self.document().await?;
        // Renewals change neither rows nor version, so they may be newer.
        let rows = stream::iter(document.rows)
            .map(|row| async move {
                let (_, renewal) = self.renewal(row.address).await?;
                Ok((row.address, MembershipRow { renewal: renewal.unwrap_or_default().count, ..row }))
            })
            .buffer_unordered(READS_IN_FLIGHT)
            .try_collect()
            .await?;
        Ok(TableSnapshot { version: document.version, rows })
    }

    pub(super) async fn insert(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> Result<CasOutcome, StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            let (revision, mut document) = self.document().await?;
            if document.version != expected_version || document.row(row.address).is_some() {
                return Ok(CasOutcome::Conflict);
            }
            // Before the row, so that a row has one; the same silo may try again and find it there.
            self.publish_renewal(row.address, Renewal::default(), 0).await?;
            document.version += 1;
            document.rows.push(MembershipRow { etag: document.version, ..row.clone() });
            if let Published::At(_) = self.publish(&document, revision).await? {
                return Ok(CasOutcome::Written { version: document.version });
            }
        }
        Err(self.changed_too_often())
    }

    pub(super) async fn update(
        &self,
        row: MembershipRow,
        expected_version: u64,
    ) -> Result<CasOutcome, StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            let (revision, mut document) = self.document().await?;
            let next = document.version + 1;
            let stored = document.rows.iter_mut().find(|stored| stored.address == row.address);
            let Some(stored) = stored.filter(|stored| stored.etag == row.etag) else {
                return Ok(CasOutcome::Conflict);
            };
            if document.version != expected_version {
                return Ok(CasOutcome::Conflict);
            }
            if row.status == SiloStatus::Dead && stored.status != SiloStatus::Dead {
                self.seal(row.address, revision).await?;
            }
            *stored = MembershipRow { etag: next, ..row.clone() };
            document.version = next;
            if let Published::At(_) = self.publish(&document, revision).await? {
                return Ok(CasOutcome::Written { version: next });
            }
        }
        Err(self.changed_too_often())
    }

    pub(super) async fn renew(&self, address: SiloAddress) -> Result<bool, StoreError> {
        if let Some((revision, count)) = self.take_remembered(address)
            && self.count_up(address, count, revision).await?
        {
            return Ok(true);
        }
        let mut awaited = None;
        for _ in 0..ATTEMPTS_MAX {
            let (revision, renewal) = self.renewal(address).await?;
            let Some(renewal) = renewal else { return Ok(false) };
            // After the renewal key: a death that is not in the table by now finds the key as it was read.
            let (table_revision, document) = self.document().await?;
            if document.row(address).is_none_or(|row| row.status == SiloStatus::Dead) {
                return Ok(false);
            }
            if renewal.sealed_at == Some(table_revision) && awaited != renewal.sealed_at {
                awaited = renewal.sealed_at;
                tokio::time::sleep(DEATH_AWAITED).await;
                continue;
            }
            if renewal.sealed_at == Some(table_revision)
                && self.publish(&document, table_revision).await? == Published::Conflict
            {
                continue;
            }
            if self.count_up(address, renewal.count, revision).await? {
                return Ok(true);
            }
        }
        Err(self.changed_too_often())
    }

    pub(super) async fn remove_dead(&self, addresses: Vec<SiloAddress>) -> Result<(), StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            let (revision, mut document) = self.document().await?;
            let is_removed =
                |row: &MembershipRow| row.status == SiloStatus::Dead && addresses.contains(&row.address);
            let removed: Vec<SiloAddress> =
                document.rows.iter().filter(|row| is_removed(row)).map(|row| row.address).collect();
            if removed.is_empty() {
                return Ok(());
            }
            document.rows.retain(|row| !is_removed(row));
            if self.publish(&document, revision).await? == Published::Conflict {
                continue;
            }
            for address in removed {
                // Without its row a key means nothing; what is left of it takes room, and no more.
                self.bucket.purge(&renewal_key(address), None).await?;
            }
            return Ok(());
        }
        Err(self.changed_too_often())
    }

    /// Keeps the silo from renewing unnoticed while its death is written on a revision of the table.
    async fn seal(&self, address: SiloAddress, table_revision: u64) -> Result<(), StoreError> {
        for _ in 0..SEAL_ATTEMPTS_MAX {
            let (revision, renewal) = self.renewal(address).await?;
            let sealed = Renewal { sealed_at: Some(table_revision), ..renewal.unwrap_or_default() };
            if let Published::At(_) = self.publish_renewal(address, sealed, revision).await? {
                return Ok(());
            }
        }
        Err(self.changed_too_often())
    }

    /// The first half of a death; returns the revision that it rests on.
    #[cfg(test)]
    pub(super) async fn seal_for_test(&self, address: SiloAddress) -> u64 {
        let (revision, _) = self.document().await.unwrap();
        self.seal(address, revision).await.unwrap();
        revision
    }

    /// The second half of a death, on an earlier revision; whether it was written.
    #[cfg(test)]
    pub(super) async fn kill_at_for_test(&self, dead: MembershipRow, revision: u64) -> bool {
        let document = Document { version: dead.etag + 1, rows: vec![dead] };
        self.publish(&document, revision).await.unwrap() != Published::Conflict
    }

    /// Whether the renewal was written: its key was as it was read.
    async fn count_up(&self, address: SiloAddress, count: u64, revision: u64) -> Result<bool, StoreError> {
        let renewal = Renewal { count: count + 1, sealed_at: None };
        match self.publish_renewal(address, renewal, revision).await? {
            Published::At(revision) => {
                self.remember(address, revision, renewal.count);
                Ok(true)
            }
            Published::Conflict => Ok(false),
        }
    }

    /// Taken out, so that a renewal of unknown outcome is followed by a read.
    fn take_remembered(&self, address: SiloAddress) -> Option<(u64, u64)> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).remove(&address)
    }

    fn remember(&self, address: SiloAddress, revision: u64, count: u64) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(address, (revision, count));
    }

    async fn document(&self) -> Result<(u64, Document), StoreError> {
        let Some(stored) = self.bucket.last(TABLE).await? else { return Ok((0, Document::default())) };
        let document =
            serde_json::from_slice(&stored.body).map_err(|err| self.bucket.malformed(TABLE, &err))?;
        Ok((stored.sequence, document))
    }

    async fn publish(&self, document: &Document, expected: u64) -> Result<Published, StoreError> {
        let body = serde_json::to_vec(document).map_err(|err| self.bucket.malformed(TABLE, &err))?;
        self.bucket.publish(TABLE, body, expected).await
    }

    /// The silo's renewal and the revision of its key, 0 where there is none.
    async fn renewal(&self, address: SiloAddress) -> Result<(u64, Option<Renewal>), StoreError> {
        let key = renewal_key(address);
        let Some(stored) = self.bucket.last(&key).await? else { return Ok((0, None)) };
        let renewal =
            serde_json::from_slice(&stored.body).map_err(|err| self.bucket.malformed(&key, &err))?;
        Ok((stored.sequence, Some(renewal)))
    }

    async fn publish_renewal(
        &self,
        address: SiloAddress,
        renewal: Renewal,
        expected: u64,
    ) -> Result<Published, StoreError> {
        let key = renewal_key(address);
        let body = serde_json::to_vec(&renewal).map_err(|err| self.bucket.malformed(&key, &err))?;
        self.bucket.publish(&key, body, expected).await
    }

    fn changed_too_often(&self) -> StoreError {
        self.bucket
            .link()
            .unavailable(&format!("the membership table changed {ATTEMPTS_MAX} times meanwhile"))
    }
}

/// The address in letters that may stand in a key: `127.0.0.1:11111@5` is `renewal.127-0-0-1_11111=5`.
fn renewal_key(address: SiloAddress) -> String {
    let text: String = address
        .to_string()
        .chars()
        .map(|letter| match letter {
            '.' => '-',
            ':' => '_',
            letter if letter.is_ascii_alphanumeric() || letter == '-' => letter,
            _ => '=',
        })
        .collect();
    format!("renewal.{text}")
}
