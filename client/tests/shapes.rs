//! Each shape of WIT type: what the generated types write is what the silo's own encoder reads, and the reverse.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use granary_client::GrainRef;
use granary_client::json::{Place, WitValue, parse};
use granary_wit::{Type, value_from_json, value_to_json};

granary_client::contract! { wit = "../guest-sdk/tests/wit/shapes", interface = "test:shapes/echo" }

use contract::{Color, Entry, Everything, Failure, Permissions, Point, Shape};

/// The types of the contract's methods, as the silo sees them.
fn types() -> Vec<Type> {
    let mut resolve = wit_parser::Resolve::default();
    granary_wit::push_grain_package(&mut resolve).unwrap();
    resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-sdk/tests/wit/shapes")).unwrap();
    let (id, _) = resolve.interfaces.iter().find(|(_, found)| found.name.as_deref() == Some("echo")).unwrap();
    let interface = granary_wit::Interface::from_resolve(&resolve, id).unwrap();
    let of = |function: &granary_wit::Signature| -> Vec<Type> {
        function.params.iter().map(|(_, ty)| ty.clone()).chain(function.result.clone()).collect()
    };
    interface.functions.values().flat_map(of).collect()
}

/// The value passes through the silo's encoding of the type with this text, and is the same afterwards.
fn passes<T: WitValue + PartialEq + std::fmt::Debug>(value: &T, ty: &str) {
    let found = types().into_iter().find(|found| found.to_string() == ty);
    let found = found.unwrap_or_else(|| panic!("no method has the type {ty}"));
    let text = value.to_json().to_string();
    let bytes = value_from_json(&found, &text, 1 << 20).unwrap_or_else(|error| panic!("{text}: {error}"));
    let back = value_to_json(&found, &bytes).unwrap();
    let read = T::from_json(parse(&back).unwrap(), &Place::root()).unwrap();
    assert_eq!(&read, value, "{back}");
}

fn entry() -> Entry {
    Entry {
        id: "e \"1\"".to_owned(),
        at: Point { x: -1, y: i32::MAX },
        tags: vec!["a".to_owned(), String::new()],
        color: Some(Color::Green),
        grain: GrainRef::new("account", "a/b"),
    }
}

const POINT: &str = "record { x: s32, y: s32 }";
const GRAIN: &str = "record { grain-type: string, key: string }";

fn entry_type() -> String {
    format!(
        "record {{ id: string, at: {POINT}, tags: list<string>, color: option<enum {{ red, green, blue }}>, \
         grain: {GRAIN} }}"
    )
}

fn shape_type() -> String {
    format!(
        "variant {{ nothing, circle(f64), polygon(list<{POINT}>), labelled(tuple<string, {POINT}>), \
         permitted(flags {{ read, write, execute }}) }}"
    )
}

#[test]
fn scalars_and_texts_pass() {
    let all = (true, 255, -128, 65_535, -32_768, u32::MAX, i32::MIN, u64::MAX, i64::MIN, 0.1_f32, -0.0, '🌾');
    let scalars = "tuple<bool, u8, s8, u16, s16, u32, s32, u64, s64, f32, f64, char>";
    passes::<(bool, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, char)>(&all, scalars);
    passes(&"two\nlines \u{0} 🌾".to_owned(), "string");
    passes(&vec![0_u8, 255, 7], "list<u8>");
    passes(&vec![vec![1_u32], vec![]], "list<list<u32>>");
}

#[test]
fn options_results_and_tuples_pass() {
    for value in [None, Some(None), Some(Some(7_u8))] {
        passes(&value, "option<option<u8>>");
    }
    passes(&Some("x".to_owned()), "option<string>");
    passes(&("a".to_owned(), 3_u32), "tuple<string, u32>");
    passes(&Ok::<(), ()>(()), "result");
    passes(&Err::<u8, ()>(()), "result<u8>");
    passes(&Err::<String, String>("bad".to_owned()), "result<string, string>");
}

#[test]
fn records_variants_enums_and_flags_pass() {
    passes(&entry(), &entry_type());
    passes(&Entry { color: None, ..entry() }, &entry_type());
    for shape in [
        Shape::Nothing,
        Shape::Circle(1.5),
        Shape::Polygon(vec![Point { x: 1, y: 2 }]),
        Shape::Labelled(("here".to_owned(), Point { x: 0, y: 0 })),
        Shape::Permitted(Permissions::READ | Permissions::EXECUTE),
        Shape::Permitted(Permissions::empty()),
    ] {
        passes(&shape, &shape_type());
    }
    passes(&Color::Blue, "enum { red, green, blue }");
    passes(&Permissions::all(), "flags { read, write, execute }");
    let failure = format!("result<{POINT}, variant {{ empty, bad({}) }}>", entry_type());
    passes(&Err::<Point, Failure>(Failure::Bad(entry())), &failure);
    passes(&Err::<Point, Failure>(Failure::Empty), &failure);
    let everything = Everything {
        entries: vec![entry()],
        shape: Shape::Circle(f64::INFINITY),
        nested: Some(Some(Err("x".to_owned()))),
        type_: "t".to_owned(),
    };
    let ty = format!(
        "record {{ entries: list<{}>, shape: {}, nested: option<option<result<u8, string>>>, type: string }}",
        entry_type(),
        shape_type()
    );
    passes(&everything, &ty);
    passes(&vec![GrainRef::new("a", "b")], &format!("list<{GRAIN}>"));
}

#[test]
fn what_the_contract_does_not_have_is_refused_with_its_place() {
    let read = |text: &str| Entry::from_json(parse(text).unwrap(), &Place::root()).unwrap_err().to_string();
    assert_eq!(read("{}"), "$.id: missing");
    assert!(read("[]").contains("expected an object"));
    let shape = |text: &str| Shape::from_json(parse(text).unwrap(), &Place::root()).unwrap_err().to_string();
    assert_eq!(shape("\"oval\""), "$: unknown case \"oval\"");
    assert_eq!(shape("\"circle\""), "$.circle: the case has a payload");
    assert_eq!(shape("{\"permitted\":[\"fly\"]}"), "$.permitted: unknown flag \"fly\"");
}
