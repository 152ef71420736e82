//! Cycles across chains (decision A12): found without a timeout, and one call of each cycle pays.

use std::time::Duration;

use granary_core::hosting::CallError;
use tokio::time::Instant;

use super::harness::*;
use crate::cycles::PROBE_AFTER;

/// Lets each grain of a ring call the next one while all their turns run.
async fn ring(cluster: &Cluster, grains: &[&str]) -> Vec<Result<Vec<u8>, CallError>> {
    let silos = cluster.silos.len();
    let mut calls = Vec::new();
    for (n, to) in grains.iter().enumerate() {
        let next = format!("{} get", grains[(n + 1) % grains.len()]);
        calls.push(cluster.begin(n % silos + 1, to, "wait-call", next.as_bytes()).await);
    }
    until(|| cluster.behaviour.count("wait-call") == grains.len()).await;
    cluster.open_gate(grains.len());
    let mut ends = Vec::new();
    for call in calls {
        ends.push(call.await.unwrap());
    }
    ends
}

fn deadlocks(ends: &[Result<Vec<u8>, CallError>]) -> Vec<String> {
    let text = |end: &Result<_, CallError>| end.as_ref().err().map(ToString::to_string);
    ends.iter().filter_map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn two_grains_that_call_each_other_wait_for_a_tenth_of_a_second_and_one_goes_on() {
    for silos in [1, 2] {
        let cluster = Cluster::new(silos);
        let begun = Instant::now();
        let ends = ring(&cluster, &["counter/a", "counter/b"]).await;
        let texts = deadlocks(&ends);
        assert_eq!(texts.len(), 1, "{ends:?}");
        assert!(texts[0].contains("deadlock: counter/"), "{texts:?}");
        assert_eq!(texts[0].matches(" -> ").count(), 2, "{texts:?}");
        assert!(begun.elapsed() < PROBE_AFTER * 3, "{:?}", begun.elapsed());
        // The call that was refused never ran: one of the two `get`s did.
        assert_eq!(cluster.behaviour.count(" get on"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_ring_over_several_silos_is_found_with_its_grains_in_order() {
    let cluster = Cluster::new(3);
    let ends = ring(&cluster, &["counter/a", "counter/b", "counter/c", "counter/d"]).await;
    let texts = deadlocks(&ends);
    assert_eq!(texts.len(), 1, "{ends:?}");
    let whole = "counter/a -> counter/b -> counter/c -> counter/d -> counter/a -> counter/b -> counter/c -> \
                 counter/d -> counter/a";
    let chain = texts[0].split("deadlock: ").nth(1).unwrap();
    assert_eq!(chain.matches(" -> ").count(), 4, "{chain}");
    assert!(whole.contains(chain), "{chain}");
}

#[tokio::test(start_paused = true)]
async fn slow_calls_without_a_cycle_are_left_alone() {
    let cluster = Cluster::new(2);
    let slow = cluster.begin(1, "counter/slow", "wait", &[]).await;
    let waits = cluster.begin(2, "counter/a", "call", b"counter/slow get").await;
    let behind = cluster.begin(1, "counter/b", "call", b"counter/a get").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let probes: u64 = cluster.silos.iter().map(|silo| silo.metrics().probes).sum();
    assert!(probes > 0, "nobody looked");
    cluster.open_gate(1);
    for call in [slow, waits, behind] {
        call.await.unwrap().unwrap();
    }
    assert!(cluster.silos.iter().all(|silo| silo.metrics().deadlocks == 0));
}

#[tokio::test(start_paused = true)]
async fn random_call_graphs_neither_hang_nor_interleave() {
    const GRAINS: u64 = 6;
    const CALLS: usize = 12;

    let mut ended = [0; 2];
    for seed in 0..60_u64 {
        let cluster = Cluster::new(2);
        let mut state = seed;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let mut calls = Vec::new();
        for _ in 0..CALLS {
            // Each grain of the path calls the next one: "counter/2 call counter/5 get".
            let first = format!("counter/{}", random(GRAINS));
            let path: Vec<_> = (0..=random(4)).map(|_| format!("counter/{}", random(GRAINS))).collect();
            let args = path.join(" call ") + " get";
            let silo = cluster.silos[usize::try_from(random(2)).unwrap()].clone();
            let call = request(&first, "call", args.as_bytes());
            calls.push(tokio::spawn(async move { silo.call(call, None).await.outcome }));
        }
        let begun = Instant::now();
        for call in calls {
            let end = call.await.unwrap();
            let text = end.as_ref().err().map(ToString::to_string).unwrap_or_default();
            assert!(end.is_ok() || text.contains("deadlock: "), "seed {seed}: {text}");
            ended[usize::from(end.is_ok())] += 1;
        }
        assert!(begun.elapsed() < Duration::from_secs(15), "seed {seed}: {:?}", begun.elapsed());
        let violations = cluster.behaviour.violations.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(violations, 0, "seed {seed}: turns overlapped");
    }
    assert!(ended.iter().all(|count| *count > 50), "the graphs are too easy or too hard: {ended:?}");
}
