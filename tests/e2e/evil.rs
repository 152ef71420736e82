//! Grains that panic, loop, recurse, grow and answer too much: one activation ends, its caller gets one line, and
//! nobody else notices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use granary_tests::{Cluster, Http, Silo, wait_until};
use serde_json::{Value, json};

fn call(silo: &Silo, key: &str, method: &str, arguments: &Value) -> granary_tests::Answer {
    silo.gateway().call(&format!("evil/{key}"), method, arguments).unwrap()
}

#[test]
fn each_way_to_fail_is_one_line_and_the_next_call_gets_a_fresh_activation() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["evil", "counter"]);
    let _ = silo.cli(&["call", "counter/c", "increment", "3"]).ok();
    for (key, method, arguments, part) in [
        ("p", "panic", json!(["no\u{1b}[31m way\nat all"]), "panic"),
        ("s", "spin", json!([]), "CPU"),
        ("r", "recurse", json!([100_000_000_u64]), "stack"),
        ("a", "allocate", json!([4_000]), "memory"),
        ("o", "oversize", json!([16 << 20]), "larger than"),
    ] {
        let answer = call(&silo, key, method, &arguments);
        assert_eq!((answer.status, answer.code()), (500, "failed"), "{method}: {answer:?}");
        let detail = answer.detail();
        assert!(detail.to_lowercase().contains(&part.to_lowercase()), "{method}: {detail}");
        assert!(!detail.contains('\n') && !detail.contains('\u{1b}'), "{method}: {detail:?}");
        assert!(detail.len() <= 1_024, "{method}: {} bytes", detail.len());
        assert!(!detail.contains("wasm backtrace"), "{detail}");
        let fresh = wait_until(Duration::from_secs(10), "a fresh activation answers", || {
            let answer = call(&silo, key, "echo", &json!(["here"]));
            if answer.status == 200 { Ok(answer.body) } else { Err(answer) }
        });
        assert_eq!(fresh, json!("here"), "{method}");
    }
    let output = silo.cli(&["call", "evil/p", "panic", "\"boom\""]);
    output.fails(1, &["boom"]);
    assert_eq!(output.stderr.trim().lines().count(), 1, "{output:?}");
    assert_eq!(silo.cli(&["call", "counter/c", "get"]).ok(), "3");
}

#[test]
fn log_lines_and_panic_messages_arrive_bounded_and_escaped() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["evil"]);
    let _ = call(&silo, "l", "log", &json!(["a plain line"])).ok();
    let _ = call(&silo, "l", "print", &json!(["printed \u{1b}[31mred\u{7}"])).ok();
    let _ = call(&silo, "l", "log", &json!(["x".repeat(100_000)])).ok();
    assert_eq!(call(&silo, "l", "panic", &json!(["the last words"])).status, 500);
    let text = wait_until(Duration::from_secs(10), "the panic is in the log", || {
        let output = silo.cli(&["logs", "evil/l"]);
        let text = output.ok().to_owned();
        if text.contains("the last words") { Ok(text) } else { Err(text) }
    });
    for part in ["a plain line", "printed ", "red"] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
    assert!(text.lines().all(|line| line.len() < 5_000), "a line is too long");
    let log = silo.log();
    assert!(log.contains("a plain line") && log.contains("the last words"), "{log}");
    assert!(!log.contains('\u{1b}'), "an escape sequence reached the silo's log");
}

#[test]
fn a_cycle_of_calls_is_answered_at_once_with_its_chain() {
    let cluster = Cluster::new();
    let (one, _two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["evil"]);
    let _ = call(&one, "a", "echo", &json!(["x"])).ok();
    let _ = call(&one, "b", "echo", &json!(["x"])).ok();
    let started = Instant::now();
    let answer = call(&one, "a", "call-me-back", &json!(["b"])).ok();
    let took = started.elapsed();
    let text = answer["err"].as_str().unwrap();
    assert!(text.contains("deadlock") && text.contains("evil/a -> evil/b -> evil/a"), "{answer}");
    println!("the cycle was found in {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}: that was a timeout, not a detection");
}

/// Calls of a neighbour while something happens: how many, and the 99th percentile of their times.
fn neighbour(silo: &Silo, while_running: impl FnOnce()) -> (usize, Duration) {
    let stop = AtomicBool::new(false);
    let mut times = std::thread::scope(|scope| {
        let gateway = Http::keeping(&silo.gateway);
        let stop = &stop;
        let calls = scope.spawn(move || {
            let mut times = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let started = Instant::now();
                let answer = gateway.call("counter/n", "increment", &json!([1])).unwrap();
                assert_eq!(answer.status, 200, "{answer:?}");
                times.push(started.elapsed());
            }
            times
        });
        while_running();
        stop.store(true, Ordering::Relaxed);
        calls.join().unwrap()
    });
    times.sort_unstable();
    (times.len(), times[times.len() * 99 / 100])
}

#[test]
fn a_neighbour_is_answered_while_others_misbehave() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["evil", "counter"]);
    let _ = call(&silo, "x", "echo", &json!(["x"])).ok();
    let quiet = neighbour(&silo, || {
        for n in 0..200 {
            let _ = call(&silo, "x", "echo", &json!([n.to_string()])).ok();
        }
    });
    let loud = neighbour(&silo, || {
        for (method, arguments) in
            [("panic", json!(["x"])), ("recurse", json!([100_000_000_u64])), ("allocate", json!([4_000]))]
        {
            for n in 0..5 {
                assert_eq!(call(&silo, &format!("y{n}"), method, &arguments).status, 500);
            }
        }
        assert_eq!(call(&silo, "z", "spin", &json!([])).status, 500);
    });
    // The ratio is a figure and not a gate: the machine may be busy with other tests.
    println!(
        "neighbour: {} calls with p99 {:?} in quiet, {} with p99 {:?} beside misbehaving grains",
        quiet.0, quiet.1, loud.0, loud.1
    );
}

#[test]
fn a_caller_that_gives_up_does_not_drop_the_turn() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["evil"]);
    let output = silo.cli(&["call", "evil/t", "sleep-ms", "1500", "--timeout", "100ms"]);
    output.fails(1, &["timed out"]);
    // The same activation goes on after its turn; a dropped turn would have ended it.
    let before = silo.describe("evil/t")["activation"].clone();
    assert_eq!(call(&silo, "t", "echo", &json!(["still here"])).ok(), json!("still here"));
    assert_eq!(silo.describe("evil/t")["activation"], before);
}
