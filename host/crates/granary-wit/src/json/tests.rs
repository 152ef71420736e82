use super::{args_from_json, args_to_json, result_to_json, value_from_json, value_to_json};
use crate::testing::{param, signature};
use crate::{Type, ValueError};

const MAX: usize = 1 << 20;

/// The page that explains the mapping to users.
const PAGE: &str = include_str!("../../../../../docs/json.md");

/// What stands between the bars of a row.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).unwrap().split('|')
}

/// The rows of the table under this header, as cells without their backticks.
fn rows(header: &str, nth: usize) -> Vec<Vec<String>> {
    let (_, table) = PAGE.match_indices(header).nth(nth).map(|(at, _)| PAGE.split_at(at)).unwrap();
    let rows: Vec<Vec<String>> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| cells(line).map(|cell| cell.trim().trim_matches('`').to_owned()).collect())
        .collect();
    assert!(!rows.is_empty());
    rows
}

fn page_types() -> &'static str {
    let (_, rest) = PAGE.split_once("```wit\n").unwrap();
    rest.split_once("```").unwrap().0
}

fn page_signature() -> crate::Signature {
    signature(page_types(), "func(item: item, count: u32, note: option<string>)")
}

#[test]
fn values_of_the_page_hold() {
    let rows = rows("| WIT type | written | also read | note |", 0);
    assert!(rows.len() > 35);
    for row in rows {
        let ty = param(page_types(), &row[0]);
        let bytes = value_from_json(&ty, &row[1], MAX).unwrap_or_else(|error| panic!("{row:?}: {error}"));
        assert_eq!(value_to_json(&ty, &bytes).unwrap(), row[1], "{row:?}");
        if !row[2].is_empty() {
            assert_eq!(value_from_json(&ty, &row[2], MAX).unwrap(), bytes, "{row:?}");
        }
    }
}

#[test]
fn errors_of_the_page_hold() {
    for row in rows("| WIT type | JSON | error |", 0) {
        let ty = param(page_types(), &row[0]);
        let error = value_from_json(&ty, &row[1], MAX).unwrap_err();
        assert_eq!(error.to_string(), row[2]);
    }
}

#[test]
fn arguments_of_the_page_hold() {
    let signature = page_signature();
    let mut encoded =
        rows("| arguments | |", 0).into_iter().map(|row| args_from_json(&signature, &row[0], MAX).unwrap());
    let first = encoded.next().unwrap();
    assert!(encoded.all(|other| other == first));
    for row in rows("| arguments | error |", 0) {
        assert_eq!(args_from_json(&signature, &row[0], MAX).unwrap_err().to_string(), row[1]);
    }
}

#[test]
fn vectors_hold() {
    let text = include_str!("../../../../../wit/vectors/json.json");
    let vectors: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    assert!(vectors.len() >= 30);
    for vector in vectors {
        let field = |name: &str| vector[name].as_str().unwrap_or_else(|| panic!("{name} in {vector}"));
        let ty = param(field("types"), field("type"));
        let bytes = value_from_json(&ty, field("json"), MAX).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, field("wire"), "{vector}");
        assert_eq!(value_to_json(&ty, &bytes).unwrap(), field("json"));
        let one =
            crate::Signature { params: vec![("a".into(), ty.clone())], result: Some(ty), is_async: false };
        assert_eq!(crate::args_from_wave(&one, field("wave"), MAX).unwrap(), bytes, "{vector}");
        assert_eq!(crate::result_to_wave(&one, &bytes).unwrap(), field("wave"));
    }
}

fn error(ty: &Type, text: &str) -> ValueError {
    value_from_json(ty, text, MAX).unwrap_err()
}

#[test]
fn functions_without_parameters_take_nothing() {
    let signature = signature("", "func()");
    for text in ["", " \n", "[]", "{}", " [ ] "] {
        assert_eq!(args_from_json(&signature, text, MAX).unwrap(), b"", "{text:?}");
    }
    assert!(args_from_json(&signature, "[1]", MAX).unwrap_err().message.contains("takes no arguments"));
    assert_eq!(result_to_json(&signature, b"").unwrap(), "null");
    assert!(result_to_json(&signature, b"x").unwrap_err().message.contains("1 bytes too many"));
    assert_eq!(args_to_json(&signature, b"").unwrap(), "[]");
}

#[test]
fn arguments_are_placed_by_name_and_by_position() {
    let signature = signature("", "func(a: u8, b: string, c: option<u8>)");
    let by_position = args_from_json(&signature, r#"[1, "x", null]"#, MAX).unwrap();
    assert_eq!(by_position, [1, 1, 0, 0, 0, b'x', 0, 0, 0, 0]);
    assert_eq!(args_from_json(&signature, r#"{"b": "x", "a": 1}"#, MAX).unwrap(), by_position);
    assert_eq!(args_from_json(&signature, r#"{"c": null, "b": "x", "a": 1}"#, MAX).unwrap(), by_position);
    assert_eq!(args_to_json(&signature, &by_position).unwrap(), r#"[1,"x",null]"#);
    let twice = args_from_json(&signature, r#"{"a": 1, "b": "x", "a": 1}"#, MAX).unwrap_err();
    assert_eq!(twice.to_string(), "$.a: given twice");
    assert!(
        args_from_json(&signature, "", MAX).unwrap_err().message.contains("argument 1 (`a: u8`) is missing")
    );
}

#[test]
fn grammar_is_that_of_json() {
    let ty = param("", "list<f64>");
    for text in [
        "[1,]", "[,1]", "[01]", "[+1]", "[.5]", "[1.]", "[1e]", "[0x1]", "[1] 2", "[1", "", "[-]", "[1 2]",
        "[NaN]",
    ] {
        value_from_json(&ty, text, MAX).unwrap_err();
        assert!(serde_json::from_str::<serde_json::Value>(text).is_err(), "{text}");
    }
    let text = param("", "string");
    for bad in [
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\",
        "\"\\é\"",
    ] {
        error(&text, bad);
        assert!(serde_json::from_str::<String>(bad).is_err(), "{bad}");
    }
    let all = r#""\"\\\/\b\f\n\r\t\u0041\ud834\udd1e é""#;
    let bytes = value_from_json(&text, all, MAX).unwrap();
    assert_eq!(&bytes[4..], serde_json::from_str::<String>(all).unwrap().as_bytes());
}

#[test]
fn syntax_errors_say_where() {
    let ty = param("", "list<list<bool>>");
    assert_eq!(
        error(&ty, "[\n  [true],\n  [true; false]]").to_string(),
        "$[1]: not JSON at line 3, column 8: expected `,` or `]`, found `;`"
    );
    assert_eq!(
        error(&ty, "[[true]] x").to_string(),
        "$: not JSON at line 1, column 10: expected the end of the text, found `x`"
    );
}

#[test]
fn what_was_found_is_bounded_and_escaped() {
    let message = error(&Type::U8, &format!("\"{}\\u001b\"", "x".repeat(10_000))).to_string();
    assert!(message.len() < 120, "{message}");
    let message = error(&Type::U8, "\"\\u001b[2J\"").to_string();
    assert_eq!(message, "$: expected u8, found string \"\\u{1b}[2J\"");
    let message = error(&Type::U8, &"9".repeat(10_000)).to_string();
    assert!(message.len() < 120, "{message}");
}

#[test]
fn options_left_out_cannot_blow_up_the_encoding() {
    let fields: Vec<String> = (0..1_000).map(|index| format!("n{index}: option<u8>")).collect();
    let ty = param(&format!("record r {{ {} }}", fields.join(", ")), "list<r>");
    let text = format!("[{}]", vec!["{}"; 10_000].join(","));
    assert!(error(&ty, &text).message.contains("more than 1048576 bytes"));
}

#[test]
fn names_cannot_blow_up_the_text() {
    let name = "x".repeat(60_000);
    let ty = param(&format!("enum e {{ {name} }}"), "list<e>");
    let mut bytes = 10_000u32.to_le_bytes().to_vec();
    bytes.resize(4 + 4 * 10_000, 0);
    assert!(value_to_json(&ty, &bytes).unwrap_err().message.contains("more than 33554432 bytes, the limit"));
}

#[test]
fn lists_of_bytes_are_base64_or_numbers() {
    let ty = param("", "list<u8>");
    assert_eq!(value_from_json(&ty, "\"\"", MAX).unwrap(), [0, 0, 0, 0]);
    assert_eq!(value_from_json(&ty, "\"/w==\"", MAX).unwrap(), [1, 0, 0, 0, 255]);
    for bad in ["\"/w\"", "\"/x==\"", "\"_w==\"", "\"/w==\\n\""] {
        assert!(error(&ty, bad).message.contains("not base64 with padding"), "{bad}");
    }
    assert_eq!(error(&ty, "[256]").to_string(), "$[0]: expected u8, found number 256");
}

#[test]
fn float_text_is_read_exactly() {
    // Halfway between two floats by way of a double: reading it as a double first rounds twice.
    let bytes = value_from_json(&Type::F32, "1.00000017881393432617187499", MAX).unwrap();
    assert_eq!(f32::from_le_bytes(bytes.try_into().unwrap()), 1.000_000_1);
    assert_eq!(error(&Type::F32, "1e39").to_string(), "$: expected f32, found number 1e39");
    assert_eq!(value_from_json(&Type::F64, "1e-999", MAX).unwrap(), [0; 8]);
}
