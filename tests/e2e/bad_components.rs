//! Components that cannot be deployed: exit code 65, the reason named, nothing lost.

use std::time::{Duration, Instant};

use granary_tests::{Cluster, Silo, fixture, guest, input};
use serde_json::json;

fn deploy(cluster: &Cluster, silo: &Silo, name: &str, bytes: &[u8]) -> granary_tests::CliOutput {
    let path = cluster.data().join(name);
    std::fs::write(&path, bytes).unwrap();
    silo.cli(&["deploy", path.to_str().unwrap()])
}

#[test]
fn what_is_no_grain_is_refused_by_name_and_others_go_on() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter"]);
    let counter = std::fs::read(guest("counter")).unwrap();
    let core = deploy(&cluster, &silo, "core.wasm", &fixture("core-module"));
    core.fails(65, &["core module", "wasm32-wasip2"]);
    deploy(&cluster, &silo, "cut.wasm", &counter[..counter.len() / 2]).fails(65, &[]);
    let mut garbage = counter;
    for byte in &mut garbage[1_000..1_400] {
        *byte ^= 0x5a;
    }
    deploy(&cluster, &silo, "garbage.wasm", &garbage).fails(65, &[]);
    deploy(&cluster, &silo, "text.wasm", b"hello, this is no component").fails(65, &[]);
    deploy(&cluster, &silo, "empty.wasm", b"").fails(65, &["empty"]);
    for (name, parts) in [
        ("no-grain-interface", &["grain interface"][..]),
        ("resources", &["resource"][..]),
        ("import-beyond-list", &["import"][..]),
        ("world-function", &["function"][..]),
        ("two-interfaces", &["grain-type"][..]),
        ("direct-import", &["-refs"][..]),
    ] {
        deploy(&cluster, &silo, &format!("{name}.wasm"), &fixture(name)).fails(65, parts);
    }
    silo.cli(&["deploy", "/nowhere/counter.wasm"]).fails(65, &["/nowhere/counter.wasm"]);
    assert_eq!(silo.cli(&["call", "counter/a", "increment", "2"]).ok(), "2");
    let deployments = silo.admin().get("/v1/deployments").unwrap().ok();
    assert_eq!(deployments.as_array().unwrap().len(), 1, "{deployments}");
}

/// A deploy that takes longer hangs. The bound of the compiler is 30 s and 10 s for each MiB.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// Changed components that are deployed.
const CHANGED_COMPONENTS: u64 = 150;

/// P14: each is served or refused by its name, in bounded time, and the silo goes on.
#[test]
fn changed_components_are_served_or_refused_with_a_reason() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    let samples = [std::fs::read(guest("counter")).unwrap(), fixture("liar"), fixture("resources")];
    let (mut served, mut refused, mut slowest) = (0, 0, Duration::ZERO);
    for seed in 0..CHANGED_COMPONENTS {
        let component = input::generate(&samples, seed);
        let started = Instant::now();
        let answer = silo.admin().post("/v1/deployments?name=changed.wasm", &component).unwrap();
        slowest = slowest.max(started.elapsed());
        match (answer.status, answer.code()) {
            (200, _) => served += 1,
            (400..500, code) if !code.is_empty() => {
                let detail = answer.detail();
                assert!(!detail.is_empty() && detail.len() <= 4 << 10, "seed {seed}: {answer:?}");
                assert!(!detail.chars().any(char::is_control), "seed {seed}: {answer:?}");
                refused += 1;
            }
            _ => panic!("seed {seed}: {answer:?}"),
        }
    }
    println!("{CHANGED_COMPONENTS} deployed: {served} served, {refused} refused, slowest {slowest:.1?}");
    assert!(slowest <= ANSWERED_WITHIN, "{slowest:?}");
    silo.deploy(&["account"]);
    assert_eq!(silo.cli(&["call", "account/a", "balance"]).ok(), "0");
    assert!(!silo.log().contains("panicked at host"), "the host panicked");
}

#[test]
fn a_derived_interface_that_does_not_match_is_refused_with_both_types() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["account"]);
    let mismatch = guest("mismatch");
    let mismatch = mismatch.to_str().unwrap();
    let refused = silo.cli(&["deploy", mismatch]);
    refused.fails(65, &["deposit", "u64", "--force"]);
    let forced = silo.cli(&["deploy", "--force", mismatch]);
    assert_eq!(forced.code, 0, "{forced:?}");
    // The hash travels with the call, so the mismatch is a value and never a misread.
    assert_eq!(silo.gateway().call("account/x", "deposit", &json!([5])).unwrap().ok(), json!({ "ok": 5 }));
    assert_eq!(silo.cli(&["call", "account/x", "balance"]).ok(), "5");
}

#[test]
fn inspect_shows_a_component_without_a_silo() {
    let shown = granary_tests::cli("127.0.0.1:1", &["inspect", guest("transfer").to_str().unwrap()]);
    let text = shown.ok();
    for part in ["transfer", "acme:bank/account", "deposit", "digest"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}
