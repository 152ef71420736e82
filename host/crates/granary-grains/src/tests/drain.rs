//! Shutdown: what can move moves, the rest ends, and callers through other silos never fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use granary_core::hosting::{CallError, TurnFailure};

use super::harness::*;
use crate::MigrateTarget;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_through_other_silos_never_fail_while_a_silo_drains() {
    const GRAINS: usize = 40;

    let cluster = Cluster::new(3);
    for key in 0..GRAINS {
        cluster.activate_on(1, &format!("counter/{key}")).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for caller in 0..8 {
        let (silo, stop) = (cluster.silos[1 + caller % 2].clone(), Arc::clone(&stop));
        callers.push(tokio::spawn(async move {
            let mut made = vec![0_u64; GRAINS];
            let mut key = caller;
            while !stop.load(Ordering::SeqCst) {
                key = (key + 7) % GRAINS;
                let call = request(&format!("counter/{key}"), "add", &1_u64.to_le_bytes());
                silo.call(call, None).await.outcome.unwrap();
                made[key] += 1;
            }
            made
        }));
    }
    let report = cluster.silos[0].drain(Duration::from_secs(20), true).await;
    assert_eq!((report.migrated, report.deactivated, report.remaining), (GRAINS, 0, 0), "{report:?}");
    // The silo is gone: nobody may need it any more.
    cluster.world.kill(silo(1));
    stop.store(true, Ordering::SeqCst);
    let mut made = vec![0_u64; GRAINS];
    for caller in callers {
        let counts = caller.await.unwrap();
        made.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    for (key, count) in made.into_iter().enumerate() {
        assert_eq!(cluster.add(2, &format!("counter/{key}")).await, Ok(count + 1));
    }
    assert_eq!(cluster.behaviour.violations.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_move_deactivates() {
    let cluster = Cluster::with(2, |class| class.info.has_migration = false);
    cluster.activate_on(1, "counter/a").await;
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    let report = cluster.silos[0].drain(Duration::from_secs(20), true).await;
    assert_eq!((report.migrated, report.deactivated, report.remaining), (0, 1, 0));
    assert_eq!(cluster.behaviour.count("deactivate ShuttingDown"), 1);
    assert_eq!(cluster.add(2, "counter/a").await, Ok(1));
    assert_eq!(cluster.place_of("counter/a"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_does_not_answer_costs_a_try_and_not_the_state() {
    let cluster = Cluster::new(3);
    cluster.activate_on(1, "counter/a").await;
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    (0..2).for_each(|_| cluster.world.fault("restore", Fault::RequestLost));
    let report = cluster.silos[0].drain(Duration::from_secs(60), true).await;
    assert_eq!((report.migrated, report.deactivated, report.remaining), (1, 0, 0), "{report:?}");
    assert_eq!(cluster.add(2, "counter/a").await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_go_to_a_stopping_silo_from_memory() {
    let cluster = Cluster::new(3);
    cluster.activate_on(1, "counter/a").await;
    assert_eq!(cluster.add(3, "counter/a").await, Ok(1));
    // It moves without the third silo's knowledge, and its old silo begins to stop.
    cluster.silos[0].migrate(&grain("counter/a"), MigrateTarget::Silo(silo(2))).await.unwrap();
    cluster.world.inactive.lock().unwrap().insert(silo(1));
    let before = cluster.silos[0].metrics().calls_inbound;
    assert_eq!(cluster.add(3, "counter/a").await, Ok(2));
    assert_eq!(cluster.silos[0].metrics().calls_inbound, before);
}

#[tokio::test(start_paused = true)]
async fn a_grain_that_refuses_to_dehydrate_deactivates() {
    let cluster = Cluster::new(2);
    cluster.activate_on(1, "counter/a").await;
    cluster.behaviour.script("dehydrate", TurnFailure::Refused("not now".to_owned()));
    let report = cluster.silos[0].drain(Duration::from_secs(20), true).await;
    assert_eq!((report.migrated, report.deactivated, report.remaining), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_draining_silo_activates_nothing_and_passes_calls_on() {
    let cluster = Cluster::new(2);
    cluster.silos[0].drain(Duration::from_secs(1), true).await;
    assert!(cluster.silos[0].is_draining());
    // One that was placed here by a silo which did not know yet.
    let mut call = request("counter/a", "add", &1_u64.to_le_bytes());
    call.may_activate = true;
    let reply = cluster.silos[0].handle_invoke(silo(2), call, Duration::from_secs(5)).await;
    assert_eq!((reply.outcome.map(|it| number(&it)), reply.location), (Ok(1), Some(silo(2))));
    for key in 0..10 {
        assert_eq!(cluster.add(1, &format!("counter/x{key}")).await, Ok(1));
    }
    assert_eq!(cluster.silos[0].activation_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lone_silo_that_drains_says_so() {
    let cluster = Cluster::new(1);
    cluster.add(1, "counter/a").await.unwrap();
    let report = cluster.silos[0].drain(Duration::from_secs(5), true).await;
    assert_eq!((report.migrated, report.deactivated, report.remaining), (0, 1, 0));
    let error = cluster.add(1, "counter/a").await.unwrap_err();
    assert!(matches!(&error, CallError::NotDelivered(text) if text.contains("no active silo")), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_drain_holds_when_a_turn_does_not_end() {
    let cluster = Cluster::new(2);
    cluster.activate_on(1, "counter/a").await;
    let _wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    let began = tokio::time::Instant::now();
    let report = cluster.silos[0].drain(Duration::from_secs(5), true).await;
    assert_eq!((report.migrated, report.deactivated, report.remaining), (0, 0, 1));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}
