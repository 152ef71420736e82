//! The contract under faults: writers that never know less than the store promises, and count to the end.
//!
//! Each writer owns one row and gives each of its writes an id of its own. A write whose outcome is unknown is
//! resolved by reading that row, never by a blind repetition: a repetition is conditional on the same etag, so at
//! most one of the two is applied.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use granary_core::hosting::{BoxFuture, StateError};
use granary_core::membership::table::{CasOutcome, MembershipRow};
use tokio::time::Instant;

use super::adapter::{Adapter, LOST};
use super::{fail, membership, state};
use crate::{DeploymentStore, GrainStateStore, MembershipTable, Store, StoreError};

/// Writers at the same time.
const WRITERS: u16 = 4;

/// How long a store may stay unavailable before a writer counts as stuck.
const AVAILABLE_WITHIN: Duration = Duration::from_secs(60);

/// Acknowledgements that are lost after the write was applied, on an empty store.
///
/// # Panics
/// When a write is lost, or applied twice.
pub async fn lost_acknowledgements(store: Arc<dyn Store>) {
    let losing: Arc<dyn Store> = Arc::new(Adapter::losing_acknowledgements(Arc::clone(&store), 3));
    let applied = table_writers(&losing, 25).await;
    assert_eq!(applied, usize::from(WRITERS) * 25);
    state_writers(&losing, 25).await;
    a_lost_deploy_is_found(&losing, &store).await;
}

/// Reads that give what was there before, on an empty store.
///
/// # Panics
/// When a write that rests on them overwrites another.
pub async fn stale_reads(store: Arc<dyn Store>) {
    let stale: Arc<dyn Store> = Arc::new(Adapter::with_stale_reads(store, 3));
    table_writers(&stale, 25).await;
    state_writers(&stale, 25).await;
}

/// Writers that go on while `disturb` stops, pauses and restarts what is behind the store; an empty store.
///
/// # Panics
/// When an acknowledged write is lost, or a write is applied twice, or the store does not come back.
pub async fn interrupted(store: Arc<dyn Store>, disturb: impl Future<Output = ()>) {
    let writers = async {
        let applied = table_writers(&store, 250).await;
        assert_eq!(applied, usize::from(WRITERS) * 250);
        state_writers(&store, 100).await;
    };
    tokio::join!(writers, disturb);
}

/// Every operation ends in time while what is behind the store stands still, with an error that says where.
///
/// # Panics
/// When one does not.
pub async fn ends_in_time(store: Arc<dyn Store>, within: Duration, address: &str, password: &str) {
    let started = Instant::now();
    let row = membership::row(7);
    let record = super::record("counter", 1);
    let failures = tokio::join!(
        async { store_failure(MembershipTable::read(&*store).await) },
        async { store_failure(store.insert(row.clone(), 0).await) },
        async { store_failure(store.update(row.clone(), 0).await) },
        async { store_failure(store.renew(row.address).await) },
        async { store_failure(store.remove_dead(vec![row.address]).await) },
        async { store_failure(DeploymentStore::read(&*store).await) },
        async { store_failure(DeploymentStore::put(&*store, record, 0).await) },
        async { store_failure(store.remove("counter".to_owned(), 0).await) },
        async { store_failure(crate::QuarantineStore::read(&*store).await) },
        async { store_failure(store.get(granary_core::id::Digest::of(b"x")).await) },
        async { store_failure(crate::BlobStore::put(&*store, b"x".to_vec()).await) },
        async { state_failure(GrainStateStore::read(&*store, state::grain("a"), "s".to_owned(), 1).await) },
        async { state_failure(store.write(state::grain("a"), "s".to_owned(), b"x".to_vec(), None, 1).await) },
    );
    let took = started.elapsed();
    assert!(took <= within, "the operations took {took:?}, at most {within:?} are allowed");
    let failures = [
        failures.0,
        failures.1,
        failures.2,
        failures.3,
        failures.4,
        failures.5,
        failures.6,
        failures.7,
        failures.8,
        failures.9,
        failures.10,
        failures.11,
        failures.12,
    ];
    for why in failures {
        assert!(why.contains(address), "the error should name {address}: {why}");
        assert!(why.contains("within") && why.contains("timeout"), "the error should name the limit: {why}");
        assert!(!why.contains(password), "the error shows the password");
    }
}

fn store_failure<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(StoreError::Unavailable(why)) => why,
        other => fail(&format!("the store stands still, and answered {other:?}")),
    }
}

fn state_failure<T: std::fmt::Debug>(outcome: Result<T, StateError>) -> String {
    match outcome {
        Err(StateError::Unavailable(why)) => why,
        other => fail(&format!("the store stands still, and answered {other:?}")),
    }
}

/// Repeats a read until the store is there.
async fn until_available<'a, T, E: std::fmt::Display>(
    mut read: impl FnMut() -> BoxFuture<'a, Result<T, E>>,
) -> T {
    let started = Instant::now();
    loop {
        match read().await {
            Ok(value) => return value,
            Err(error) if started.elapsed() > AVAILABLE_WITHIN => {
                fail(&format!("the store is not back within {AVAILABLE_WITHIN:?}: {error}"))
            }
            // A refused connection answers at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Each writer changes its own row `count` times; returns how many changes were applied, after checking that each
/// counted the version up once.
async fn table_writers(store: &Arc<dyn Store>, count: u32) -> usize {
    let base = until_available(|| MembershipTable::read(&**store)).await.version;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(table_writer(Arc::clone(store), 1000 + writer, count)))
        .collect();
    let (mut versions, mut applied) = (BTreeSet::new(), 0);
    for writer in writers {
        let Ok((acknowledged, all)) = writer.await else { fail("a writer of the table panicked") };
        applied += all;
        for version in acknowledged {
            assert!(versions.insert(version), "version {version} was given to two writes");
        }
    }
    // A stale read would do here no harm to the store, but to this check.
    for _ in 0..3 {
        let _ = until_available(|| MembershipTable::read(&**store)).await;
    }
    let version = until_available(|| MembershipTable::read(&**store)).await.version;
    // The insertions are not counted by the writers.
    let expected = base + u64::from(WRITERS) + applied as u64;
    assert_eq!(version, expected, "every applied write counts the version up once");
    applied
}

/// Returns the versions that were acknowledged, and how many of its writes were applied.
async fn table_writer(store: Arc<dyn Store>, port: u16, count: u32) -> (Vec<u64>, usize) {
    let mut acknowledged = Vec::new();
    let row = membership::row(port);
    loop {
        let (version, found) = own_row(&store, &row).await;
        if found.is_some() {
            break;
        }
        let _ = store.insert(MembershipRow { process_id: 0, ..row.clone() }, version).await;
    }
    // The id of a write is the number that it stores.
    let (mut done, mut applied) = (0, 0);
    while done < count {
        let (version, found) = own_row(&store, &row).await;
        let Some(found) = found else { fail("an acknowledged row is gone") };
        if found.process_id > done {
            // A write that was reported as unavailable was applied after all.
            assert_eq!(found.process_id, done + 1, "a write was applied that nobody sent");
            (done, applied) = (done + 1, applied + 1);
            continue;
        }
        // A smaller one can only be stale; the write that rests on it must be refused then.
        let is_stale = found.process_id < done;
        let outcome =
            store.update(MembershipRow { process_id: found.process_id + 1, ..found }, version).await;
        match outcome {
            Ok(CasOutcome::Written { version: written }) => {
                assert!(!is_stale, "a write that rests on a stale read was accepted");
                assert_eq!(written, version + 1);
                acknowledged.push(written);
                (done, applied) = (done + 1, applied + 1);
            }
            Ok(CasOutcome::Conflict) => tokio::task::yield_now().await,
            Err(StoreError::Unavailable(_)) => {}
            Err(err) => fail(&format!("the table became unusable: {err}")),
        }
    }
    (acknowledged, applied)
}

async fn own_row(store: &Arc<dyn Store>, row: &MembershipRow) -> (u64, Option<MembershipRow>) {
    let snapshot = until_available(|| MembershipTable::read(&**store)).await;
    (snapshot.version, snapshot.rows.get(&row.address).cloned())
}

/// Each writer counts its own grain up to `count`.
async fn state_writers(store: &Arc<dyn Store>, count: u32) {
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(state_writer(Arc::clone(store), format!("writer-{writer}"), count)))
        .collect();
    for writer in writers {
        assert!(writer.await.is_ok(), "a writer of state panicked");
    }
}

async fn state_writer(store: Arc<dyn Store>, key: String, count: u32) {
    let name = "count".to_owned();
    let mut done = 0;
    while done < count {
        let found =
            until_available(|| GrainStateStore::read(&*store, state::grain(&key), name.clone(), 1)).await;
        let stored = found.as_ref().map_or(0, |found| number(&found.value));
        if stored > done {
            assert_eq!(stored, done + 1, "a write was applied that nobody sent");
            done += 1;
            continue;
        }
        let (is_stale, etag) = (stored < done, found.map(|found| found.etag));
        let value = (stored + 1).to_le_bytes().to_vec();
        match store.write(state::grain(&key), name.clone(), value, etag, 1).await {
            Ok(_) => {
                assert!(!is_stale, "a write that rests on a stale read was accepted");
                done += 1;
            }
            Err(StateError::Conflict { .. } | StateError::Unavailable(_)) => tokio::task::yield_now().await,
            Err(err) => fail(&format!("a write of state failed: {err}")),
        }
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or_else(|_| fail("a value was mangled"), u32::from_le_bytes)
}

/// An adapter that loses each third acknowledgement: sooner or later one of these.
async fn a_lost_deploy_is_found(losing: &Arc<dyn Store>, store: &Arc<dyn Store>) {
    let mut found = 0;
    for revision in 1..=9 {
        let (version, _) = until_available(|| DeploymentStore::read(&**losing)).await;
        let record = super::record("counter", revision);
        match DeploymentStore::put(&**losing, record.clone(), version).await {
            Ok(outcome) => assert_eq!(outcome, CasOutcome::Written { version: version + 1 }),
            Err(StoreError::Unavailable(why)) => {
                assert_eq!(why, LOST);
                found += 1;
            }
            Err(err) => fail(&format!("a deploy failed: {err}")),
        }
        assert_eq!(DeploymentStore::read(&**store).await, Ok((version + 1, vec![record])), "it was applied");
    }
    assert!(found > 0, "no acknowledgement of a deploy was lost: the adapter does nothing");
}
