//! Calls: delivery, order, deadlines, cycles, errors.

use std::time::Duration;

use granary_core::hosting::{CallError, InterfaceInfo, TextFormat, TurnContext};
use granary_core::id::Digest;
use tokio::time::{Instant, sleep};

use super::harness::*;
use crate::CallTextError;

#[tokio::test(start_paused = true)]
async fn a_grain_keeps_its_value_whichever_silo_is_asked() {
    let cluster = Cluster::new(3);
    for n in 1..=9_u64 {
        let silo = usize::try_from(n % 3).unwrap() + 1;
        assert_eq!(cluster.add(silo, "counter/a").await, Ok(n));
    }
    assert_eq!(cluster.behaviour.count("activate"), 1);
    cluster.place_of("counter/a");
}

#[tokio::test(start_paused = true)]
async fn first_calls_at_the_same_moment_make_one_activation() {
    let cluster = Cluster::new(3);
    let mut calls = Vec::new();
    for n in 0..30 {
        let silo = cluster.silos[n % 3].clone();
        let request = request("counter/a", "add", &1_u64.to_le_bytes());
        calls.push(tokio::spawn(async move { silo.call(request, None).await.outcome }));
    }
    let mut values = Vec::new();
    for call in calls {
        values.push(number(&call.await.unwrap().unwrap()));
    }
    values.sort_unstable();
    assert_eq!(values, (1..=30).collect::<Vec<_>>());
    assert_eq!(cluster.behaviour.count("activate"), 1);
    cluster.place_of("counter/a");
}

#[tokio::test(start_paused = true)]
async fn turns_run_one_at_a_time_in_the_order_of_the_calls() {
    let cluster = Cluster::new(1);
    let first = cluster.begin(1, "counter/a", "wait", &[]).await;
    let mut rest = Vec::new();
    for _ in 0..10 {
        rest.push(cluster.begin(1, "counter/a", "add", &1_u64.to_le_bytes()).await);
    }
    cluster.open_gate(1);
    first.await.unwrap().unwrap();
    for (n, call) in rest.into_iter().enumerate() {
        assert_eq!(number(&call.await.unwrap().unwrap()), n as u64 + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_answers_the_caller_and_never_drops_the_turn() {
    let cluster = Cluster::new(1);
    let reply = cluster.silos[0].call(request("counter/a", "wait", &[]), Some(Duration::from_secs(2))).await;
    assert_eq!(reply.outcome, Err(CallError::TimedOut));
    assert!(cluster.silos[0].describe(&grain("counter/a")).unwrap().running);
    cluster.open_gate(1);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    assert_eq!(cluster.behaviour.count("activate"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_does_not_drop_the_turn() {
    let cluster = Cluster::new(1);
    let call = cluster.begin(1, "counter/a", "wait", &[]).await;
    until(|| cluster.behaviour.count("wait") == 1).await;
    call.abort();
    let _ = call.await;
    cluster.open_gate(1);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    assert_eq!(cluster.behaviour.count("activate"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queued_call_whose_time_is_up_does_not_run() {
    let cluster = Cluster::new(1);
    let first = cluster.begin(1, "counter/a", "wait", &[]).await;
    let late = request("counter/a", "add", &1_u64.to_le_bytes());
    let reply = cluster.silos[0].call(late, Some(Duration::from_secs(1))).await;
    assert_eq!(reply.outcome, Err(CallError::TimedOut));
    cluster.open_gate(1);
    first.await.unwrap().unwrap();
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    assert_eq!(cluster.silos[0].metrics().calls_expired, 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_refuses_at_once() {
    let cluster = Cluster::with(2, |class| class.info.limits.mailbox_max = 3);
    cluster.activate_on(2, "counter/a").await;
    let mut calls = vec![cluster.begin(1, "counter/a", "wait", &[]).await];
    until(|| cluster.behaviour.count("wait") == 1).await;
    for _ in 0..3 {
        calls.push(cluster.begin(1, "counter/a", "get", &[]).await);
    }
    for silo in [1, 2] {
        let before = Instant::now();
        let refused = cluster.add(silo, "counter/a").await;
        assert!(matches!(refused, Err(CallError::Overloaded { .. })), "{refused:?}");
        assert_eq!(before.elapsed(), Duration::ZERO);
    }
    cluster.open_gate(1);
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cycle_is_answered_at_once_with_its_chain() {
    let cluster = Cluster::new(2);
    cluster.activate_on(1, "counter/a").await;
    cluster.activate_on(2, "counter/b").await;
    let before = Instant::now();
    let error = cluster.call(1, "counter/a", "call", b"counter/b call counter/a get").await.unwrap_err();
    assert_eq!(error, CallError::Failed("failed: deadlock: counter/a -> counter/b -> counter/a".to_owned()));
    assert_eq!(before.elapsed(), Duration::ZERO);
    let error = cluster.call(1, "counter/a", "call", b"counter/a get").await.unwrap_err();
    assert_eq!(error, CallError::Failed("deadlock: counter/a -> counter/a".to_owned()));
    assert_eq!(cluster.silos[0].metrics().deadlocks + cluster.silos[1].metrics().deadlocks, 2);
}

#[tokio::test(start_paused = true)]
async fn a_one_way_call_to_oneself_is_no_cycle() {
    let cluster = Cluster::new(1);
    cluster.call(1, "counter/a", "call", b"counter/a get one-way").await.unwrap();
    until(|| cluster.behaviour.count("counter/a get") == 1).await;
}

#[tokio::test(start_paused = true)]
async fn one_way_calls_are_accepted_and_run_wherever_the_grain_is() {
    let cluster = Cluster::new(2);
    cluster.activate_on(2, "counter/a").await;
    for _ in 0..5 {
        let mut call = request("counter/a", "add", &1_u64.to_le_bytes());
        call.one_way = true;
        assert_eq!(cluster.silos[0].call(call, None).await.outcome, Ok(Vec::new()));
    }
    until(|| cluster.behaviour.count("counter/a add") == 5).await;
    assert_eq!(cluster.add(1, "counter/a").await, Ok(6));
}

#[tokio::test(start_paused = true)]
async fn a_trap_ends_the_activation_and_the_calls_behind_it_go_to_a_fresh_one() {
    let cluster = Cluster::new(2);
    cluster.activate_on(2, "counter/a").await;
    let wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    let trap = cluster.begin(1, "counter/a", "trap", &[]).await;
    let mut behind = Vec::new();
    for n in 0..6 {
        behind.push(cluster.begin(n % 2 + 1, "counter/a", "add", &1_u64.to_le_bytes()).await);
    }
    cluster.open_gate(1);
    wait.await.unwrap().unwrap();
    assert_eq!(trap.await.unwrap(), Err(CallError::Failed("the guest panicked".to_owned())));
    let mut values = Vec::new();
    for call in behind {
        values.push(number(&call.await.unwrap().unwrap()));
    }
    values.sort_unstable();
    assert_eq!(values, [1, 2, 3, 4, 5, 6]);
    assert_eq!(cluster.behaviour.count("activate"), 2);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_leave_the_activation_alive() {
    let cluster = Cluster::new(1);
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    let error = cluster.call(1, "counter/a", "bad", &[]).await.unwrap_err();
    assert_eq!(error, CallError::Incompatible("these are no arguments".to_owned()));
    assert_eq!(cluster.add(1, "counter/a").await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_method_of_another_type_is_refused_with_both_signatures() {
    let cluster = Cluster::new(1);
    cluster.deploy(1, "caller", |class| {
        let mut reference: InterfaceInfo = class.info.interfaces[0].clone();
        let method = reference.methods.get_mut("add").unwrap();
        method.hash = Digest::of(b"another add");
        method.signature = "func(by: string)".to_owned();
        class.info.references.push(reference);
    });
    let mut call = request("counter/a", "add", &[]);
    call.method.hash = Digest::of(b"another add");
    call.context.chain.push(grain("caller/x"));
    let error = cluster.silos[0].call(call.clone(), None).await.outcome.unwrap_err();
    let CallError::Incompatible(text) = error else { panic!("{error:?}") };
    assert!(text.contains("func(add)") && text.contains("func(by: string)"), "{text}");

    call.method.method = "subtract".into();
    let error = cluster.silos[0].call(call, None).await.outcome.unwrap_err();
    let CallError::NotFound(text) = error else { panic!("{error:?}") };
    assert!(text.contains("subtract") && text.contains("add, get"), "{text}");
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_grain_type_is_not_found_and_the_known_ones_are_named() {
    let cluster = Cluster::new(2);
    let error = cluster.call(1, "conter/a", "get", &[]).await.unwrap_err();
    assert_eq!(
        error,
        CallError::NotFound("the grain type conter is not deployed; deployed are: counter".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn calls_by_text_name_what_does_not_fit() {
    let cluster = Cluster::new(1);
    let silo = &cluster.silos[0];
    let call = |method: &'static str, args: &'static str| {
        silo.call_text(grain("counter/a"), method, TextFormat::Json, args, TurnContext::default(), None)
    };
    assert_eq!(call("add", "5").await, Ok("5".to_owned()));
    assert_eq!(call("add", "5").await, Ok("10".to_owned()));
    let error = call("add", "x").await.unwrap_err();
    assert!(matches!(&error, CallTextError::Arguments { path, .. } if path == "$[0]"), "{error:?}");
    let error = call("nothing", "1").await.unwrap_err();
    assert!(matches!(&error, CallTextError::Call(CallError::NotFound(_))), "{error:?}");
    let unknown =
        silo.call_text(grain("x/a"), "add", TextFormat::Json, "1", TurnContext::default(), None).await;
    assert!(matches!(&unknown, Err(CallTextError::Call(CallError::NotFound(_)))), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stale_location_is_repaired_by_the_reply() {
    let cluster = Cluster::new(3);
    cluster.activate_on(2, "counter/a").await;
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    // It ends on silo 2 and comes up on silo 3, of which silo 1 hears nothing.
    let ended = cluster.silos[1]
        .deactivate(
            &grain("counter/a"),
            granary_core::hosting::DeactivationReason::RuntimeRequested,
            Duration::from_secs(1),
        )
        .await;
    assert!(ended);
    cluster.activate_on(3, "counter/a").await;
    let reply = cluster.silos[0].call(request("counter/a", "add", &1_u64.to_le_bytes()), None).await;
    assert_eq!((reply.outcome.map(|it| number(&it)), reply.location), (Ok(1), Some(silo(3))));
    let forwarded = cluster.silos[1].metrics().calls_forwarded;
    assert_eq!(cluster.add(1, "counter/a").await, Ok(2));
    assert_eq!(cluster.silos[1].metrics().calls_forwarded, forwarded);
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_dead_silo_go_on_elsewhere_when_they_were_not_delivered() {
    let cluster = Cluster::new(2);
    cluster.activate_on(2, "counter/a").await;
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    cluster.world.down.lock().unwrap().insert(silo(2));
    let world = std::sync::Arc::clone(&cluster.world);
    tokio::spawn(async move {
        sleep(Duration::from_secs(4)).await;
        world.kill(silo(2));
    });
    let before = Instant::now();
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    let took = before.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(5)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_is_not_repeated() {
    let cluster = Cluster::new(2);
    cluster.activate_on(2, "counter/a").await;
    cluster.world.fault("invoke", Fault::ReplyLost);
    let error = cluster.add(1, "counter/a").await.unwrap_err();
    assert!(matches!(error, CallError::UnknownOutcome(_)), "{error:?}");
    assert_eq!(cluster.add(1, "counter/a").await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_silo_that_is_not_valid_holds_turns_back_and_then_refuses_them() {
    let cluster = Cluster::new(1);
    let silo = &cluster.silos[0];
    assert_eq!(cluster.add(1, "counter/a").await, Ok(1));
    silo.validity().set(false);
    assert_eq!(cluster.add(1, "counter/a").await, Err(CallError::Fenced));
    let held = cluster.begin(1, "counter/a", "add", &1_u64.to_le_bytes()).await;
    silo.validity().set(true);
    assert_eq!(held.await.unwrap().map(|it| number(&it)), Ok(2));

    // A reply that was ready does not leave while the silo is not valid.
    let wait = cluster.begin(1, "counter/a", "wait", &[]).await;
    until(|| cluster.behaviour.count("wait") == 1).await;
    silo.validity().set(false);
    cluster.open_gate(1);
    assert_eq!(wait.await.unwrap(), Err(CallError::Fenced));
}

#[tokio::test(start_paused = true)]
async fn what_a_grain_calls_has_no_more_time_than_its_own_call() {
    let cluster = Cluster::new(2);
    cluster.activate_on(1, "counter/a").await;
    cluster.activate_on(2, "counter/b").await;
    let before = Instant::now();
    let call = request("counter/a", "call", b"counter/b wait");
    let reply = cluster.silos[0].call(call, Some(Duration::from_secs(3))).await;
    assert!(reply.outcome.is_err());
    assert_eq!(before.elapsed(), Duration::from_secs(3));
    until(|| !cluster.silos[0].describe(&grain("counter/a")).unwrap().running).await;
    assert!(before.elapsed() < Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn forwards_are_bounded() {
    let cluster = Cluster::new(2);
    cluster.world.set_entry(&grain("counter/a"), silo(2));
    let mut call = request("counter/a", "get", &[]);
    call.forwards = crate::FORWARDS_MAX;
    let reply = cluster.silos[0].handle_invoke(silo(9), call, Duration::from_secs(5)).await;
    assert!(matches!(reply.outcome, Err(CallError::NotDelivered(_))), "{reply:?}");
    assert_eq!(reply.location, Some(silo(2)));
}
