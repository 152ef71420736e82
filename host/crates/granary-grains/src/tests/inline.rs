//! The inline path: what it may never change.

use std::sync::atomic::Ordering;
use std::time::Duration;

use granary_core::hosting::{CallError, DeactivationReason};

use super::harness::*;

#[tokio::test(start_paused = true)]
async fn a_call_to_an_idle_grain_runs_on_the_callers_task() {
    let cluster = Cluster::new(1);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    // The activation's task has to find nothing to do first.
    until_inline(&cluster, "counter/a").await;
    let before = cluster.silos[0].metrics().turns;
    let inline = cluster.silos[0].metrics().calls_inline;
    for n in 1..=10 {
        cluster.call(1, "counter/a", "get", &[]).await.unwrap();
        assert_eq!(cluster.silos[0].metrics().calls_inline, inline + n);
    }
    assert_eq!(cluster.silos[0].metrics().turns, before + 10);
}

#[tokio::test(start_paused = true)]
async fn an_asynchronous_class_never_runs_inline() {
    let cluster = Cluster::with(1, |class| class.info.asynchronous = true);
    for n in 1..=20 {
        assert_eq!(cluster.add(1, "counter/a").await, Ok(n));
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.silos[0].metrics().calls_inline, 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_or_late_caller_drops_no_inline_turn() {
    let cluster = Cluster::new(1);
    until_inline(&cluster, "counter/a").await;
    let inline = cluster.silos[0].metrics().calls_inline;
    let late = cluster.silos[0].call(request("counter/a", "wait", &[]), Some(Duration::from_secs(2))).await;
    assert_eq!(late.outcome, Err(CallError::TimedOut));
    assert!(cluster.silos[0].describe(&grain("counter/a")).unwrap().running);
    cluster.open_gate(1);
    until(|| !cluster.silos[0].describe(&grain("counter/a")).unwrap().running).await;

    until_inline(&cluster, "counter/a").await;
    let dropped = cluster.begin(1, "counter/a", "wait", &[]).await;
    dropped.abort();
    let _ = dropped.await;
    cluster.open_gate(1);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    assert!(cluster.silos[0].metrics().calls_inline >= inline + 2);
    assert_eq!(cluster.behaviour.count("activate"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_trap_in_an_inline_turn_ends_the_activation_as_ever() {
    let cluster = Cluster::new(1);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    until_inline(&cluster, "counter/a").await;
    let inline = cluster.silos[0].metrics().calls_inline;
    let trap = cluster.call(1, "counter/a", "trap", &[]).await;
    assert_eq!(trap, Err(CallError::Failed("the guest panicked".to_owned())));
    assert_eq!(cluster.silos[0].metrics().calls_inline, inline + 1);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    assert_eq!(cluster.silos[0].metrics().traps, 1);
}

#[tokio::test(start_paused = true)]
async fn an_end_asked_for_during_an_inline_turn_comes_after_it() {
    let cluster = Cluster::new(1);
    until_inline(&cluster, "counter/a").await;
    let turn = cluster.begin(1, "counter/a", "wait", &[]).await;
    let silo = cluster.silos[0].clone();
    let end = tokio::spawn(async move {
        silo.deactivate(&grain("counter/a"), DeactivationReason::RuntimeRequested, Duration::from_secs(5))
            .await
    });
    tokio::task::yield_now().await;
    assert!(!end.is_finished());
    assert_eq!(cluster.behaviour.count("deactivate"), 0);
    cluster.open_gate(1);
    turn.await.unwrap().unwrap();
    assert!(end.await.unwrap());
    assert_eq!(cluster.behaviour.count("deactivate"), 1);
}

#[tokio::test(start_paused = true)]
async fn inline_turns_and_queued_ones_never_overlap() {
    let cluster = Cluster::new(1);
    until_inline(&cluster, "counter/a").await;
    let mut calls = Vec::new();
    for _ in 0..200 {
        let silo = cluster.silos[0].clone();
        calls.push(tokio::spawn(async move {
            silo.call(request("counter/a", "add", &1_u64.to_le_bytes()), None).await.outcome
        }));
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(number(&call.await.unwrap().unwrap()), n as u64 + 1);
    }
    assert_eq!(cluster.behaviour.violations.load(Ordering::Relaxed), 0);
}

/// Calls until a call was inline, so that the next one to an idle grain is.
async fn until_inline(cluster: &Cluster, to: &str) {
    let before = cluster.silos[0].metrics().calls_inline;
    for _ in 0..100 {
        cluster.call(1, to, "get", &[]).await.unwrap();
        if cluster.silos[0].metrics().calls_inline > before {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("no call was inline");
}
