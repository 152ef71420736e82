//! Reentrant grains: turns that overlap, their bound, and what waits for them.

use granary_core::hosting::{CallError, OVERLAPPING_TURNS_MAX};

use super::harness::*;

fn reentrant(silos: u16) -> Cluster {
    Cluster::with(silos, |class| {
        class.info.asynchronous = true;
        class.info.reentrant = true;
    })
}

#[tokio::test(start_paused = true)]
async fn turns_of_a_reentrant_grain_overlap() {
    let cluster = reentrant(1);
    let waiting = cluster.begin(1, "counter/a", "wait", &[]).await;
    cluster.call(1, "counter/a", "get", &[]).await.unwrap();
    assert!(!waiting.is_finished());
    cluster.open_gate(1);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_back_to_a_reentrant_grain_is_a_turn_like_others() {
    let cluster = reentrant(2);
    cluster.activate_on(1, "counter/a").await;
    cluster.activate_on(2, "counter/b").await;
    cluster.call(1, "counter/a", "call", b"counter/b call counter/a get").await.unwrap();
    assert_eq!(cluster.silos[0].metrics().deadlocks, 0);
}

#[tokio::test(start_paused = true)]
async fn turns_beyond_the_bound_wait_for_one_to_end() {
    let cluster = reentrant(1);
    let mut waiting = Vec::new();
    for _ in 0..OVERLAPPING_TURNS_MAX {
        waiting.push(tokio::spawn({
            let (silo, request) = (cluster.silos[0].clone(), request("counter/a", "wait", &[]));
            async move { silo.call(request, None).await.outcome }
        }));
    }
    until(|| cluster.behaviour.count("counter/a wait") == OVERLAPPING_TURNS_MAX).await;
    let late = cluster.begin(1, "counter/a", "get", &[]).await;
    until(|| cluster.silos[0].metrics().overlaps_full > 0).await;
    assert_eq!(cluster.behaviour.count("counter/a get"), 0);
    cluster.open_gate(1);
    late.await.unwrap().unwrap();
    cluster.open_gate(OVERLAPPING_TURNS_MAX);
    for turn in waiting {
        turn.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_activation_that_is_to_end_or_move_lets_its_turns_end_and_starts_no_others() {
    for method in ["stop", "move"] {
        let cluster = reentrant(2);
        cluster.activate_on(1, "counter/a").await;
        let waiting = cluster.begin(1, "counter/a", "wait", &[]).await;
        cluster.call(1, "counter/a", method, &[]).await.unwrap();
        let late = cluster.begin(1, "counter/a", "get", &[]).await;
        let before = cluster.behaviour.count("counter/a get");
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        assert_eq!(cluster.behaviour.count("counter/a get"), before, "{method}: a turn started");
        cluster.open_gate(1);
        waiting.await.unwrap().unwrap();
        late.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_trap_ends_the_activation_and_the_next_call_gets_a_fresh_one() {
    let cluster = reentrant(1);
    let error = cluster.call(1, "counter/a", "trap", &[]).await.unwrap_err();
    assert_eq!(error, CallError::Failed("the guest panicked".to_owned()));
    cluster.call(1, "counter/a", "get", &[]).await.unwrap();
    assert_eq!(cluster.behaviour.count("activate"), 2);
}
