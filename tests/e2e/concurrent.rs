//! Grains with `async func`s: several calls at once, turns that overlap where a type declares it, and nowhere else.

use std::time::{Duration, Instant};

use granary_tests::{Cluster, Http, Silo, guest, wait_until};
use serde_json::{Value, json};

/// Grains of each type that random paths lead to; as in the guest.
const NUMBERS: u32 = 12;

fn call(silo: &Silo, grain: &str, method: &str, arguments: &Value) -> granary_tests::Answer {
    silo.gateway().call(grain, method, arguments).unwrap()
}

/// Deploys the walker as it is, and once more as a type whose turns do not overlap.
fn deploy(silo: &Silo) {
    silo.deploy(&["walker"]);
    let closed = ["--property", "grain-type=closed", "--property", "reentrant=false"];
    let file = guest("walker");
    let _ = silo.cli(&[&["deploy", file.to_str().unwrap()], &closed[..]].concat()).ok();
}

#[test]
fn ten_calls_are_under_way_at_once_and_meet_in_a_reentrant_grain() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    deploy(&one);
    // Neither the fan-out nor the hall could let ten meet if one of them took calls one by one.
    assert_eq!(call(&one, "walker/host", "gather", &json!([10])).ok(), json!(10));
    assert_eq!(
        call(&two, "closed/host", "gather", &json!([10])).ok(),
        json!(10),
        "fan-out needs no reentrancy"
    );
    assert_eq!(call(&one, "walker/hall", "seen", &json!([])).ok()["most"], json!(10));

    let _ = call(&one, "closed/fan", "spread", &json!([10, 0])).ok();
    let started = Instant::now();
    assert_eq!(call(&one, "closed/fan", "spread", &json!([10, 50])).ok(), json!(10));
    let took = started.elapsed();
    println!("ten calls of 50 ms took {took:?}");
    assert!(took < Duration::from_millis(400), "{took:?}: one after the other they take 500 ms");
}

#[test]
fn in_random_graphs_of_calls_only_reentrant_grains_interleave() {
    const CLIENTS: u64 = 6;
    const WALKS: u64 = 10;
    let cluster = Cluster::new();
    let silos = [cluster.start("silo-1"), cluster.start("silo-2")];
    deploy(&silos[0]);
    let visits: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let gateway = Http::keeping(&silos[usize::try_from(client % 2).unwrap()].gateway);
                scope.spawn(move || {
                    let walk = |walk: u64| {
                        let (grain, seed) = (format!("walker/{}", walk % 3), client * WALKS + walk);
                        let answer = gateway.call(&grain, "visit", &json!([seed, 4, 0])).unwrap().ok();
                        answer["ok"].as_u64().unwrap_or_else(|| panic!("seed {seed}: {answer}"))
                    };
                    (0..WALKS).map(walk).sum::<u64>()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let seen = |grain_type: &str| -> (u64, u64) {
        let tallies: Vec<Value> = (0..NUMBERS)
            .map(|number| call(&silos[0], &format!("{grain_type}/{number}"), "seen", &json!([])).ok())
            .collect();
        let each = |field: &str| tallies.iter().map(|it| it[field].as_u64().unwrap()).collect::<Vec<_>>();
        (each("visits").iter().sum(), each("most").into_iter().max().unwrap())
    };
    let ((open, open_most), (closed, closed_most)) = (seen("walker"), seen("closed"));
    println!(
        "{open} visits of reentrant grains, at most {open_most} at once; {closed} of others, {closed_most}"
    );
    assert_eq!(open + closed, visits, "a visit was lost or made twice");
    assert!(closed > 50, "{closed} visits say little");
    assert_eq!(closed_most, 1, "turns of a grain that is not reentrant overlapped");
    assert!(open_most > 1, "turns of reentrant grains never overlapped");
}

#[test]
fn a_trap_ends_all_overlapping_turns_with_an_error_and_the_next_call_gets_a_fresh_activation() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    deploy(&silo);
    std::thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..3).map(|_| scope.spawn(|| call(&silo, "walker/trap", "enter", &json!([99])))).collect();
        let _ = wait_until(Duration::from_secs(10), "three turns run", || {
            let tally = call(&silo, "walker/trap", "seen", &json!([])).ok();
            if tally["most"] == 3 { Ok(tally) } else { Err(tally) }
        });
        let answer = call(&silo, "walker/trap", "fall", &json!([]));
        assert_eq!((answer.status, answer.code()), (500, "failed"), "{answer:?}");
        for turn in waiting {
            let answer = turn.join().unwrap();
            assert_eq!((answer.status, answer.code()), (500, "failed"), "{answer:?}");
            assert!(answer.detail().contains("it fell"), "{answer:?}");
        }
    });
    assert_eq!(call(&silo, "walker/trap", "seen", &json!([])).ok()["most"], 0);
}

#[test]
fn a_reentrant_grain_moves_when_its_turns_have_ended() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    deploy(&one);
    std::thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..2).map(|_| scope.spawn(|| call(&one, "walker/m", "enter", &json!([3])))).collect();
        let _ = wait_until(Duration::from_secs(10), "two turns run", || {
            let tally = call(&one, "walker/m", "seen", &json!([])).ok();
            if tally["most"] == 2 { Ok(tally) } else { Err(tally) }
        });
        let here = one.describe("walker/m")["silo"].as_str().unwrap().to_owned();
        let there = if here == "silo-1" { "silo-2" } else { "silo-1" };
        assert!(two.cli(&["migrate", "walker/m", "--to", there]).ok().contains("moved"));
        for turn in waiting {
            assert_eq!(turn.join().unwrap().ok(), json!(2), "no turn was cut off");
        }
        assert_eq!(one.describe("walker/m")["silo"], there);
        assert_eq!(call(&one, "walker/m", "seen", &json!([])).ok()["most"], 2, "its memory came along");
    });
}

#[test]
fn what_cannot_be_reentrant_is_refused_by_name() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    let file = guest("counter");
    let deploy = ["deploy", file.to_str().unwrap(), "--property", "reentrant=true"];
    silo.cli(&deploy).fails(65, &["`reentrant`", "plain `func`s"]);
}
