//! The contract of grain state: etags and fences (spec GP-1, decision B11).

use std::collections::BTreeSet;
use std::sync::Arc;

use granary_core::hosting::{StateError, StateValue};
use granary_core::id::GrainId;

use super::fail;
use crate::{GrainStateStore, STATE_NAME_BYTES_MAX, STATE_VALUE_BYTES_MAX};

type Store = Arc<dyn GrainStateStore>;

/// Grain state, on an empty store.
///
/// # Panics
/// When the store breaks the contract.
pub async fn grain_state(store: Store) {
    values_come_back(&store).await;
    writes_need_the_stored_etag(&store).await;
    etags_never_come_back(&store).await;
    a_higher_fence_shuts_lower_ones_out(&store).await;
    a_fence_holds_before_the_first_write(&store).await;
    sizes_are_limited(&store).await;
    one_of_a_hundred_writers_wins(&store).await;
    updates_are_never_lost(&store).await;
}

pub(super) fn grain(key: &str) -> GrainId {
    match format!("account/{key}").parse() {
        Ok(grain) => grain,
        Err(err) => fail(&format!("{err}")),
    }
}

async fn read(store: &Store, key: &str, fence: u64) -> Result<Option<StateValue>, StateError> {
    store.read(grain(key), "balance".to_owned(), fence).await
}

async fn write(
    store: &Store,
    key: &str,
    value: &[u8],
    expected: Option<&str>,
    fence: u64,
) -> Result<String, StateError> {
    let expected = expected.map(str::to_owned);
    store.write(grain(key), "balance".to_owned(), value.to_vec(), expected, fence).await
}

async fn clear(store: &Store, key: &str, expected: Option<&str>, fence: u64) -> Result<(), StateError> {
    store.clear(grain(key), "balance".to_owned(), expected.map(str::to_owned), fence).await
}

/// A write that the contract wants to succeed.
async fn written(store: &Store, key: &str, value: &[u8], expected: Option<&str>, fence: u64) -> String {
    match write(store, key, value, expected, fence).await {
        Ok(etag) => etag,
        Err(err) => fail(&format!("a write of {key} failed: {err}")),
    }
}

fn conflict(stored: Option<&str>) -> StateError {
    StateError::Conflict { stored: stored.map(str::to_owned) }
}

async fn values_come_back(store: &Store) {
    assert_eq!(read(store, "a", 0).await, Ok(None), "nothing is there before");
    for value in [&b"one"[..], b"", &[0, 255, 0]] {
        let before = read(store, "a", 0).await.ok().flatten().map(|value| value.etag);
        let etag = written(store, "a", value, before.as_deref(), 0).await;
        assert_eq!(read(store, "a", 0).await, Ok(Some(StateValue { value: value.to_vec(), etag })));
    }
    assert_eq!(store.read(grain("a"), "other".to_owned(), 0).await, Ok(None), "names are apart");
    assert_eq!(read(store, "A", 0).await, Ok(None), "keys are apart, by case too");
}

async fn writes_need_the_stored_etag(store: &Store) {
    assert_eq!(write(store, "b", b"x", Some("1"), 0).await, Err(conflict(None)), "an etag, but no row");
    let first = written(store, "b", b"x", None, 0).await;
    assert_eq!(write(store, "b", b"y", None, 0).await, Err(conflict(Some(&first))), "a row, but no etag");
    let second = written(store, "b", b"y", Some(&first), 0).await;
    assert_eq!(write(store, "b", b"z", Some(&first), 0).await, Err(conflict(Some(&second))), "a stale etag");
    assert_eq!(clear(store, "b", Some(&first), 0).await, Err(conflict(Some(&second))), "a stale clear");
    assert_eq!(clear(store, "b", None, 0).await, Err(conflict(Some(&second))));
    let kept = StateValue { value: b"y".to_vec(), etag: second.clone() };
    assert_eq!(read(store, "b", 0).await, Ok(Some(kept)), "a conflict changes nothing");
    assert_eq!(clear(store, "b", Some(&second), 0).await, Ok(()));
    assert_eq!(read(store, "b", 0).await, Ok(None));
    assert_eq!(clear(store, "b", None, 0).await, Ok(()), "nothing to clear is fine");
    assert_eq!(write(store, "b", b"z", Some(&second), 0).await, Err(conflict(None)), "cleared meanwhile");
}

async fn etags_never_come_back(store: &Store) {
    let mut etags = BTreeSet::new();
    for _ in 0..5 {
        let first = written(store, "c", b"same", None, 0).await;
        let second = written(store, "c", b"same", Some(&first), 0).await;
        assert_eq!(clear(store, "c", Some(&second), 0).await, Ok(()));
        etags.extend([first, second]);
    }
    assert_eq!(etags.len(), 10, "each write has an etag of its own, even after a clear");
}

async fn a_higher_fence_shuts_lower_ones_out(store: &Store) {
    let old = written(store, "d", b"old", None, 3).await;
    assert_eq!(read(store, "d", 2).await, Err(StateError::Fenced), "a write raises the fence");
    assert!(read(store, "d", 3).await.is_ok(), "the same fence reads on");
    let value = read(store, "d", 5).await;
    assert_eq!(value, Ok(Some(StateValue { value: b"old".to_vec(), etag: old.clone() })));
    assert_eq!(write(store, "d", b"late", Some(&old), 4).await, Err(StateError::Fenced), "a read raises it");
    assert_eq!(write(store, "d", b"late", None, 4).await, Err(StateError::Fenced), "fenced before conflict");
    assert_eq!(clear(store, "d", Some(&old), 4).await, Err(StateError::Fenced));
    let new = written(store, "d", b"new", Some(&old), 5).await;
    assert_eq!(clear(store, "d", Some(&new), 5).await, Ok(()));
    assert_eq!(write(store, "d", b"late", None, 4).await, Err(StateError::Fenced), "a clear keeps the fence");
    assert_eq!(read(store, "d", 4).await, Err(StateError::Fenced));
    written(store, "d", b"again", None, 5).await;
}

async fn a_fence_holds_before_the_first_write(store: &Store) {
    assert_eq!(read(store, "e", 7).await, Ok(None));
    assert_eq!(write(store, "e", b"late", None, 6).await, Err(StateError::Fenced));
    assert_eq!(read(store, "e", 6).await, Err(StateError::Fenced));
    let etag = written(store, "e", b"first", None, 7).await;
    assert_eq!(read(store, "e", 8).await, Ok(Some(StateValue { value: b"first".to_vec(), etag })));
}

async fn sizes_are_limited(store: &Store) {
    let large = vec![7; STATE_VALUE_BYTES_MAX];
    let etag = written(store, "f", &large, None, 0).await;
    let stored = read(store, "f", 0).await;
    let wanted = Ok(Some(StateValue { value: large.clone(), etag: etag.clone() }));
    assert!(
        stored == wanted,
        "the largest value comes back: {:?}",
        stored.map(|found| found.map(|it| it.etag))
    );
    let larger = [large.as_slice(), &[7]].concat();
    let refused = write(store, "f", &larger, Some(&etag), 0).await;
    assert!(matches!(refused, Err(StateError::TooLarge(_))), "{refused:?}");
    for name in ["n".repeat(STATE_NAME_BYTES_MAX + 1), String::new()] {
        let refused = store.write(grain("f"), name, vec![], None, 0).await;
        assert!(matches!(refused, Err(StateError::TooLarge(_))), "{refused:?}");
    }
    let longest = "n".repeat(STATE_NAME_BYTES_MAX);
    assert!(store.write(grain("f"), longest, vec![], None, 0).await.is_ok());
}

async fn one_of_a_hundred_writers_wins(store: &Store) {
    let mut etag: Option<String> = None;
    for _ in 0..5 {
        let writers: Vec<_> = (0..100_u8)
            .map(|writer| {
                let (store, etag) = (Arc::clone(store), etag.clone());
                tokio::spawn(async move { (writer, write(&store, "g", &[writer], etag.as_deref(), 1).await) })
            })
            .collect();
        let mut winners = Vec::new();
        for writer in writers {
            match writer.await {
                Ok((writer, Ok(etag))) => winners.push(StateValue { value: vec![writer], etag }),
                Ok((_, Err(StateError::Conflict { .. }))) => {}
                other => fail(&format!("a writer failed: {other:?}")),
            }
        }
        let stored = read(store, "g", 1).await.ok().flatten();
        assert_eq!(winners, stored.iter().cloned().collect::<Vec<_>>(), "the only winner's value is stored");
        etag = stored.map(|value| value.etag);
    }
}

async fn updates_are_never_lost(store: &Store) {
    let adders: Vec<_> = (0..10)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut done = 0;
                while done < 10 {
                    let Ok(before) = read(&store, "h", 1).await else { fail("a read failed") };
                    let sum = before.as_ref().and_then(|value| value.value.first()).map_or(1, |sum| sum + 1);
                    let etag = before.map(|value| value.etag);
                    match write(&store, "h", &[sum], etag.as_deref(), 1).await {
                        Ok(_) => done += 1,
                        Err(StateError::Conflict { .. }) => tokio::task::yield_now().await,
                        Err(err) => fail(&format!("a write failed: {err}")),
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        assert!(adder.await.is_ok());
    }
    let sum = read(store, "h", 1).await.ok().flatten().map(|value| value.value);
    assert_eq!(sum, Some(vec![100]), "ten adders, ten times each");
}
