//! Grains that panic, loop, recurse, grow and answer too much: one activation ends, its caller gets one line, and
//! nobody else notices.

use std::time::{Duration, Instant};

use granary_tests::{Cluster, Silo, fixture, wait_until};
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

#[test]
fn lies_across_the_boundary_end_one_activation_each_with_one_line() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    let path = cluster.data().join("liar.wasm");
    std::fs::write(&path, fixture("liar")).unwrap();
    let _ = silo.cli(&["deploy", path.to_str().unwrap()]).ok();
    for method in [
        "longest",
        "beyond",
        "no-utf8",
        "odd-list",
        "no-case",
        "repeated",
        "odd-result",
        "outside",
        "no-char",
        "tables",
        "post-trap",
        "post-spin",
        "realloc-trap",
        "realloc-spin",
        "realloc-outside",
        "realloc-odd",
    ] {
        let arguments = match method {
            "realloc-odd" => json!([[1, 2, 3]]),
            _ if method.starts_with("realloc") => json!(["some text"]),
            _ => json!([]),
        };
        for _ in 0..2 {
            let answer = silo.gateway().call("liar/a", method, &arguments).unwrap();
            assert_eq!((answer.status, answer.code()), (500, "failed"), "{method}: {answer:?}");
            let detail = answer.detail();
            assert!(detail.len() <= 1_024 && !detail.contains('\n'), "{method}: {detail:?}");
            println!("{method}: {detail}");
        }
    }
}

#[test]
fn an_export_of_its_life_that_goes_wrong_costs_that_grain_alone() {
    let cluster = Cluster::new();
    let silos = ["silo-1", "silo-2"].map(|name| cluster.start_with(name, &["--drain-deadline", "6s"]));
    silos[0].deploy(&["evil-life", "counter"]);
    let echo =
        |key: &str| silos[0].gateway().call(&format!("evil-life/{key}"), "echo", &json!(["x"])).unwrap();
    for way in ["trap", "spin", "refuse"] {
        let answer = echo(&format!("activate-{way}"));
        assert_eq!((answer.status, answer.code()), (500, "failed"), "{way}: {answer:?}");
        assert!(answer.detail().len() <= 1_024, "{way}: {} bytes", answer.detail().len());
        println!("activate {way}: {}", answer.detail());
    }
    for key in ["deactivate-trap", "deactivate-spin"] {
        assert_eq!(echo(key).ok(), "x");
        let finish = silos[0].gateway().call(&format!("evil-life/{key}"), "finish", &json!([])).unwrap();
        assert_eq!(finish.status, 200, "{finish:?}");
        assert_eq!(echo(key).ok(), "x", "{key}: a fresh activation");
    }
    for hook in ["dehydrate", "rehydrate"] {
        for way in ["trap", "spin", "refuse"] {
            let key = format!("{hook}-{way}");
            assert_eq!(echo(&key).ok(), "x");
            let grain = format!("evil-life/{key}");
            let here = silos[0].describe(&grain)["silo"].as_str().unwrap().to_owned();
            let there = if here == "silo-1" { "silo-2" } else { "silo-1" };
            let refused = silos[0].cli(&["migrate", &grain, "--to", there]);
            assert_ne!(refused.code, 0, "{key}: {refused:?}");
            assert!(refused.stderr.len() <= 2_048, "{key}: {} bytes", refused.stderr.len());
            println!("{key}: {}", refused.stderr.trim());
            assert_eq!(echo(&key).ok(), "x", "{key}: it answers again");
        }
    }
    assert_eq!(silos[0].cli(&["call", "counter/n", "increment", "1"]).ok(), "1");
    // Hooks that never return do not keep their silo.
    for number in 0..8 {
        assert_eq!(echo(&format!("deactivate-sleep-{number}")).ok(), "x");
        assert_eq!(echo(&format!("dehydrate-sleep-{number}")).ok(), "x");
    }
    for silo in silos {
        let name = silo.name.clone();
        let (status, took) = silo.terminate();
        println!(
            "{name}, with hooks that never return, stopped after {took:.1?}; its deadline was 6 s: {status}"
        );
    }
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
