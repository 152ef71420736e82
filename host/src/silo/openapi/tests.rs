use std::sync::Arc;

use granary_core::hosting::{ClassInfo, Limits};
use granary_core::id::{Digest, GrainType};
use granary_wit::{value_from_json, value_to_json};
use serde_json::Value;

use super::*;

#[allow(unreachable_pub, reason = "it is public in its own crate")]
#[path = "../../../../tests/src/schema.rs"]
mod validator;

use validator::validate;

fn interface(text: &str) -> Interface {
    let mut resolve = wit_parser::Resolve::default();
    resolve.push_source("t.wit", text).unwrap();
    let (id, _) = resolve.interfaces.iter().next_back().unwrap();
    Interface::from_resolve(&resolve, id).unwrap()
}

/// The parameter's type of `f: func(a: TYPE)`.
fn parameter(types: &str, ty: &str) -> granary_wit::Type {
    let interface = interface(&format!("package t:t;\ninterface i {{ {types}\n f: func(a: {ty}); }}"));
    interface.functions["f"].params[0].1.clone()
}

fn info(grain_type: &str) -> ClassInfo {
    ClassInfo {
        grain_type: GrainType::new(grain_type).unwrap(),
        digest: Digest::of(b""),
        interfaces: Vec::new(),
        references: Vec::new(),
        has_lifecycle: false,
        has_migration: false,
        asynchronous: false,
        reentrant: false,
        properties: BTreeMap::new(),
        limits: Limits::default(),
    }
}

#[test]
fn every_vector_of_the_json_table_is_valid_as_it_is_written() {
    let text = include_str!("../../../../wit/vectors/json.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(vectors.len() >= 40);
    for vector in vectors {
        let ty = parameter(vector["types"].as_str().unwrap(), vector["type"].as_str().unwrap());
        let written = vector["json"].as_str().unwrap();
        // What the silo writes for what it reads, by its own code.
        let bytes = value_from_json(&ty, written, 1 << 20).unwrap();
        let value: Value = serde_json::from_str(&value_to_json(&ty, &bytes).unwrap()).unwrap();
        for direction in [Direction::Written, Direction::Read] {
            let schema = schema(&ty, direction);
            validate(&schema, &value).unwrap_or_else(|error| panic!("{ty}: {error} in {schema}"));
        }
    }
}

#[test]
fn what_is_also_read_is_valid_for_callers_alone() {
    let cases = [
        ("", "u64", r#""18446744073709551615""#),
        ("", "s64", r#""-5""#),
        ("", "list<u8>", "[104, 101]"),
        ("record item { name: string, price: option<u32> }", "item", r#"{"name": "nail"}"#),
    ];
    for (types, ty, text) in cases {
        let ty = parameter(types, ty);
        value_from_json(&ty, text, 1 << 20).unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        validate(&schema(&ty, Direction::Read), &value).unwrap();
        assert!(validate(&schema(&ty, Direction::Written), &value).is_err(), "{ty}");
    }
}

#[test]
fn what_the_silo_refuses_is_invalid() {
    let cases = [
        ("", "u8", "256"),
        ("", "u32", "-1"),
        ("", "bool", "\"true\""),
        ("", "char", "\"ab\""),
        ("", "f64", "\"nan\""),
        ("", "option<option<u32>>", "7"),
        ("", "tuple<u8, string>", "[1]"),
        ("", "result<u32, string>", "{\"okay\":1}"),
        ("record item { name: string, price: option<u32> }", "item", r#"{"nam": "nail"}"#),
        ("variant shape { circle(f64), dot }", "shape", "\"circle\""),
        ("variant shape { circle(f64), dot }", "shape", "{\"dot\":null}"),
        ("enum colour { red }", "colour", "\"green\""),
        ("flags rights { read, write }", "rights", "[\"read\",\"read\"]"),
    ];
    for (types, ty, text) in cases {
        let ty = parameter(types, ty);
        assert!(value_from_json(&ty, text, 1 << 20).is_err(), "{ty} {text}");
        let value: Value = serde_json::from_str(text).unwrap();
        assert!(validate(&schema(&ty, Direction::Read), &value).is_err(), "{ty} {text}");
    }
}

#[test]
fn ambiguous_methods_are_addressed_by_their_whole_names() {
    let one =
        interface("package a:b@1.0.0;\ninterface one { get: func() -> u8; only: func(a: option<u8>); }");
    let two = interface("package a:b@1.0.0;\ninterface two { get: func() -> u8; }");
    let (info, interfaces) = (info("thing"), [one, two]);
    let document = document(std::iter::once(DescribedType { info: &info, interfaces: &interfaces }));
    let paths: Vec<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "/v1/grains/thing/{key}/a:b%2Fone.get",
            "/v1/grains/thing/{key}/a:b%2Ftwo.get",
            "/v1/grains/thing/{key}/only"
        ]
    );
    let body = &document["paths"]["/v1/grains/thing/{key}/only"]["post"]["requestBody"];
    let schema = &body["content"]["application/json"]["schema"];
    for (text, valid) in
        [("[null]", true), ("{}", true), ("[]", false), ("{\"a\":3}", true), ("{\"b\":3}", false)]
    {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(validate(schema, &value).is_ok(), valid, "{text}");
    }
}

#[test]
fn types_beyond_the_bound_are_listed_by_signature_alone() {
    let many: String = (0..1_000).map(|n| format!("c{n}, ")).collect();
    let functions: String = (0..300).map(|n| format!("m{n}: func(a: big);\n")).collect();
    let large = interface(&format!("package a:b;\ninterface large {{ enum big {{ {many} }}\n{functions} }}"));
    let (info, interfaces) = (info("large"), Arc::new([large]));
    let document = document(std::iter::once(DescribedType { info: &info, interfaces: &*interfaces }));
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 300);
    let bare = paths.values().filter(|path| {
        path["post"]["requestBody"]["content"]["application/json"]["schema"] == serde_json::json!({})
    });
    assert_eq!(bare.count(), 201);
}
