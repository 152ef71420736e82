//! The OpenAPI document of a running silo, and calls that match it.

use granary_tests::{Cluster, validate};
use serde_json::{Value, json};

use crate::values;

/// Every reference in the document leads somewhere, and every operation has what OpenAPI 3.1 asks of it.
fn check_structure(document: &Value) {
    assert_eq!(document["openapi"], "3.1.0");
    for key in ["title", "version"] {
        assert!(document["info"][key].is_string(), "{}", document["info"]);
    }
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert!(path.starts_with("/v1/grains/") && path.contains("/{key}/"), "{path}");
        let operation = &item["post"];
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{path}");
        assert!(operation["responses"]["200"]["content"]["application/json"]["schema"].is_object());
        assert!(operation["responses"]["default"].is_object());
        for parameter in operation["parameters"].as_array().unwrap() {
            let parameter = resolve(document, parameter);
            assert!(["path", "header"].contains(&parameter["in"].as_str().unwrap()), "{parameter}");
        }
    }
    check_references(document, document);
}

fn check_references(document: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if members.contains_key("$ref") {
                let _ = resolve(document, part);
            }
            members.values().for_each(|member| check_references(document, member));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(document, item)),
        _ => {}
    }
}

fn resolve<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(to) => {
            let found = document.pointer(to.strip_prefix('#').unwrap());
            found.unwrap_or_else(|| panic!("{to} leads nowhere"))
        }
        None => part,
    }
}

#[test]
fn the_document_of_a_running_silo_is_whole_and_its_schemas_fit_real_calls() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["account", "counter", "presence-game", "presence-player", "transfer"]);
    let document = silo.gateway().get("/v1/openapi.json").unwrap().ok();
    check_structure(&document);
    let printed: Value = serde_json::from_str(silo.cli(&["openapi"]).ok()).unwrap();
    assert_eq!(printed, document);

    let game = json!({ "grain-type": "game", "key": "go" });
    let calls = [
        ("counter", "a", "increment", json!([5])),
        ("counter", "a", "increment", json!({ "by": "18446744073709551610" })),
        ("counter", "a", "get", json!([])),
        ("account", "ann", "deposit", json!([7])),
        ("account", "ann", "withdraw", json!([8])),
        ("account", "ann", "balance", json!({})),
        ("transfer", "t", "transfer", json!(["ann", "bob", 3])),
        ("transfer", "t", "transfer", json!(["ann", "ann", 3])),
        ("transfer", "t", "unresolved", json!([])),
        ("player", "p", "join", json!({ "game": game, "name": "P" })),
        ("player", "p", "join", json!([game, ""])),
        ("player", "p", "playing", json!([])),
        ("player", "p", "notify", json!([{ "game": game, "event": { "scored": ["P", 3] } }])),
        ("player", "p", "heard", json!([])),
        ("game", "go", "members", json!([])),
        ("game", "go", "score", json!([{ "grain-type": "player", "key": "nobody" }, 3])),
        ("player", "p", "leave", json!([])),
    ];
    for (grain_type, key, method, arguments) in calls {
        let path = format!("/v1/grains/{grain_type}/{{key}}/{method}");
        let operation = &document["paths"][&path]["post"];
        let taken = &operation["requestBody"]["content"]["application/json"]["schema"];
        validate(taken, &arguments).unwrap_or_else(|error| panic!("{path} {arguments}: {error}"));
        let result = silo.gateway().call(&format!("{grain_type}/{key}"), method, &arguments).unwrap().ok();
        let given = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        validate(given, &result).unwrap_or_else(|error| panic!("{path} gave {result}: {error}"));
    }

    let wrong = silo.gateway().call("counter/a", "increment", &json!(["x"])).unwrap();
    let taken = "/paths/~1v1~1grains~1counter~1{key}~1increment/post";
    let operation = document.pointer(taken).unwrap();
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    assert!(validate(schema, &json!(["x"])).is_err());
    let problem = resolve(&document, &operation["responses"][wrong.status.to_string()]);
    let schema = resolve(&document, &problem["content"]["application/problem+json"]["schema"]);
    validate(schema, &wrong.body).unwrap();

    let _ = silo.cli(&["undeploy", "counter"]).ok();
    let after = silo.gateway().get("/v1/openapi.json").unwrap().ok();
    assert!(after["paths"].get("/v1/grains/counter/{key}/get").is_none(), "{after}");
}

#[test]
fn every_type_of_value_fits_its_schemas_in_a_real_call() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["values"]);
    let document = silo.gateway().get("/v1/openapi.json").unwrap().ok();
    check_structure(&document);
    let operation = &document["paths"]["/v1/grains/values/{key}/whole"]["post"];
    let taken = &operation["requestBody"]["content"]["application/json"]["schema"];
    let given = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    for case in values::cases() {
        for arguments in [json!([case]), json!({ "value": case })] {
            validate(taken, &arguments).unwrap();
            let result = silo.gateway().call("values/v", "whole", &arguments).unwrap().ok();
            validate(given, &result).unwrap();
        }
    }
}
