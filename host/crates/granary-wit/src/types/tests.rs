use super::{FUNCTIONS_MAX, Interface, TYPE_DEPTH_MAX, Type, TypeError};
use crate::testing::{find, param, resolve, signature};

fn refused(body: &str) -> String {
    let resolve = resolve(&[&format!("package t:t@1.0.0;\ninterface i {{ {body} }}")]);
    Interface::from_resolve(&resolve, find(&resolve, "t:t/i")).unwrap_err().to_string()
}

#[test]
fn interface_has_id_version_and_functions() {
    let resolve =
        resolve(&["package acme:bank@1.2.3;\ninterface account { a: func(); b: async func(x: u8); }"]);
    let interface = Interface::from_resolve(&resolve, find(&resolve, "acme:bank/account")).unwrap();
    assert_eq!((interface.id.as_str(), interface.version.as_str()), ("acme:bank/account", "1.2.3"));
    assert_eq!(interface.functions.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert!(interface.functions["b"].is_async);
}

#[test]
fn package_without_version_has_version_zero() {
    let resolve = resolve(&["package acme:bank;\ninterface account { a: func(); }"]);
    let interface = Interface::from_resolve(&resolve, find(&resolve, "acme:bank/account")).unwrap();
    assert_eq!(interface.version, "0.0.0");
}

#[test]
fn signatures_read_as_wit() {
    let types =
        "record r { a: u8, b: list<string> } variant v { none, one(r) } enum e { x, y } flags g { p, q }";
    for text in [
        "func()",
        "func(by: u64) -> u64",
        "async func(a: f32, b: f64) -> result",
        "func(a: tuple<bool, char>) -> result<_, string>",
        "func() -> result<option<s8>>",
        "func() -> result<s16, s32>",
    ] {
        assert_eq!(signature(types, text).to_string(), text);
    }
    assert_eq!(
        signature(types, "func(v: v, e: e) -> g").to_string(),
        "func(v: variant { none, one(record { a: u8, b: list<string> }) }, e: enum { x, y }) -> flags { p, q }"
    );
}

#[test]
fn aliases_vanish() {
    assert_eq!(
        param("type a = u8; type b = a; record r { x: b } type s = r;", "s"),
        param("record z { x: u8 }", "z")
    );
    assert_eq!(param("type a = u8; type b = a;", "b"), Type::U8);
}

#[test]
fn what_is_not_a_value_is_refused_by_name() {
    let cases = [
        ("resource r;  f: func();", "t:t/i: `r` is a resource"),
        ("resource r { m: func(); }", "t:t/i: `r` is a resource"),
        ("resource r; type s = own<r>; f: func(a: s);", "`r` is a resource"),
        ("f: func(a: list<stream<u8>>);", "function `f`: parameter 1 (`a`), item: `stream` is not allowed"),
        ("f: func(a: u8) -> future<u8>;", "function `f`: result: `future` is not allowed"),
        ("record r { x: future } f: func(a: u8, b: r);", "parameter 2 (`b`), field `x`: `future`"),
        ("f: func(a: error-context);", "parameter 1 (`a`): `error-context` is not allowed"),
        ("f: func(a: map<string, u8>);", "parameter 1 (`a`): `map` is not allowed"),
        ("f: func(a: list<u8, 4>);", "parameter 1 (`a`): `fixed-length list` is not allowed"),
    ];
    for (body, expected) in cases {
        let message = refused(body);
        assert!(message.contains(expected), "{body}: {message}");
    }
}

#[test]
fn resource_of_another_interface_is_refused() {
    let resolve = resolve(&[
        "package o:o;\ninterface r { resource thing; }",
        "package t:t;\ninterface i { use o:o/r.{thing}; f: func(a: thing); }",
    ]);
    let error = Interface::from_resolve(&resolve, find(&resolve, "t:t/i")).unwrap_err();
    assert_eq!(error, TypeError::Resource { interface: "t:t/i".into(), name: "thing".into() });
}

#[test]
fn type_without_members_is_refused() {
    let message = refused("record r { } f: func(a: option<r>);");
    assert!(message.contains("parameter 1 (`a`), some: a `record` without members"), "{message}");
}

#[test]
fn depth_is_limited() {
    let nested = |lists: usize| format!("f: func(a: {}u8{});", "list<".repeat(lists), ">".repeat(lists));
    let fits = format!("package t:t;\ninterface i {{ {} }}", nested(TYPE_DEPTH_MAX - 1));
    let resolve = resolve(&[&fits]);
    Interface::from_resolve(&resolve, find(&resolve, "t:t/i")).unwrap();
    let message = refused(&nested(TYPE_DEPTH_MAX));
    assert!(message.contains("nest deeper than 64, the limit"), "{message}");
}

#[test]
fn depth_counts_through_shared_definitions() {
    let mut body = "type t0 = list<u8>; ".to_owned();
    for level in 1..TYPE_DEPTH_MAX {
        body.push_str(&format!("type t{level} = list<t{}>; ", level - 1));
    }
    body.push_str(&format!("f: func(first: t20, a: t{});", TYPE_DEPTH_MAX - 1));
    assert!(refused(&body).contains("parameter 2 (`a`): types nest deeper"));
}

#[test]
fn shared_definitions_do_not_explode() {
    let mut body = "record r0 { a: u8, b: u8 } ".to_owned();
    for level in 1..50 {
        let below = level - 1;
        body.push_str(&format!("record r{level} {{ a: r{below}, b: r{below} }} "));
    }
    body.push_str("f: func(a: r49);");
    let message = refused(&body);
    assert!(message.contains("more than 10000 parts, the limit"), "{message}");
}

#[test]
fn nodes_count_over_the_whole_signature() {
    let params: Vec<String> = (0..12).map(|index| format!("p{index}: e")).collect();
    let cases: Vec<String> = (0..999).map(|index| format!("c{index}")).collect();
    let message = refused(&format!("enum e {{ {} }} f: func({});", cases.join(", "), params.join(", ")));
    assert!(message.contains("more than 10000 parts"), "{message}");
}

#[test]
fn number_of_functions_is_limited() {
    let mut resolve = resolve(&["package t:t;\ninterface i { f: func(); }"]);
    let id = find(&resolve, "t:t/i");
    // The text parser has a lower limit of its own; a component's binary form may hold more.
    let interface = &mut resolve.interfaces[id];
    let function = interface.functions["f"].clone();
    for index in 0..FUNCTIONS_MAX {
        interface.functions.insert(format!("f{index}"), function.clone());
    }
    let error = Interface::from_resolve(&resolve, id).unwrap_err();
    assert!(error.to_string().contains("1001 functions are more than 1000, the limit"), "{error}");
}
