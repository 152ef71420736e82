//! What the reader accepts and what it says about the rest.

use super::*;

#[track_caller]
fn read(text: &str) -> GrainManifest {
    from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\nin {text}"))
}

#[track_caller]
fn refused(text: impl AsRef<[u8]>) -> String {
    from_json(text.as_ref()).expect_err("this is no manifest").to_string()
}

/// The properties of the only grain.
fn properties(manifest: &GrainManifest) -> &Properties {
    manifest.grains().values().next().unwrap()
}

#[test]
fn the_vectors_have_their_hashes_in_any_order_of_entries() {
    let vectors = [
        (
            r#"{"grains": [], "interfaces": []}"#,
            "163E7F66D58036CCB1D0B0058D8F46E7CD639816F570E5EB32853EA73634E4CD",
        ),
        (
            r#"{"interfaces":[],"grains":[["counter",{"type-name":"CounterGrain","placement-strategy":"RandomPlacement"}]]}"#,
            "A08E36A5E1E2FFD894F70C1BBF26BEF9B93DA2D5A03B3CA4D4FBBC9080F8AE77",
        ),
        (
            r#"{"grains": [[null, {"c": "\ud800", "b": null, "a": ""}]], "interfaces": []}"#,
            "C1461666C6AEA9BD99C3BF81BB703919E16918C7892885B6774B5A222D0838D5",
        ),
        (
            r#"{"grains": [[{"hex": "8000"}, {"k": "\uD800"}]], "interfaces": []}"#,
            "DD34377AD1C69045F2B55D6DCAB099A7A36C0A6B6909DC2C54D5B6AC1FA9EBF9",
        ),
        (
            r#"{"grains": [["", {}], [null, {}]], "interfaces": []}"#,
            "F2588DFA7BEA09BEB8B2B230D22084726E9F193A38E19820475EFFE8CAC7CEF8",
        ),
        (
            "{\"grains\": [[\"g\", {\"\u{e000}\": \"p\", \"\u{10000}\": \"s\"}]], \"interfaces\": []}",
            "ABC2D372DE1F93C1F798EBF57EF499ED05BB8AF46487986A1D76B5D09FE05731",
        ),
        (
            r#"{"grains": [["g", {"\ud800\udc00": "s", "\ue000": "p"}]], "interfaces": []}"#,
            "ABC2D372DE1F93C1F798EBF57EF499ED05BB8AF46487986A1D76B5D09FE05731",
        ),
        (
            r#"{"grains": [["b", {}], ["a", {}], ["ab", {}]], "interfaces": []}"#,
            "7DB93DF674DCF7EF04055DA2D058547DB097ADF48F8FFE8515FDA6AE2ACF82E9",
        ),
    ];
    for (json, hash) in vectors {
        let manifest = read(json);
        assert_eq!(manifest.hash().to_string(), hash, "{json}");
        assert_eq!(from_json(to_json(&manifest).as_bytes()), Ok(manifest));
    }
}

#[test]
fn lone_surrogates_survive_in_keys_and_values_and_are_not_pairs_or_replacements() {
    let manifest =
        read(r#"{"grains": [["g", {"\udc00\ud800": "\ud800", "\ud83d\ude00": "😀"}]], "interfaces": []}"#);
    let lone = Text::new(vec![0xd800]);
    let swapped = Text::new(vec![0xdc00, 0xd800]);
    assert_eq!(properties(&manifest)[&swapped], Some(lone));
    assert_eq!(properties(&manifest)[&"😀".into()], Some("😀".into()));
    let json = r#"{"grains": [["g", {"😀": "😀", "\udc00\ud800": "\ud800"}]], "interfaces": []}"#;
    assert_eq!(to_json(&manifest), json);
}

#[test]
fn escapes_and_space_are_those_of_json() {
    let manifest = read(
        "\r\n\t {\"grains\" : [ [ \"g\" , { \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\" : \"\" } ] ] , \"interfaces\" : [ ] } \n",
    );
    assert_eq!(properties(&manifest).keys().next(), Some(&"\"\\/\u{8}\u{c}\n\r\tA".into()));
    assert_eq!(from_json(to_json(&manifest).as_bytes()), Ok(manifest));
}

#[test]
fn ids_are_bytes_in_three_spellings() {
    let manifest = read(
        r#"{"grains": [], "interfaces": [[{"hex": "FFfe"}, {}], [{"hex": ""}, {}], ["é/😀", {}], [null, {}]]}"#,
    );
    let ids: Vec<_> = manifest.interfaces().keys().cloned().collect();
    let expected = [Identifier::NULL, Identifier::new(""), "é/😀".into(), Identifier::new([0xff, 0xfe])];
    assert_eq!(ids, expected);
    assert_eq!(from_json(to_json(&manifest).as_bytes()), Ok(manifest));
}

#[test]
fn the_same_id_or_key_twice_is_an_error_in_any_spelling() {
    let grains = |entries: &str| format!("{{\"grains\": [{entries}], \"interfaces\": []}}");
    let cases = [
        (grains(r#"["a", {}], ["a", {}]"#), r#"at grains[1][0]: the id a occurs twice in this section"#),
        (grains(r#"["a", {}], ["\u0061", {}]"#), r#"at grains[1][0]: the id a occurs twice in this section"#),
        (
            grains(r#"["a", {}], [{"hex": "61"}, {}]"#),
            "at grains[1][0]: the id a occurs twice in this section",
        ),
        (grains(r#"[null, {}], [null, {}]"#), "the id (null) occurs twice in this section"),
        (grains(r#"["", {}], [{"hex": ""}, {}]"#), "the id (empty) occurs twice in this section"),
        (
            grains(r#"["a", {"k": null, "k": null}]"#),
            r#"column 31, at grains[0][1]."k": "k": this key occurs twice in these properties"#,
        ),
        (grains(r#"["a", {"k": "1", "\u006b": "1"}]"#), r#""k": this key occurs twice"#),
        (grains(r#"["a", {"\ud800": "1", "\uD800": "1"}]"#), r#""\u{d800}": this key occurs twice"#),
        (
            r#"{"grains": [], "interfaces": [], "grains": []}"#.into(),
            r#""grains": this section occurs twice"#,
        ),
    ];
    for (json, error) in cases {
        assert!(refused(&json).contains(error), "{json}: {}", refused(&json));
    }
    // The same id in both sections is two things; a pair of surrogates and the character are one key.
    read(r#"{"grains": [["a", {}]], "interfaces": [["a", {}]]}"#);
    assert!(refused(grains(r#"["a", {"😀": "", "\ud83d\ude00": ""}]"#)).contains("twice"));
}

#[test]
fn what_has_another_shape_is_refused_with_its_place() {
    let cases = [
        (
            "",
            "line 1, column 1, at the top: expected a manifest, which is an object, found the end of the text",
        ),
        ("[]", "expected a manifest, which is an object, found an array"),
        ("{}", "the section \"grains\" is missing; write \"grains\": [] if there is nothing in it"),
        (r#"{"grains": []}"#, "the section \"interfaces\" is missing"),
        (r#"{"grain": []}"#, "at grain: \"grain\": the sections are \"grains\" and \"interfaces\""),
        (r#"{"grains": {}}"#, "at grains: expected a section, which is an array of entries, found an object"),
        (
            r#"{"grains": [null]}"#,
            "at grains[0]: expected an entry, which is an array [ID, {KEY: VALUE}], found null",
        ),
        (r#"{"grains": [["a"]]}"#, "at grains[0]: expected an entry"),
        (r#"{"grains": [["a", {}, {}]]}"#, "found a third element"),
        (
            r#"{"grains": [[1, {}]]}"#,
            "at grains[0][0]: expected an id, which is null, a string or {\"hex\": DIGITS}, found a number",
        ),
        (
            r#"{"grains": [["a", []]]}"#,
            "at grains[0][1]: expected properties, which are an object, found an array",
        ),
        (
            r#"{"grains": [["a", {"k": 1}]]}"#,
            "at grains[0][1].\"k\": expected a value, which is null or a string, found a number",
        ),
        (r#"{"grains": [["a", {"k": true}]]}"#, "found true"),
        (r#"{"grains": [["a", {"k": nullx}]]}"#, "expected null, found nullx"),
        (r#"{"grains": [["a", {k: null}]]}"#, "expected a key, which is a string, found k"),
        (r#"{"grains": [["a", {"k" null}]]}"#, "expected a colon after the key, found null"),
        (r#"{"grains": [["a", {}],]}"#, "at grains[1]: expected an entry"),
        (r#"{"grains": [["a", {"k": null,}]]}"#, "expected a key, which is a string, found '}'"),
        (r#"{"grains": [["a", {}] ["b", {}]]}"#, "expected a comma or the end of the array, found an array"),
        (
            r#"{"grains": [], "interfaces": []} x"#,
            "column 34, at the top: expected the end of the text, found x",
        ),
        (r#"{"grains": [], "interfaces": []}{}"#, "expected the end of the text, found an object"),
        (r#"{"grains": [[{"hex": "8"}, {}]]}"#, "\"hex\" has an even number of hexadecimal digits"),
        (r#"{"grains": [[{"hex": "8g"}, {}]]}"#, "\"hex\" has an even number of hexadecimal digits"),
        (r#"{"grains": [[{"hex": null}, {}]]}"#, "expected a string of hexadecimal digits, found null"),
        (r#"{"grains": [[{}, {}]]}"#, "an id's object has the one key \"hex\""),
        (r#"{"grains": [[{"hex": "", "hex": ""}, {}]]}"#, "an id's object has the one key \"hex\""),
        (r#"{"grains": [[{"text": "a"}, {}]]}"#, "\"text\": an id's object has the one key \"hex\""),
        (
            r#"{"grains": [["\ud800", {}]]}"#,
            "column 14, at grains[0][0]: an id is bytes, and this string has a lone surrogate",
        ),
        (r#"{"grains": [["\x61", {}]]}"#, "an escape is one of"),
        (r#"{"grains": [["\u12g4", {}]]}"#, "an escape is one of"),
        (r#"{"grains": [["\u12"#, "an escape is one of"),
        (r#"{"grains": [["a"#, "the text ends within a string"),
        (
            "{\n  \"grains\": [[\"é\t\", {}]]}",
            "line 2, column 17, at grains[0][0]: a string may not hold the control character U+0009; write \\u0009",
        ),
        ("\u{feff}{}", "the text begins with a byte order mark; leave it out"),
        ("{\u{a0}}", "expected a key, which is a string, found '\\u{a0}'"),
    ];
    for (json, error) in cases {
        assert!(refused(json).contains(error), "{json}\n{}\n{error}", refused(json));
    }
}

#[test]
fn text_that_is_not_utf_8_is_refused_where_it_begins() {
    let error = refused(b"{\"grains\": [[\"\xed\xa0\x80\", {}]], \"interfaces\": []}");
    assert_eq!(error, "line 1, column 15, at the top: the text is not UTF-8 from here on");
}

#[test]
fn hostile_nesting_is_refused_without_recursion() {
    let deep = format!("{{\"grains\": {}", "[".repeat(1_000_000));
    assert!(refused(deep).contains("at grains[0][0]: expected an id"));
}

#[test]
fn a_long_key_is_cut_in_errors() {
    let json = format!("{{\"grains\": [[\"g\", {{\"{}\": 1}}]]}}", "k".repeat(10_000));
    assert!(refused(json).len() < 300);
}
