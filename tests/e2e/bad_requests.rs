//! Requests that are wrong: unknown things 404, ill-typed arguments 400 with their place.

use granary_tests::Cluster;
use serde_json::json;

#[test]
fn wrong_calls_are_told_what_is_wrong_and_where() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter", "account"]);
    let gateway = silo.gateway();
    for (grain, method, arguments, status, parts) in [
        ("nothing/a", "increment", json!([1]), 404, &["nothing", "counter"][..]),
        ("counter/a", "explode", json!([1]), 404, &["explode", "increment"][..]),
        ("counter/a", "increment", json!([]), 400, &["by"][..]),
        ("counter/a", "increment", json!([1, 2]), 400, &["1"][..]),
        ("counter/a", "increment", json!(["five"]), 400, &["$[0]", "u64"][..]),
        ("counter/a", "increment", json!([-1]), 400, &["$[0]", "u64"][..]),
        ("counter/a", "increment", json!({"by": 1, "to": 2}), 400, &["to"][..]),
        ("counter/a", "increment", json!({"bye": 1}), 400, &["bye"][..]),
        ("counter/a", "increment", json!(5), 400, &[][..]),
    ] {
        let answer = gateway.call(grain, method, &arguments).unwrap();
        assert_eq!(answer.status, status, "{grain} {method} {arguments}: {answer:?}");
        for part in parts {
            assert!(answer.detail().contains(part), "{part:?} is missing in {answer:?}");
        }
        // A bare value is one argument on the command line; over HTTP the body is an array or an object.
        if !arguments.is_number() {
            silo.cli(&["call", grain, method, "--json", &arguments.to_string()]).fails(65, &[]);
        }
    }
    let broken = gateway.post("/v1/grains/counter/a/increment", b"[5").unwrap();
    assert_eq!(broken.status, 400, "{broken:?}");
    silo.cli(&["call", "counter/a", "increment", "five"]).fails(65, &["u64"]);
    silo.cli(&["call", "counter/a", "increment"]).fails(65, &["by"]);
    silo.cli(&["call", "counter", "increment", "5"]).fails(65, &["TYPE/KEY"]);
    silo.cli(&["describe", "nothing/a"]).fails(65, &["nothing"]);
    silo.cli(&["logs", "nothing/a"]).fails(65, &["nothing"]);
    silo.cli(&["call", "counter/a", "increment", ""]).fails(65, &["empty"]);
    let component = granary_tests::guest("counter");
    let component = component.to_str().unwrap();
    let misspelt = silo.cli(&["deploy", component, "--property", "idle-age=5m"]);
    assert!(misspelt.stderr.contains("idle-duration"), "{misspelt:?}");
    silo.cli(&["deploy", component, "--property", "idle-duration=soon"]).fails(65, &["idle-duration"]);
    silo.cli(&["deploy", component, "--property", "nonsense"]).fails(2, &["NAME=VALUE"]);
    assert_eq!(silo.cli(&["call", "counter/a", "get"]).ok(), "0");
}

#[test]
fn unsigned_integers_beyond_what_a_double_holds_arrive_intact() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter"]);
    let large = (1_u64 << 63) + 1;
    assert_eq!(silo.gateway().call("counter/a", "increment", &json!([large])).unwrap().ok(), json!(large));
    let as_text = silo.gateway().call("counter/b", "increment", &json!([large.to_string()])).unwrap();
    assert_eq!(as_text.ok(), json!(large));
}
