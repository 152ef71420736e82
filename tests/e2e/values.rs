//! Every type of value on every way: HTTP, command line, and from grain to grain on one silo and between two.

use granary_tests::{Cluster, Silo};
use serde_json::{Value, json};

/// Values as they are written, by `docs/json.md`: what comes back has to be the same text.
pub(crate) fn cases() -> [Value; 3] {
    let empty = json!({
        "truth": false,
        "numbers": {
            "u8s": [0, 0], "s8s": [0, 0], "u16s": [0, 0], "s16s": [0, 0], "u32s": [0, 0], "s32s": [0, 0],
            "u64s": [0, 0], "s64s": [0, 0], "f32s": [], "f64s": [],
        },
        "letter": "\u{0}", "text": "", "bytes": "", "words": [], "points": [], "maybe": null, "nested": null,
        "outcome": { "ok": 0 }, "bare": { "ok": null }, "shape": "dot", "shapes": [], "colour": "red",
        "rights": [], "many-flags": [], "pair": [0, ""], "table": [],
    });
    let extreme = json!({
        "truth": true,
        "numbers": {
            "u8s": [0, 255], "s8s": [-128, 127], "u16s": [0, 65_535], "s16s": [-32_768, 32_767],
            "u32s": [0, u32::MAX], "s32s": [i32::MIN, i32::MAX], "u64s": [0, u64::MAX], "s64s": [i64::MIN, i64::MAX],
            "f32s": [0.1, "NaN", "Infinity", "-Infinity", -0.0, 1.5],
            "f64s": [0.1, "NaN", "Infinity", "-Infinity", -0.0, 5e-324, 1e300],
        },
        "letter": "\u{10ffff}", "text": "two\nlines, a quote \" and 🌾", "bytes": "AAEC/f7/",
        "words": ["", "a", "é"], "points": [{ "x": -1, "label": null }, { "x": 1, "label": "" }], "maybe": u32::MAX,
        "nested": { "some": null }, "outcome": { "err": "no" }, "bare": { "err": null },
        "shape": { "path": [{ "x": i32::MIN, "label": "first" }, { "x": 2, "label": null }] },
        "shapes": ["dot", { "circle": -0.5 }, { "named": "n" }, { "path": [] }], "colour": "blue",
        "rights": ["read", "write", "share"], "many-flags": ["f0", "f7", "f8", "f31"], "pair": [255, "x"],
        "table": [[], [[]], [[1, 2], [65_535]]],
    });
    let mut middle = extreme.clone();
    middle["nested"] = json!({ "some": 7 });
    middle["maybe"] = json!(0);
    middle["shape"] = json!({ "named": "🌾" });
    middle["rights"] = json!(["share"]);
    // Larger than one page of guest memory.
    middle["text"] = json!("long ".repeat(30_000));
    middle["words"] = json!(vec!["word"; 5_000]);
    [empty, extreme, middle]
}

/// One value of all types, in WAVE.
pub(crate) const LINE: &str = "{truth: true, numbers: {u8s: (0, 255), s8s: (-128, 127), u16s: (0, 65535), s16s: (-32768, 32767), \
    u32s: (0, 4294967295), s32s: (-2147483648, 2147483647), u64s: (0, 18446744073709551615), \
    s64s: (-9223372036854775808, 9223372036854775807), f32s: [0.1, nan, inf, -inf, -0], \
    f64s: [0.1, nan, inf, -inf, -0]}, letter: '\\u{10ffff}', text: \"two\\nlines and 🌾\", \
    bytes: [0, 1, 255], words: [\"\", \"a\"], points: [{x: -1}, {x: 1, label: some(\"l\")}], \
    maybe: some(1), nested: some(none), outcome: err(\"no\"), bare: ok, shape: path([{x: 2}]), \
    shapes: [dot, circle(-0.5), named(\"n\")], colour: blue, rights: {read, share}, \
    many-flags: {f0, f31}, pair: (255, \"x\"), table: [[], [[1, 2]]]}";

fn call(silo: &Silo, key: &str, method: &str, arguments: &Value) -> Value {
    silo.gateway().call(&format!("values/{key}"), method, arguments).unwrap().ok()
}

/// A key of a type that has the contract, whose activation is on the silo of this name.
pub(crate) fn key_on(silo: &Silo, grain_type: &str, name: &str, prefix: &str) -> String {
    for n in 0..64 {
        let key = format!("{prefix}{n}");
        let grain = format!("{grain_type}/{key}");
        let _ = silo.gateway().call(&grain, "nothing", &json!([])).unwrap().ok();
        if silo.describe(&grain)["silo"] == json!(name) {
            return key;
        }
    }
    panic!("none of 64 grains came to {name}");
}

#[test]
fn every_type_of_value_survives_every_way() {
    let cluster = Cluster::new();
    let silos = [cluster.start("silo-1"), cluster.start("silo-2")];
    silos[0].deploy(&["values"]);
    let here = key_on(&silos[0], "values", "silo-1", "a");
    let beside = key_on(&silos[0], "values", "silo-1", "b");
    let there = key_on(&silos[0], "values", "silo-2", "c");
    let flat = json!([u64::MAX, "é", { "err": 7 }, ["share"]]);
    let many = json!([
        255,
        -128,
        65_535,
        -32_768,
        u32::MAX,
        i32::MIN,
        u64::MAX,
        i64::MIN,
        0.5,
        -0.25,
        true,
        "\u{10ffff}",
        "text",
        "blue",
        0,
        ["read", "share"]
    ]);
    for silo in &silos {
        for value in cases() {
            assert_eq!(call(silo, &here, "whole", &json!([value])), value);
            for to in [&beside, &there] {
                assert_eq!(call(silo, &here, "relay", &json!([to, value])), json!({ "ok": value }));
            }
        }
        assert_eq!(call(silo, &here, "flat", &flat), flat);
        assert_eq!(call(silo, &here, "many", &many), many);
        assert_eq!(call(silo, &here, "nothing", &json!([])), Value::Null);
        for to in [&beside, &there] {
            let relayed =
                call(silo, &here, "relay-flat", &json!([to, u64::MAX, "é", { "err": 7 }, ["share"]]));
            assert_eq!(relayed, json!({ "ok": flat }));
            let relayed = call(silo, &here, "relay-many", &json!([to, u64::MAX, "text"]));
            assert_eq!(relayed, json!({ "ok": many }));
        }
    }
}

#[test]
fn every_type_of_value_is_the_same_on_the_command_line() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["values"]);
    let written = silo.cli(&["call", "values/a", "whole", LINE]);
    let written = written.ok().to_owned();
    // What is printed can be given again, and then is printed the same.
    assert_eq!(silo.cli(&["call", "values/a", "whole", &written]).ok(), written);
    for part in [
        "18446744073709551615",
        "-9223372036854775808",
        "nan",
        "-inf",
        "some(none)",
        "err(\"no\")",
        "{read, share}",
    ] {
        assert!(written.contains(part), "{part} is not in {written}");
    }
    let flat =
        silo.cli(&["call", "values/a", "flat", "18446744073709551615", "some('é')", "ok(0.5)", "{share}"]);
    assert_eq!(flat.ok(), "(18446744073709551615, some('é'), ok(0.5), {share})");
    assert_eq!(silo.cli(&["call", "values/a", "nothing"]).ok(), "");
}
