//! Deploy, call, list, describe: the first ten minutes.

use granary_tests::{Cluster, cli, guest};
use serde_json::{Value, json};

#[test]
fn a_component_is_deployed_to_a_running_silo_and_called_by_command_line_and_http() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["account"]);
    assert_eq!(silo.gateway().call("account/ann", "deposit", &json!([7])).unwrap().ok(), json!({"ok": 7}));

    silo.deploy(&["counter"]);
    assert_eq!(silo.cli(&["call", "counter/alice", "increment", "5"]).ok(), "5");
    assert_eq!(silo.cli(&["call", "counter/alice", "increment", "5"]).ok(), "10");
    assert_eq!(silo.cli(&["call", "counter/alice", "increment", "--json", "[5]"]).ok(), "15");
    assert_eq!(silo.cli(&["call", "--json", "counter/alice", "counter.increment", "5"]).ok(), "20");
    let called = silo.gateway().call("counter/alice", "increment", &json!([5])).unwrap();
    assert_eq!(called.ok(), json!(25));
    let named = silo.gateway().call("counter/alice", "increment", &json!({"by": 5})).unwrap();
    assert_eq!(named.ok(), json!(30));
    // The other type still serves.
    assert_eq!(silo.gateway().call("account/ann", "balance", &json!([])).unwrap().ok(), json!(7));

    let again = silo.cli(&["deploy", guest("counter").to_str().unwrap()]);
    assert!(again.ok().contains("nothing changed"), "{again:?}");
    assert_eq!(silo.cli(&["call", "counter/alice", "get"]).ok(), "30");
}

#[test]
fn listings_and_descriptions_say_what_is_there() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["counter"]);
    let _ = two.cli(&["call", "counter/a", "increment", "1"]).ok();
    let list = |what: &str| -> Value {
        serde_json::from_str(two.cli(&["list", what, "--output", "json"]).ok()).unwrap()
    };
    let silos = list("silos");
    for name in ["silo-1", "silo-2"] {
        assert!(silos.as_array().unwrap().iter().any(|row| row["name"] == name), "{silos}");
    }
    // A deploy waits for the asked silo's own view of the manifests; the other's may follow a moment later.
    granary_tests::wait_until(std::time::Duration::from_secs(10), "silo-2 knows both manifests", || {
        let grains = list("grains");
        assert_eq!(grains[0]["type"], "counter");
        if grains[0]["silos"].as_array().unwrap().len() == 2 { Ok(()) } else { Err(grains) }
    });
    assert_eq!(list("activations")[0]["grain"], "counter/a");
    assert_eq!(list("deployments")[0]["revision"], 1);
    let described = one.describe("counter/a");
    assert!(["silo-1", "silo-2"].contains(&described["silo"].as_str().unwrap()), "{described}");
    assert_eq!(one.describe("counter/nobody")["silo"], Value::Null);
    for what in ["silos", "grains", "activations", "deployments"] {
        assert!(one.cli(&["list", what]).ok().lines().count() >= 2, "{what}");
    }
}

#[test]
fn an_undeployed_type_is_gone_everywhere_and_comes_back() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["counter"]);
    let _ = one.cli(&["call", "counter/a", "increment", "1"]).ok();
    let _ = two.cli(&["undeploy", "counter"]).ok();
    granary_tests::wait_until(std::time::Duration::from_secs(10), "the type is gone on both silos", || {
        let gone = [&one, &two].map(|silo| silo.cli(&["call", "counter/a", "get"]));
        if gone.iter().all(|output| output.code == 65) { Ok(()) } else { Err(gone) }
    });
    one.cli(&["undeploy", "counter"]).fails(65, &["counter"]);
    one.deploy(&["counter"]);
    assert_eq!(two.cli(&["call", "counter/a", "get"]).ok(), "0");
}

#[test]
fn a_silo_that_is_not_there_is_named_with_what_to_do() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cli(&unused.to_string(), &["list", "silos"]).fails(69, &["no silo answers", "granary silo"]);
}
