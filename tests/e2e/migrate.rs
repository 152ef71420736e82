//! Live migration under load.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use granary_tests::{Cluster, Http};
use serde_json::json;

/// How many clients call at once.
const CLIENTS: usize = 8;

/// How often the grain moves.
const MOVES: usize = 10;

#[test]
fn ten_migrations_under_load_skip_and_repeat_no_value() {
    let cluster = Cluster::new();
    let silos = [cluster.start("silo-1"), cluster.start("silo-2")];
    silos[0].deploy(&["counter"]);
    let _ = silos[0].cli(&["call", "counter/alice", "increment", "0"]).ok();
    let (stop, values) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let gateway = Http::keeping(&silos[client % 2].gateway);
            let (stop, values) = (&stop, &values);
            scope.spawn(move || {
                let mut seen = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let answer = gateway.call("counter/alice", "increment", &json!([1])).unwrap();
                    seen.push(answer.ok().as_u64().unwrap());
                }
                // Each client sees time go forward.
                assert!(seen.is_sorted());
                values.lock().unwrap().extend(seen);
            });
        }
        for _ in 0..MOVES {
            let here = silos[0].describe("counter/alice")["silo"].as_str().unwrap().to_owned();
            let there = if here == "silo-1" { "silo-2" } else { "silo-1" };
            let moved = silos[1].cli(&["migrate", "counter/alice", "--to", there]);
            assert!(moved.ok().contains("moved"), "{moved:?}");
            assert_eq!(silos[0].describe("counter/alice")["silo"], there);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut values = values.into_inner().unwrap();
    values.sort_unstable();
    let expected: Vec<u64> = (1..=values.len() as u64).collect();
    assert_eq!(values, expected, "a value was skipped or repeated");
    assert_eq!(silos[1].cli(&["call", "counter/alice", "get"]).ok(), expected.len().to_string());
}

#[test]
fn what_cannot_move_says_why() {
    let cluster = Cluster::new();
    let (one, _two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["counter", "evil"]);
    one.cli(&["migrate", "counter/a", "--to", "silo-2"]).fails(65, &["not active"]);
    let _ = one.cli(&["call", "counter/a", "increment", "1"]).ok();
    one.cli(&["migrate", "counter/a", "--to", "silo-9"]).fails(65, &["silo-9", "silo-1", "silo-2"]);
    one.cli(&["migrate", "nothing/a", "--to", "silo-2"]).fails(65, &["nothing"]);
    let here = one.describe("counter/a")["silo"].as_str().unwrap().to_owned();
    assert!(one.cli(&["migrate", "counter/a", "--to", &here]).ok().contains("already"));
    let _ = one.cli(&["call", "evil/a", "echo", "\"x\""]).ok();
    let here = one.describe("evil/a")["silo"].as_str().unwrap().to_owned();
    let there = if here == "silo-1" { "silo-2" } else { "silo-1" };
    one.cli(&["migrate", "evil/a", "--to", there]).fails(65, &["immovable"]);
    assert_eq!(one.describe("evil/a")["silo"], here.as_str());
}
