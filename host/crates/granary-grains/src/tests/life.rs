//! The life of an activation: start, failure, idleness, duplicates, state.

use std::time::Duration;

use granary_core::directory::GrainAddress;
use granary_core::hosting::{CallError, DeactivationReason, TurnFailure};
use granary_core::id::ActivationId;
use tokio::time::sleep;

use super::harness::*;
use crate::ActivationState;

#[tokio::test(start_paused = true)]
async fn a_failed_activation_answers_with_its_error_and_keeps_the_id_for_a_moment() {
    let cluster = Cluster::new(2);
    for _ in 0..2 {
        cluster.behaviour.script("activate", TurnFailure::Refused("no such account".to_owned()));
    }
    let failed = Err(CallError::Failed("no such account".to_owned()));
    for silo in [1, 2, 1, 2] {
        assert_eq!(cluster.add(silo, "counter/a").await, failed);
    }
    assert_eq!(cluster.behaviour.count("activate"), 1, "a storm of calls starts it once");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.add(1, "counter/a").await, failed);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_component_that_does_not_start_fails_its_callers() {
    let cluster = Cluster::new(1);
    cluster.behaviour.script("instantiate", trap("start code panicked"));
    let error = cluster.add(1, "counter/a").await.unwrap_err();
    assert_eq!(error, CallError::Failed("start code panicked".to_owned()));
    assert_eq!(cluster.silos[0].metrics().activations_failed, 1);
}

#[tokio::test(start_paused = true)]
async fn no_user_code_runs_before_the_registration() {
    let cluster = Cluster::new(1);
    for _ in 0..3 {
        cluster.world.fault("register", Fault::Refused);
    }
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    assert_eq!(cluster.behaviour.count("activate"), 1);
    assert_eq!(cluster.silos[0].metrics().registrations_failed, 3);
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_refuses_makes_the_call_not_delivered() {
    let cluster = Cluster::new(1);
    for _ in 0..1_000 {
        cluster.world.fault("register", Fault::Refused);
    }
    let error = cluster.add(1, "counter/a").await.unwrap_err();
    assert!(
        matches!(&error, CallError::NotDelivered(text) if text.contains("the view changes")),
        "{error:?}"
    );
    assert_eq!(cluster.silos[0].activation_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stale_entry_of_this_very_silo_does_not_lock_the_grain_out() {
    let cluster = Cluster::new(1);
    cluster.world.set_entry(&grain("counter/a"), silo(1));
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    assert_ne!(cluster.world.entry(&grain("counter/a")).unwrap().activation, ActivationId(77));
}

#[tokio::test(start_paused = true)]
async fn the_loser_of_a_registration_passes_its_calls_to_the_winner() {
    let cluster = Cluster::new(2);
    cluster.activate_on(2, "counter/a").await;
    // The sender placed it on silo 1 before it could know better.
    let mut call = request("counter/a", "add", &1_u64.to_le_bytes());
    call.may_activate = true;
    let reply = cluster.silos[0].handle_invoke(silo(9), call, Duration::from_secs(5)).await;
    assert_eq!((reply.outcome.map(|it| number(&it)), reply.location), (Ok(1), Some(silo(2))));
    assert_eq!(cluster.place_of("counter/a"), 2);
    assert_eq!(cluster.silos[0].metrics().activations_duplicate, 1);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_activation_passes_its_calls_on_and_leaves_the_entry_alone() {
    let cluster = Cluster::new(2);
    cluster.activate_on(1, "counter/a").await;
    let wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    let behind = cluster.begin(1, "counter/a", "add", &1_u64.to_le_bytes()).await;
    let loser = cluster.silos[0].describe(&grain("counter/a")).unwrap().activation;
    let winner = GrainAddress {
        grain: grain("counter/a"),
        activation: ActivationId(77),
        silo: silo(2),
        fence: 1,
        previous: None,
    };
    cluster.world.set_entry(&grain("counter/a"), silo(2));
    cluster.silos[0].deactivate_duplicate(&grain("counter/a"), loser, Some(winner));
    cluster.open_gate(1);
    wait.await.unwrap().unwrap();
    assert_eq!(behind.await.unwrap().map(|it| number(&it)), Ok(1));
    assert_eq!(cluster.place_of("counter/a"), 2);
    assert_eq!(cluster.behaviour.count("deactivate Duplicate"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_activation_ends_and_the_next_call_makes_a_fresh_one() {
    let cluster = Cluster::with(1, |class| class.info.limits.idle_age = Some(Duration::from_secs(60)));
    for n in 1..=5 {
        assert_eq!(cluster.add(1, "counter/a").await, Ok(n));
        sleep(Duration::from_secs(50)).await;
    }
    sleep(Duration::from_secs(11)).await;
    until(|| cluster.silos[0].activation_count() == 0).await;
    assert_eq!(cluster.behaviour.count("deactivate Idle"), 1);
    assert_eq!(cluster.world.entry(&grain("counter/a")), None);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_grain_may_ask_for_its_end_and_queued_calls_go_to_the_next_activation() {
    let cluster = Cluster::new(1);
    let wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    let stop = cluster.begin(1, "counter/a", "stop", &[]).await;
    let behind = cluster.begin(1, "counter/a", "add", &1_u64.to_le_bytes()).await;
    cluster.open_gate(1);
    wait.await.unwrap().unwrap();
    stop.await.unwrap().unwrap();
    assert_eq!(behind.await.unwrap().map(|it| number(&it)), Ok(1));
    assert_eq!(cluster.behaviour.count("deactivate ApplicationRequested"), 1);
    assert_eq!(cluster.behaviour.count(" activate"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_state_conflict_ends_the_activation_after_the_turn() {
    let cluster = Cluster::new(1);
    assert_eq!(cluster.call(1, "counter/a", "read", &[]).await, Ok(Vec::new()));
    cluster.call(1, "counter/a", "write", b"1").await.unwrap();
    // Somebody else writes in between.
    let store = &cluster.world.state;
    let fence = cluster.world.entry(&grain("counter/a")).unwrap().fence;
    let read = granary_store::GrainStateStore::read(store, grain("counter/a"), "v".to_owned(), fence);
    let etag = read.await.unwrap().unwrap().etag;
    let other = granary_store::GrainStateStore::write(
        store,
        grain("counter/a"),
        "v".to_owned(),
        b"other".to_vec(),
        Some(etag),
        fence,
    );
    other.await.unwrap();
    let error = cluster.call(1, "counter/a", "write", b"2").await.unwrap_err();
    assert!(error.to_string().contains("etag conflict"), "{error}");
    assert_eq!(cluster.call(1, "counter/a", "read", &[]).await, Ok(b"other".to_vec()));
    assert_eq!(cluster.behaviour.count("deactivate StateConflict"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_newer_activation_fences_the_state_of_an_older_one() {
    let cluster = Cluster::new(1);
    cluster.call(1, "counter/a", "write", b"1").await.unwrap();
    let fence = cluster.world.entry(&grain("counter/a")).unwrap().fence;
    let store = &cluster.world.state;
    granary_store::GrainStateStore::read(store, grain("counter/a"), "v".to_owned(), fence + 1).await.unwrap();
    let error = cluster.call(1, "counter/a", "write", b"2").await.unwrap_err();
    assert!(error.to_string().contains("fenced"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_deactivate_that_hangs_is_cut_off() {
    let cluster = Cluster::new(1);
    cluster.add(1, "counter/a").await.unwrap();
    cluster.behaviour.held.lock().unwrap().insert("deactivate");
    let (silo, id) = (&cluster.silos[0], grain("counter/a"));
    assert!(!silo.deactivate(&id, DeactivationReason::RuntimeRequested, Duration::from_secs(20)).await);
    assert_eq!(silo.describe(&id).unwrap().state, ActivationState::Deactivating);
    // A call that comes meanwhile waits for the next activation.
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn an_undeployed_type_ends_its_activations_and_a_redeploy_leaves_them() {
    let cluster = Cluster::new(1);
    for key in 0..5 {
        cluster.add(1, &format!("counter/{key}")).await.unwrap();
    }
    cluster.deploy(1, "counter", |class| class.info.digest = granary_core::id::Digest::of(b"newer"));
    let old = cluster.silos[0].describe(&grain("counter/0")).unwrap().digest;
    assert_eq!(cluster.add(1, "counter/0").await, Ok(2));
    assert_eq!(cluster.silos[0].describe(&grain("counter/0")).unwrap().digest, old);

    cluster.world.classes.lock().unwrap().clear();
    let counter = granary_core::id::GrainType::new("counter").unwrap();
    let ended = cluster.silos[0]
        .deactivate_type(&counter, DeactivationReason::Undeployed, Duration::from_secs(5))
        .await;
    assert_eq!((ended.ended, ended.pending), (5, 0));
    assert!(matches!(cluster.add(1, "counter/0").await, Err(CallError::NotFound(_))));
}

#[tokio::test(start_paused = true)]
async fn activations_are_listed_with_what_they_do() {
    let cluster = Cluster::new(1);
    cluster.add(1, "counter/b").await.unwrap();
    let wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    until(|| cluster.behaviour.count("wait") == 1).await;
    let behind = cluster.begin(1, "counter/a", "get", &[]).await;
    sleep(Duration::from_secs(3)).await;
    let list = cluster.silos[0].list_activations();
    assert_eq!(list.iter().map(|it| it.grain.to_string()).collect::<Vec<_>>(), ["counter/a", "counter/b"]);
    assert_eq!((list[0].running, list[0].mailbox, list[0].idle), (true, 1, Duration::ZERO));
    assert_eq!((list[1].running, list[1].calls, list[1].idle), (false, 1, Duration::from_secs(3)));
    assert_eq!(list[1].state, ActivationState::Valid);
    cluster.open_gate(1);
    wait.await.unwrap().unwrap();
    behind.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn when_the_silo_stops_waiting_callers_are_told_and_all_tasks_end() {
    let cluster = Cluster::new(1);
    let wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    cluster.stop.cancel();
    assert!(matches!(wait.await.unwrap(), Err(CallError::UnknownOutcome(_))));
    cluster.tracker.close();
    tokio::time::timeout(Duration::from_secs(5), cluster.tracker.wait()).await.unwrap();
    assert_eq!(cluster.silos[0].activation_count(), 0);
}
