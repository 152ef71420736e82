use super::{WAVE_BYTES_MAX, args_from_wave, args_to_wave, result_to_wave};
use crate::testing::signature;
use crate::{args_to_json, result_to_json, value_from_json};

const MAX: usize = 1 << 20;

const TYPES: &str = "record item { name: string, price: option<u32> }
    variant shape { circle(f64), none, dot } enum e { ok, other } flags rights { read, write }";

/// Arguments for one parameter of this type, as JSON.
fn json(ty: &str, text: &str) -> Result<String, String> {
    let signature = signature(TYPES, &format!("func(a: {ty})"));
    let bytes = args_from_wave(&signature, text, MAX).map_err(|error| error.to_string())?;
    Ok(args_to_json(&signature, &bytes).unwrap())
}

#[test]
fn values_are_read_as_wave_has_it() {
    let cases = [
        ("u64", "18446744073709551615", "[18446744073709551615]"),
        ("f64", "nan", r#"["NaN"]"#),
        ("f64", "-inf", r#"["-Infinity"]"#),
        ("f32", "1.5e3", "[1500.0]"),
        ("char", "'\\u{1f33e}'", r#"["🌾"]"#),
        ("string", r#""a\nb""#, r#"["a\nb"]"#),
        ("list<u8>", "[1, 2,]", r#"["AQI="]"#),
        ("item", "{price: 3, name: \"x\"}", r#"[{"name":"x","price":3}]"#),
        ("item", "{name: \"x\"}", r#"[{"name":"x","price":null}]"#),
        ("shape", "circle(1)", r#"[{"circle":1.0}]"#),
        ("shape", "%none", r#"["none"]"#),
        ("e", "%ok", r#"["ok"]"#),
        ("rights", "{write, %read}", r#"[["read","write"]]"#),
        ("rights", "{}", "[[]]"),
        ("option<u8>", "some(1)", "[1]"),
        ("option<u8>", "1", "[1]"),
        ("option<option<u8>>", "some(none)", r#"[{"some":null}]"#),
        ("result<u8>", "ok(1)", r#"[{"ok":1}]"#),
        ("result<u8>", "1", r#"[{"ok":1}]"#),
        ("result", "err", r#"[{"err":null}]"#),
        ("tuple<u8, string>", "(1, \"a\")", r#"[[1,"a"]]"#),
        ("u8", "5 // five", "[5]"),
    ];
    for (ty, wave, expected) in cases {
        assert_eq!(json(ty, wave).as_deref(), Ok(expected), "{wave}");
    }
}

#[test]
fn errors_name_place_type_and_what_was_found() {
    let cases = [
        ("u8", "300", "$[0]: expected u8, found `300`"),
        ("u8", "1.0", "$[0]: expected u8, found `1.0`"),
        ("u8", "\"5\"", "$[0]: expected u8, found `\"5\"`"),
        ("f32", "1e39", "$[0]: expected f32, found `1e39`"),
        ("list<item>", "[{name: 5}]", "$[0][0].name: expected string, found `5`"),
        ("item", "{price: 3}", "$[0].name: missing; expected string"),
        (
            "item",
            "{name: \"x\", prize: 3}",
            "$[0]: unknown field `prize` of record { name: string, price: option<u32> }",
        ),
        ("shape", "oval", "$[0]: unknown case `oval` of variant { circle(f64), none, dot }"),
        (
            "shape",
            "dot(1)",
            "$[0]: `dot` of variant { circle(f64), none, dot } has no payload, found `dot(1)`",
        ),
        ("shape", "circle(true)", "$[0].circle: expected f64, found `true`"),
        ("e", "none", "$[0]: expected enum { ok, other }, found `none`"),
        ("rights", "{admin}", "$[0]: unknown flag `admin` of flags { read, write }"),
        ("option<option<u8>>", "1", "$[0]: expected option<option<u8>>, found `1`"),
        ("result<u8>", "err(1)", "$[0]: `err` of result<u8> has no payload, found `err(1)`"),
        ("tuple<u8, u8>", "(1, 2, 3)", "$[0]: expected tuple<u8, u8> with 2 items, found 3"),
        ("u8", "", "$[0]: argument 1 (`a: u8`) is missing in func(a: u8)"),
        ("u8", "1, 2", "$[1]: too many arguments: func(a: u8) takes 1 argument"),
        ("u8", "1) (2", "$: not WAVE at character 4: trailing characters after value"),
        ("u8", "[1", "$: not WAVE at character 3: the text ends within a value"),
        ("u8", "5 @", "$: not WAVE at character 3: invalid token"),
    ];
    for (ty, wave, expected) in cases {
        assert_eq!(json(ty, wave), Err(expected.to_owned()), "{wave}");
    }
    let deep = json("u8", &"(".repeat(100_000)).unwrap_err();
    assert!(deep.contains("nesting too deep"), "{deep}");
    let long = json("u8", &" ".repeat(WAVE_BYTES_MAX + 1)).unwrap_err();
    assert!(long.contains("more than 1048576 bytes of WAVE"), "{long}");
}

#[test]
fn options_at_the_end_may_be_left_out() {
    let optional = signature("", "func(a: u8, b: option<u8>, c: option<u8>)");
    let bytes = args_from_wave(&optional, "1", MAX).unwrap();
    assert_eq!(args_to_json(&optional, &bytes).unwrap(), "[1,null,null]");
    let not_last = signature("", "func(a: option<u8>, b: u8)");
    assert!(
        args_from_wave(&not_last, "", MAX)
            .unwrap_err()
            .message
            .contains("argument 1 (`a: option<u8>`) is missing")
    );
}

#[test]
fn no_arguments_are_an_empty_text() {
    let none = signature("", "func()");
    assert_eq!(args_from_wave(&none, " // nothing", MAX).unwrap(), b"");
    assert_eq!(result_to_wave(&none, b"").unwrap(), "");
    assert_eq!(args_to_wave(&none, b"").unwrap(), "");
    assert_eq!(result_to_json(&none, b"").unwrap(), "null");
}

#[test]
fn values_are_written_as_wave_has_it() {
    let cases = [
        ("item", r#"{"name": "a\"b", "price": null}"#, r#"{name: "a\"b"}"#),
        (
            "tuple<option<u8>, item>",
            r#"[null, {"name": "", "price": 1}]"#,
            r#"(none, {name: "", price: some(1)})"#,
        ),
        ("list<shape>", r#"["none", {"circle": 1}]"#, "[%none, circle(1)]"),
        ("rights", "[]", "{}"),
        ("f64", r#""Infinity""#, "inf"),
    ];
    for (ty, json, expected) in cases {
        let signature = signature(TYPES, &format!("func(a: {ty}) -> {ty}"));
        let bytes = value_from_json(&signature.params[0].1, json, MAX).unwrap();
        assert_eq!(result_to_wave(&signature, &bytes).unwrap(), expected);
        assert_eq!(args_from_wave(&signature, expected, MAX).unwrap(), bytes);
    }
    let all_none = signature("record r { a: option<u8> }", "func(a: r)");
    let bytes = args_from_wave(&all_none, "{:}", MAX).unwrap();
    assert_eq!(args_to_wave(&all_none, &bytes).unwrap(), "{:}");
}
