//! The embedded engine: the contract, alone and with a second store on the same directory; and what only files can
//! suffer.

use std::fs;
use std::sync::Arc;

use super::*;
use crate::contract::{self, Adapter};

fn open(data: &Path) -> SqliteStore {
    SqliteStore::open(data, OpenOptions::default()).unwrap()
}

fn refusal(data: &Path) -> String {
    match SqliteStore::open(data, OpenOptions::default()) {
        Err(StoreError::Unusable(why)) => why,
        other => panic!("should be unusable: {other:?}"),
    }
}

/// Two processes' worth on one directory.
fn shared(data: &Path) -> Arc<Adapter> {
    Arc::new(Adapter::alternating(vec![Arc::new(open(data)), Arc::new(open(data))]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_membership_table_keeps_the_contract() {
    let data = tempfile::tempdir().unwrap();
    contract::membership_table(Arc::new(open(data.path()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_on_one_directory_keep_the_contract_of_the_membership_table() {
    let data = tempfile::tempdir().unwrap();
    contract::membership_table(shared(data.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grain_state_keeps_the_contract() {
    let data = tempfile::tempdir().unwrap();
    contract::grain_state(Arc::new(open(data.path()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_on_one_directory_keep_the_contract_of_grain_state() {
    let data = tempfile::tempdir().unwrap();
    contract::grain_state(shared(data.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quarantine_keeps_the_contract() {
    let data = tempfile::tempdir().unwrap();
    contract::quarantine(Arc::new(open(data.path()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_keep_the_contract_alone_and_shared() {
    let data = tempfile::tempdir().unwrap();
    contract::deployments(Arc::new(open(&data.path().join("alone")))).await;
    contract::deployments(shared(&data.path().join("shared"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_keep_the_contract_alone_and_shared() {
    let data = tempfile::tempdir().unwrap();
    contract::blobs(Arc::new(open(&data.path().join("alone")))).await;
    contract::blobs(shared(&data.path().join("shared"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_acknowledgements_and_stale_reads_do_no_harm() {
    let data = tempfile::tempdir().unwrap();
    contract::lost_acknowledgements(Arc::new(open(&data.path().join("lost")))).await;
    contract::stale_reads(Arc::new(open(&data.path().join("stale")))).await;
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_reopening_without_a_close() {
    let data = tempfile::tempdir().unwrap();
    let grain: GrainId = "account/alice".parse().unwrap();
    let left_open = open(data.path());
    let etag = left_open.write(grain.clone(), "s".into(), b"5".to_vec(), None, 3).await.unwrap();
    let digest = BlobStore::put(&left_open, b"component".to_vec()).await.unwrap();
    // The log has not been merged into the database file: this is what a killed process leaves behind.
    let copy = tempfile::tempdir().unwrap();
    copy_tree(data.path(), copy.path());
    let after = open(copy.path());
    let value = GrainStateStore::read(&after, grain.clone(), "s".into(), 3).await;
    assert_eq!(value, Ok(Some(StateValue { value: b"5".to_vec(), etag })));
    assert_eq!(after.get(digest).await, Ok(Some(b"component".to_vec())));
    assert_eq!(GrainStateStore::read(&after, grain, "s".into(), 2).await, Err(StateError::Fenced));
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn a_log_that_was_cut_in_the_middle_loses_no_earlier_write() {
    let data = tempfile::tempdir().unwrap();
    let grain: GrainId = "account/alice".parse().unwrap();
    let left_open = open(data.path());
    let first = left_open.write(grain.clone(), "s".into(), b"1".to_vec(), None, 0).await.unwrap();
    let log = |root: &Path| root.join("cluster/state.db-wal");
    let before = fs::metadata(log(data.path())).unwrap().len();
    left_open.write(grain.clone(), "s".into(), vec![2; 50_000], Some(first.clone()), 0).await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    copy_tree(data.path(), copy.path());
    fs::OpenOptions::new().write(true).open(log(copy.path())).unwrap().set_len(before + 10_000).unwrap();
    fs::remove_file(copy.path().join("cluster/state.db-shm")).unwrap();
    let value = GrainStateStore::read(&open(copy.path()), grain, "s".into(), 0).await;
    assert_eq!(value, Ok(Some(StateValue { value: b"1".to_vec(), etag: first })));
}

#[tokio::test]
async fn a_corrupt_blob_is_absent_moved_aside_and_can_be_put_again() {
    let data = tempfile::tempdir().unwrap();
    let store = open(data.path());
    let digest = BlobStore::put(&store, b"component".to_vec()).await.unwrap();
    let path = data.path().join("blobs").join(digest.to_string());
    fs::write(&path, b"c0mponent").unwrap();
    assert_eq!(store.get(digest).await, Ok(None));
    assert!(!path.exists());
    assert_eq!(fs::read(path.with_extension("corrupt")).unwrap(), b"c0mponent");
    assert_eq!(BlobStore::put(&store, b"component".to_vec()).await, Ok(digest));
    fs::write(&path, b"").unwrap();
    assert_eq!(BlobStore::put(&store, b"component".to_vec()).await, Ok(digest), "a put repairs");
    assert_eq!(store.get(digest).await, Ok(Some(b"component".to_vec())));
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    let data = tempfile::tempdir().unwrap();
    drop(open(data.path()));
    assert_eq!(fs::read_to_string(data.path().join("format")).unwrap(), "granary-data 1\n");
    fs::write(data.path().join("format"), "granary-data 7\n").unwrap();
    let why = refusal(data.path());
    assert!(why.contains("has data format 7, this version of granary supports 1"), "{why}");
    assert!(why.contains(&data.path().display().to_string()), "{why}");
    fs::write(data.path().join("format"), "something else").unwrap();
    assert!(refusal(data.path()).contains("should read 'granary-data NUMBER', it reads \"something else\""));
}

#[test]
fn paths_that_cannot_hold_a_store_are_refused_by_name() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(refusal(&file), format!("{} is not a directory", file.display()));
    let below = file.join("data");
    let why = refusal(&below);
    assert!(why.starts_with(&below.display().to_string()), "{why}");
    let read_only = data.path().join("read-only");
    drop(open(&read_only));
    let mut permissions = fs::metadata(&read_only).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&read_only, permissions).unwrap();
    assert!(refusal(&read_only).starts_with(&format!("{} is read-only", read_only.display())));
}

#[tokio::test]
async fn deployments_of_the_first_layout_are_read_and_grant_nothing() {
    let data = tempfile::tempdir().unwrap();
    drop(open(data.path()));
    let file = rusqlite::Connection::open(data.path().join("cluster/deployments.db")).unwrap();
    file.execute_batch("ALTER TABLE deployments DROP COLUMN grants; PRAGMA user_version = 1").unwrap();
    let digest = Digest::of(b"component");
    file.execute(
        "INSERT INTO deployments VALUES ('counter', ?1, 9, 'counter.wasm', 3, '{}', 1800000000)",
        [digest.0],
    )
    .unwrap();
    drop(file);
    for _ in 0..2 {
        let (_, records) = DeploymentStore::read(&open(data.path())).await.unwrap();
        assert_eq!((records[0].digest, records[0].revision, records[0].grants.as_str()), (digest, 3, ""));
    }
}

#[test]
fn a_newer_or_damaged_database_is_refused() {
    let data = tempfile::tempdir().unwrap();
    drop(open(data.path()));
    let file = data.path().join("cluster/deployments.db");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 9).unwrap();
    let why = refusal(data.path());
    assert!(why.contains("deployments.db has layout 9, this version of granary supports 2"), "{why}");
    for leftover in ["deployments.db-wal", "deployments.db-shm"] {
        let _ = fs::remove_file(data.path().join("cluster").join(leftover));
    }
    fs::write(&file, vec![b'x'; 8192]).unwrap();
    let why = refusal(data.path());
    assert!(why.contains("deployments.db"), "{why}");
}

#[tokio::test]
async fn a_lock_that_is_held_too_long_is_an_error_in_time() {
    let data = tempfile::tempdir().unwrap();
    let options = OpenOptions { busy_timeout: Duration::from_millis(50), ..OpenOptions::default() };
    let store = SqliteStore::open(data.path(), options).unwrap();
    let other = rusqlite::Connection::open(data.path().join("cluster/state.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let grain: GrainId = "account/alice".parse().unwrap();
    let refused = store.write(grain.clone(), "s".into(), vec![], None, 0).await;
    assert!(matches!(&refused, Err(StateError::Unavailable(why)) if why.contains("state.db")), "{refused:?}");
    assert_eq!(GrainStateStore::read(&store, grain.clone(), "s".into(), 0).await, Ok(None), "readers go on");
    other.execute_batch("COMMIT").unwrap();
    assert!(store.write(grain, "s".into(), vec![], None, 0).await.is_ok(), "and so do writers, afterwards");
}

#[tokio::test]
async fn a_full_database_refuses_a_write_and_keeps_what_it_has() {
    let data = tempfile::tempdir().unwrap();
    let store = open(data.path());
    let grain: GrainId = "account/alice".parse().unwrap();
    let etag = store.write(grain.clone(), "s".into(), b"kept".to_vec(), None, 0).await.unwrap();
    // The limit belongs to the connection: SQLite answers as on a full disk.
    store
        .inner
        .state
        .read(|db| db.query_row("PRAGMA max_page_count = 20", [], |row| row.get::<_, i64>(0)))
        .await
        .unwrap();
    let refused = store.write(grain.clone(), "s".into(), vec![0; 1_000_000], Some(etag.clone()), 0).await;
    assert!(matches!(&refused, Err(StateError::Unavailable(why)) if why.contains("full")), "{refused:?}");
    let kept = Ok(Some(StateValue { value: b"kept".to_vec(), etag: etag.clone() }));
    assert_eq!(GrainStateStore::read(&store, grain.clone(), "s".into(), 0).await, kept);
    assert!(store.write(grain, "s".into(), b"small".to_vec(), Some(etag), 0).await.is_ok());
}
