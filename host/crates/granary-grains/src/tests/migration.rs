//! Migration: under load, and with a failure at every step (decision B10).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use granary_core::hosting::{CallError, TurnFailure};
use granary_core::id::Digest;
use tokio::time::{Instant, sleep};

use super::harness::*;
use crate::options::GO_ATTEMPTS_MAX;
use crate::{ActivationState, MigrateError, MigrateTarget};

fn to(n: u16) -> MigrateTarget {
    MigrateTarget::Silo(silo(n))
}

/// A cluster with `counter/a` on silo 1, its value 5.
async fn prepared(silos: u16) -> Cluster {
    let cluster = Cluster::new(silos);
    cluster.activate_on(1, "counter/a").await;
    for n in 1..=5 {
        assert_eq!(cluster.add(1, "counter/a").await, Ok(n));
    }
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_migrations_under_eight_callers_skip_and_repeat_no_value() {
    let cluster = Cluster::new(2);
    cluster.activate_on(1, "counter/a").await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for caller in 0..8 {
        let (silo, stop) = (cluster.silos[caller % 2].clone(), Arc::clone(&stop));
        callers.push(tokio::spawn(async move {
            let mut values = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                let call = request("counter/a", "add", &1_u64.to_le_bytes());
                values.push(number(&silo.call(call, None).await.outcome.unwrap()));
            }
            values
        }));
    }
    let calls = || cluster.behaviour.count("counter/a add");
    for round in 0..10_u16 {
        let (from, target) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        let before = calls();
        let report = cluster.silos[from - 1].migrate(&grain("counter/a"), to(target)).await.unwrap();
        assert_eq!((report.to, report.bytes), (silo(target), 8));
        assert_eq!(cluster.place_of("counter/a"), usize::from(target));
        while calls() < before + 50 {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    let mut values = Vec::new();
    for caller in callers {
        let own = caller.await.unwrap();
        assert!(own.is_sorted(), "a caller saw the count go back");
        values.extend(own);
    }
    values.sort_unstable();
    assert_eq!(values, (1..=values.len() as u64).collect::<Vec<_>>());
    assert_eq!(cluster.behaviour.violations.load(Ordering::SeqCst), 0);
    assert_eq!(cluster.behaviour.count(" activate"), 1);
}

#[tokio::test(start_paused = true)]
async fn queued_calls_go_to_the_target_in_their_order() {
    let cluster = prepared(2).await;
    let wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    until(|| cluster.behaviour.count("wait") == 1).await;
    let moving = tokio::spawn({
        let silo = cluster.silos[0].clone();
        async move { silo.migrate(&grain("counter/a"), to(2)).await }
    });
    let mut queued = Vec::new();
    for _ in 0..20 {
        queued.push(cluster.begin(1, "counter/a", "add", &1_u64.to_le_bytes()).await);
    }
    cluster.open_gate(1);
    wait.await.unwrap().unwrap();
    moving.await.unwrap().unwrap();
    for (n, call) in queued.into_iter().enumerate() {
        assert_eq!(number(&call.await.unwrap().unwrap()), 6 + n as u64);
    }
    assert_eq!(cluster.place_of("counter/a"), 2);
    assert_eq!(cluster.behaviour.count(&format!("add on {}", silo(2))), 20);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_move_says_why() {
    let cluster = prepared(2).await;
    let (here, id) = (&cluster.silos[0], grain("counter/a"));
    let same = here.migrate(&id, to(1)).await.unwrap();
    assert_eq!((same.from, same.to, same.bytes), (silo(1), silo(1), 0));
    let error = here.migrate(&grain("counter/none"), to(2)).await.unwrap_err();
    assert_eq!(error, MigrateError::NotHere(grain("counter/none")));
    let error = here.migrate(&id, MigrateTarget::Name("silo-9".to_owned())).await.unwrap_err();
    assert_eq!(error, MigrateError::UnknownSilo("silo-9".to_owned()));

    cluster.world.inactive.lock().unwrap().insert(silo(2));
    let error = here.migrate(&id, MigrateTarget::Name("silo-2".to_owned())).await.unwrap_err();
    assert_eq!(error, MigrateError::NotActive("silo-2".to_owned()));
    assert!(matches!(here.migrate(&id, MigrateTarget::Any).await, Err(MigrateError::NoTarget(_))));
    cluster.world.inactive.lock().unwrap().clear();

    let served = cluster.world.classes.lock().unwrap().remove(&(silo(2), id.grain_type().clone()));
    let error = here.migrate(&id, to(2)).await.unwrap_err();
    assert!(matches!(error, MigrateError::NotServed { .. }), "{error}");
    drop(served);

    cluster.deploy(1, "rock", |class| class.info.has_migration = false);
    cluster.deploy(2, "rock", |class| class.info.has_migration = false);
    cluster.activate_on(1, "rock/x").await;
    let error = here.migrate(&grain("rock/x"), to(2)).await.unwrap_err();
    assert_eq!(error.to_string(), "rock is immovable: it exports no granary:grain/migration");
    assert_eq!(cluster.add(2, "counter/a").await, Ok(6));
}

/// A failure before the commit: the source goes on with its state, and the target keeps nothing.
async fn stays(prepare: impl Fn(&Cluster), expected: impl Fn(&MigrateError) -> bool) {
    let cluster = prepared(2).await;
    prepare(&cluster);
    let error = cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap_err();
    assert!(expected(&error), "{error:?}");
    assert_eq!(cluster.add(2, "counter/a").await, Ok(6));
    assert_eq!(cluster.add(1, "counter/a").await, Ok(7));
    until_time(|| cluster.silos[1].activation_count() == 0).await;
    assert_eq!(cluster.place_of("counter/a"), 1);
    assert_eq!(cluster.behaviour.count(" activate"), 1);
    // And the next one works.
    cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap();
    assert_eq!(cluster.add(1, "counter/a").await, Ok(8));
    assert_eq!(cluster.place_of("counter/a"), 2);
}

/// Lets time pass until the condition holds.
async fn until_time(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(120), "the condition never came to hold");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_failure_before_the_commit_leaves_the_source_running_with_its_state() {
    let refused = || TurnFailure::Refused("not now".to_owned());
    stays(
        |cluster| cluster.behaviour.script("dehydrate", refused()),
        |error| *error == MigrateError::GrainRefused("not now".to_owned()),
    )
    .await;
    stays(
        |cluster| cluster.world.fault("restore", Fault::Refused),
        |error| matches!(error, MigrateError::TargetUnreachable { .. }),
    )
    .await;
    stays(
        |cluster| cluster.world.fault("restore", Fault::RequestLost),
        |error| matches!(error, MigrateError::TargetUnreachable { .. }),
    )
    .await;
    stays(
        |cluster| cluster.world.fault("restore", Fault::ReplyLost),
        |error| matches!(error, MigrateError::TargetUnreachable { .. }),
    )
    .await;
    stays(
        |cluster| cluster.behaviour.script("rehydrate", refused()),
        |error| matches!(error, MigrateError::TargetRefused { reason, .. } if reason.contains("not now")),
    )
    .await;
    stays(
        |cluster| cluster.behaviour.script("rehydrate", trap("rehydrate panicked")),
        |error| matches!(error, MigrateError::TargetRefused { .. }),
    )
    .await;
    stays(
        |cluster| cluster.world.fault("move", Fault::Refused),
        |error| matches!(error, MigrateError::NotCommitted(_)),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_was_not_told_of_the_failure_drops_its_copy_by_itself() {
    stays(
        |cluster| {
            cluster.world.fault("restore", Fault::ReplyLost);
            (0..GO_ATTEMPTS_MAX).for_each(|_| cluster.world.fault("abort", Fault::RequestLost));
        },
        |error| matches!(error, MigrateError::TargetUnreachable { .. }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_source_has_at_most_one_target_so_it_waits_until_the_last_one_is_gone() {
    let cluster = prepared(3).await;
    let id = grain("counter/a");
    cluster.world.fault("restore", Fault::ReplyLost);
    (0..2 * GO_ATTEMPTS_MAX).for_each(|_| cluster.world.fault("abort", Fault::RequestLost));
    cluster.silos[0].migrate(&id, to(2)).await.unwrap_err();
    sleep(Duration::from_secs(30)).await;
    let error = cluster.silos[0].migrate(&id, to(3)).await.unwrap_err();
    assert!(matches!(error, MigrateError::Unsettled { silo: at, .. } if at == silo(2)), "{error}");
    assert_eq!(cluster.add(1, "counter/a").await, Ok(6));
    // The link works again: the copy is dropped for sure, and the grain may move.
    cluster.silos[0].migrate(&id, to(3)).await.unwrap();
    assert_eq!(cluster.silos[1].activation_count(), 0);
    assert_eq!(cluster.add(2, "counter/a").await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_target_is_announced_with_the_fence_of_its_source() {
    let cluster = prepared(2).await;
    let fence = cluster.world.entry(&grain("counter/a")).unwrap().fence;
    cluster.world.fault("restore", Fault::ReplyLost);
    (0..GO_ATTEMPTS_MAX).for_each(|_| cluster.world.fault("abort", Fault::RequestLost));
    cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap_err();
    let announced: Vec<u64> = cluster.world.frozen.lock().unwrap().values().map(|it| it.fence).collect();
    assert_eq!(announced, [fence]);
    assert!(fence > 0);
}

#[tokio::test(start_paused = true)]
async fn calls_that_reach_a_target_which_is_not_committed_go_back_to_the_source() {
    let cluster = prepared(2).await;
    cluster.world.fault("restore", Fault::ReplyLost);
    (0..10).for_each(|_| cluster.world.fault("abort", Fault::RequestLost));
    cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap_err();
    assert_eq!(cluster.silos[1].describe(&grain("counter/a")).unwrap().state, ActivationState::Frozen);
    let before = Instant::now();
    assert_eq!(cluster.add(2, "counter/a").await, Ok(6));
    assert!(before.elapsed() <= Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_restoration_that_was_given_up_holds_no_call_back() {
    let cluster = prepared(2).await;
    cluster.behaviour.held.lock().unwrap().insert("rehydrate");
    // The source hears at once that nobody knows, and tells the target to drop its copy.
    cluster.world.fault("restore", Fault::ReplyLost);
    let moving = tokio::spawn({
        let silo = cluster.silos[0].clone();
        async move { silo.migrate(&grain("counter/a"), to(2)).await }
    });
    until(|| cluster.silos[1].describe(&grain("counter/a")).is_some()).await;
    let before = Instant::now();
    let call = cluster.silos[1].call(request("counter/a", "add", &1_u64.to_le_bytes()), None);
    let both = tokio::join!(call, moving);
    assert_eq!(both.0.outcome.map(|it| number(&it)), Ok(6));
    both.1.unwrap().unwrap_err();
    assert!(before.elapsed() <= Duration::from_secs(11), "{:?}", before.elapsed());
    until(|| cluster.silos[1].activation_count() == 0).await;
}

/// Migrations to and fro with faults drawn from a seed, under callers on all silos.
async fn storm(seed: u64) {
    let cluster = prepared(3).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for caller in 0..6 {
        let (silo, stop) = (cluster.silos[caller % 3].clone(), Arc::clone(&stop));
        callers.push(tokio::spawn(async move {
            let mut values = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                let call = request("counter/a", "add", &1_u64.to_le_bytes());
                values.push(number(&silo.call(call, None).await.outcome.unwrap()));
                sleep(Duration::from_millis(7 + caller as u64)).await;
            }
            values
        }));
    }
    let mut state = seed;
    let mut draw = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for _ in 0..60 {
        cluster.world.faults.lock().unwrap().clear();
        for (kind, faults_max) in [("restore", 1), ("go", 6), ("abort", 6), ("move", 3)] {
            for _ in 0..draw(faults_max + 1) {
                let fault =
                    [Fault::Refused, Fault::RequestLost, Fault::ReplyLost][usize::try_from(draw(3)).unwrap()];
                cluster.world.fault(kind, fault);
            }
        }
        let target = u16::try_from(draw(3)).unwrap() + 1;
        for silo in &cluster.silos {
            if silo.describe(&grain("counter/a")).is_some_and(|it| it.state == ActivationState::Valid) {
                let _ = silo.migrate(&grain("counter/a"), to(target)).await;
                break;
            }
        }
        sleep(Duration::from_millis(draw(900))).await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut values = Vec::new();
    for caller in callers {
        values.extend(caller.await.unwrap());
    }
    values.sort_unstable();
    assert_eq!(values, (6..6 + values.len() as u64).collect::<Vec<_>>(), "seed {seed}");
    assert_eq!(cluster.behaviour.violations.load(Ordering::SeqCst), 0, "seed {seed}");
    assert_eq!(cluster.behaviour.count(" activate"), 1, "seed {seed}");
    let moved: u64 = cluster.silos.iter().map(|silo| silo.metrics().migrations_in).sum();
    assert!(moved > 5, "seed {seed}: only {moved} migrations");
}

#[tokio::test(start_paused = true)]
async fn lost_messages_at_random_skip_and_repeat_no_value() {
    for seed in 0..20 {
        storm(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_trap_in_dehydrate_ends_the_activation() {
    let cluster = prepared(2).await;
    cluster.behaviour.script("dehydrate", trap("dehydrate panicked"));
    let error = cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap_err();
    assert_eq!(error, MigrateError::Ended(grain("counter/a")));
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn in_doubt_the_source_stays_frozen_until_the_directory_answers() {
    for fault in [Fault::RequestLost, Fault::ReplyLost] {
        let cluster = prepared(2).await;
        (0..5).for_each(|_| cluster.world.fault("move", fault));
        let moving = tokio::spawn({
            let silo = cluster.silos[0].clone();
            async move { silo.migrate(&grain("counter/a"), to(2)).await }
        });
        until(|| {
            let state = cluster.silos[0].describe(&grain("counter/a")).map(|it| it.state);
            state == Some(ActivationState::Migrating)
        })
        .await;
        // A call that comes meanwhile is answered by whoever has the grain in the end.
        assert_eq!(cluster.add(1, "counter/a").await, Ok(6), "{fault:?}");
        moving.await.unwrap().unwrap();
        assert_eq!(cluster.place_of("counter/a"), 2);
        assert_eq!(cluster.behaviour.violations.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_hears_no_go_reads_its_own_registration() {
    let cluster = prepared(2).await;
    (0..20).for_each(|_| cluster.world.fault("go", Fault::RequestLost));
    let moving = tokio::spawn({
        let silo = cluster.silos[0].clone();
        async move { silo.migrate(&grain("counter/a"), to(2)).await }
    });
    let before = Instant::now();
    assert_eq!(cluster.add(1, "counter/a").await.map(|value| value >= 6), Ok(true));
    assert!(before.elapsed() <= Duration::from_secs(1));
    let error = moving.await.unwrap().unwrap_err();
    assert!(matches!(error, MigrateError::TargetSilent { .. }), "{error:?}");
    assert_eq!(cluster.place_of("counter/a"), 2);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_go_is_harmless() {
    let cluster = prepared(2).await;
    cluster.world.fault("go", Fault::ReplyLost);
    cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap();
    assert_eq!(cluster.add(1, "counter/a").await, Ok(6));
}

#[tokio::test(start_paused = true)]
async fn after_the_commit_the_source_never_runs_again_even_if_the_target_dies() {
    let cluster = prepared(2).await;
    cluster.world.fault("move", Fault::ReplyLost);
    let moving = tokio::spawn({
        let silo = cluster.silos[0].clone();
        async move { silo.migrate(&grain("counter/a"), to(2)).await }
    });
    until(|| cluster.world.entry(&grain("counter/a")).is_some_and(|entry| entry.silo == silo(2))).await;
    cluster.world.kill(silo(2));
    assert!(moving.await.unwrap().is_err());
    // A fresh activation: the state in memory died with the target, and nobody sees an older one.
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    assert_eq!(cluster.behaviour.count(" activate"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_dies_before_the_commit_costs_nothing() {
    let cluster = prepared(2).await;
    cluster.behaviour.held.lock().unwrap().insert("rehydrate");
    let moving = tokio::spawn({
        let silo = cluster.silos[0].clone();
        async move { silo.migrate(&grain("counter/a"), to(2)).await }
    });
    until(|| cluster.silos[1].describe(&grain("counter/a")).is_some()).await;
    cluster.world.kill(silo(2));
    let error = moving.await.unwrap().unwrap_err();
    assert!(matches!(error, MigrateError::TargetUnreachable { .. }), "{error:?}");
    assert_eq!(cluster.add(1, "counter/a").await, Ok(6));
}

#[tokio::test(start_paused = true)]
async fn a_dehydrate_or_rehydrate_that_hangs_is_cut_off() {
    let cluster = prepared(2).await;
    cluster.behaviour.held.lock().unwrap().insert("rehydrate");
    let before = Instant::now();
    let error = cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap_err();
    assert!(
        matches!(error, MigrateError::TargetUnreachable { .. } | MigrateError::TargetRefused { .. }),
        "{error:?}"
    );
    assert!(before.elapsed() <= Duration::from_secs(11));
    assert_eq!(cluster.add(1, "counter/a").await, Ok(6));

    cluster.behaviour.held.lock().unwrap().insert("dehydrate");
    let error = cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap_err();
    assert_eq!(error, MigrateError::Ended(grain("counter/a")));
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn state_is_carried_to_a_newer_component_that_understands_it() {
    let cluster = prepared(2).await;
    cluster.deploy(2, "counter", |class| class.info.digest = Digest::of(b"newer"));
    cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap();
    assert_eq!(cluster.add(1, "counter/a").await, Ok(6));
    assert_eq!(cluster.silos[1].describe(&grain("counter/a")).unwrap().digest, Digest::of(b"newer"));

    let cluster = prepared(2).await;
    cluster.deploy(2, "counter", |class| {
        class.info.digest = Digest::of(b"newer");
        class.info.has_migration = false;
    });
    let error = cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap_err();
    assert!(matches!(error, MigrateError::TargetRefused { .. }), "{error:?}");
    assert_eq!(cluster.add(1, "counter/a").await, Ok(6));
}

#[tokio::test(start_paused = true)]
async fn a_grain_may_ask_to_move() {
    let cluster = prepared(2).await;
    cluster.call(1, "counter/a", "move", &[]).await.unwrap();
    assert_eq!(cluster.add(1, "counter/a").await, Ok(6));
    until(|| cluster.silos[0].activation_count() == 0).await;
    assert_eq!(cluster.place_of("counter/a"), 2);
}

#[tokio::test(start_paused = true)]
async fn the_migrated_state_has_a_newer_fence() {
    let cluster = prepared(2).await;
    cluster.call(1, "counter/a", "write", b"1").await.unwrap();
    let before = cluster.world.entry(&grain("counter/a")).unwrap().fence;
    cluster.silos[0].migrate(&grain("counter/a"), to(2)).await.unwrap();
    let after = cluster.world.entry(&grain("counter/a")).unwrap().fence;
    assert!(after > before);
    assert_eq!(cluster.call(1, "counter/a", "read", &[]).await, Ok(b"1".to_vec()));
    cluster.call(1, "counter/a", "write", b"2").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_migrations_at_once_do_not_mix() {
    let cluster = prepared(3).await;
    let wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    until(|| cluster.behaviour.count("wait") == 1).await;
    let first = tokio::spawn({
        let silo = cluster.silos[0].clone();
        async move { silo.migrate(&grain("counter/a"), to(2)).await }
    });
    tokio::task::yield_now().await;
    let error = cluster.silos[0].migrate(&grain("counter/a"), to(3)).await.unwrap_err();
    assert_eq!(error, MigrateError::Busy(grain("counter/a")));
    cluster.open_gate(1);
    wait.await.unwrap().unwrap();
    assert_eq!(first.await.unwrap().unwrap().to, silo(2));
    assert_eq!(cluster.call(3, "counter/a", "get", &[]).await.map(|it| number(&it)), Ok(5));
}

#[tokio::test(start_paused = true)]
async fn a_package_of_another_silo_is_refused() {
    let cluster = prepared(2).await;
    let package = granary_core::wire::MigrationPackage {
        grain: grain("counter/b"),
        digest: Digest::of(b"counter"),
        source: silo(1),
        source_activation: granary_core::id::ActivationId(1),
        target_activation: granary_core::id::ActivationId(2),
        state: vec![0; 8],
        fence: 1,
    };
    let request = granary_core::wire::MigrateRequest::Restore(package);
    let reply = cluster.silos[1].handle_migrate(silo(3), request).await;
    assert!(matches!(reply, granary_core::wire::MigrateReply::Refused(_)));
    assert_ne!(cluster.add(1, "counter/a").await, Err(CallError::TimedOut));
}
