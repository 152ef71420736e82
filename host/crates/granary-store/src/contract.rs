//! The suite that every engine passes. Each function wants a store that is empty, and panics where the store
//! breaks a promise.

mod adapter;
mod faults;
mod membership;
mod state;

use std::sync::Arc;

use granary_core::id::Digest;
use granary_core::membership::table::CasOutcome;
use granary_core::quarantine::{Death, QuarantineTable, Quarantined};

use crate::{BlobStore, DeploymentRecord, DeploymentStore, QuarantineStore};

pub use adapter::Adapter;
pub use faults::{ends_in_time, interrupted, lost_acknowledgements, stale_reads};
pub use membership::membership_table;
pub use state::grain_state;

#[expect(clippy::panic, reason = "a contract suite reports by panicking")]
fn fail(why: &str) -> ! {
    panic!("{why}")
}

/// A row as a silo that joins would write it.
#[must_use]
pub fn some_row() -> granary_core::membership::table::MembershipRow {
    membership::row(1)
}

fn record(grain_type: &str, revision: u64) -> DeploymentRecord {
    DeploymentRecord {
        grain_type: grain_type.to_owned(),
        digest: Digest::of(grain_type.as_bytes()),
        bytes: 12_345,
        name: format!("{grain_type}.wasm"),
        revision,
        properties: r#"{"placement-strategy":"random"}"#.to_owned(),
        deployed_at: 1_800_000_000,
        grants: if revision > 1 { r#"{"env":{"A":"b"}}"#.to_owned() } else { String::new() },
    }
}

/// The deployments: a versioned table.
///
/// # Panics
/// When the store breaks the contract.
pub async fn deployments(store: Arc<dyn DeploymentStore>) {
    assert_eq!(store.read().await, Ok((0, vec![])), "a new store is empty");
    assert_eq!(store.put(record("counter", 1), 1).await, Ok(CasOutcome::Conflict), "a future version");
    assert_eq!(store.put(record("counter", 1), 0).await, Ok(CasOutcome::Written { version: 1 }));
    assert_eq!(store.put(record("account", 1), 0).await, Ok(CasOutcome::Conflict), "a stale version");
    assert_eq!(store.put(record("account", 1), 1).await, Ok(CasOutcome::Written { version: 2 }));
    assert_eq!(store.put(record("counter", 2), 2).await, Ok(CasOutcome::Written { version: 3 }));
    assert_eq!(
        store.read().await,
        Ok((3, vec![record("account", 1), record("counter", 2)])),
        "records are complete, replaced by type, and in order"
    );
    assert_eq!(store.remove("account".to_owned(), 2).await, Ok(CasOutcome::Conflict), "a stale version");
    assert_eq!(store.remove("account".to_owned(), 3).await, Ok(CasOutcome::Written { version: 4 }));
    assert_eq!(store.read().await, Ok((4, vec![record("counter", 2)])));

    let rounds = 10;
    for round in 0..rounds {
        let writers: Vec<_> = (0..10)
            .map(|writer| {
                let store = Arc::clone(&store);
                let record = record(&format!("type-{writer}"), round);
                tokio::spawn(async move { store.put(record, 4 + round).await })
            })
            .collect();
        let mut won = 0;
        for writer in writers {
            won += usize::from(writer.await.ok() == Some(Ok(CasOutcome::Written { version: 5 + round })));
        }
        assert_eq!(won, 1, "exactly one of ten concurrent deploys wins");
    }
}

/// The quarantine: a versioned table, replaced as a whole.
///
/// # Panics
/// When the store breaks the contract.
pub async fn quarantine(store: Arc<dyn QuarantineStore>) {
    let death = |generation: i32| Death {
        digest: Digest::of(b"component"),
        silo: "silo-1".to_owned(),
        generation,
        cause: "SIGSEGV".to_owned(),
        at_s: 1_800_000_000,
        forgiven: generation % 2 == 0,
    };
    let entry = Quarantined {
        digest: Digest::of(b"component"),
        since_s: 1_800_000_001,
        reason: "silos ended in its turns".to_owned(),
    };
    // Not in the order of their generations: the order of reports is kept.
    let table = QuarantineTable { deaths: vec![death(2), death(1), death(3)], quarantined: vec![entry] };
    assert_eq!(store.read().await, Ok((0, QuarantineTable::default())), "a new store is empty");
    assert_eq!(store.replace(table.clone(), 1).await, Ok(CasOutcome::Conflict), "a future version");
    assert_eq!(store.replace(table.clone(), 0).await, Ok(CasOutcome::Written { version: 1 }));
    assert_eq!(store.read().await, Ok((1, table.clone())), "it comes back complete and in order");
    assert_eq!(
        store.replace(QuarantineTable::default(), 0).await,
        Ok(CasOutcome::Conflict),
        "a stale version"
    );
    assert_eq!(store.read().await, Ok((1, table)), "a conflict changes nothing");
    assert_eq!(store.replace(QuarantineTable::default(), 1).await, Ok(CasOutcome::Written { version: 2 }));
    assert_eq!(store.read().await, Ok((2, QuarantineTable::default())), "the whole table is replaced");
}

/// Blobs by digest.
///
/// # Panics
/// When the store breaks the contract.
pub async fn blobs(store: Arc<dyn BlobStore>) {
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[2]).collect();
    for bytes in [vec![], b"component".to_vec(), large] {
        let digest = Digest::of(&bytes);
        assert_eq!(store.get(digest).await, Ok(None), "nothing is there before");
        assert_eq!(store.put(bytes.clone()).await, Ok(digest), "the digest is SHA-256 of the bytes");
        assert_eq!(store.put(bytes.clone()).await, Ok(digest), "the same bytes again are fine");
        assert_eq!(store.get(digest).await, Ok(Some(bytes)), "the bytes come back");
    }
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.put(b"the same from many".to_vec()).await })
        })
        .collect();
    for writer in writers {
        assert_eq!(writer.await.ok(), Some(Ok(Digest::of(b"the same from many"))));
    }
    assert_eq!(store.get(Digest::of(b"the same from many")).await, Ok(Some(b"the same from many".to_vec())));
}
