//! Each shape of WIT type: the generated code compiles, and values pass unchanged through references and grains
//! that share one Rust type for both directions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use granary_guest::prelude::*;
use granary_guest::testing::TestContext;

use contract::{Color, EchoRef, Entry, Everything, Failure, Permissions, Point, Shape};

#[grain(interface = "test:shapes/echo", refs = ["test:shapes/echo"], wit = "tests/wit/shapes")]
#[derive(Default)]
struct EchoGrain {
    nothings: u32,
}

type Scalars = (bool, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, char);

fn unless<T, E>(fail: bool, value: T, error: E) -> Result<T, E> {
    if fail { Err(error) } else { Ok(value) }
}

#[rustfmt::skip]
impl contract::Echo for EchoGrain {
    fn scalars(
        &mut self, a: bool, b: u8, c: i8, d: u16, e: i16, f: u32, g: i32, h: u64, i: i64, j: f32, k: f64, l: char,
    ) -> Scalars {
        (a, b, c, d, e, f, g, h, i, j, k, l)
    }
    fn text(&mut self, text: String) -> String { text }
    fn bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> { bytes }
    fn strings(&mut self, list: Vec<String>) -> Vec<String> { list }
    fn lists(&mut self, list: Vec<Vec<u32>>) -> Vec<Vec<u32>> { list }
    fn maybe(&mut self, maybe: Option<String>) -> Option<String> { maybe }
    fn nested_maybe(&mut self, maybe: Option<Option<u8>>) -> Option<Option<u8>> { maybe }
    fn pair(&mut self, pair: (String, u32)) -> (String, u32) { pair }
    fn record_by_value(&mut self, point: Point) -> Point { point }
    fn record_of_text(&mut self, entry: Entry) -> Entry { entry }
    fn records(&mut self, entries: Vec<Entry>) -> Vec<Entry> { entries }
    fn variant_of_all(&mut self, shape: Shape) -> Shape { shape }
    fn enumeration(&mut self, color: Color) -> Color { color }
    fn flagged(&mut self, permissions: Permissions) -> Permissions { permissions }
    fn alias(&mut self, tags: contract::Tags) -> contract::Tags { tags }
    fn result_in_argument(&mut self, given: Result<u32, String>) -> Option<u32> { given.ok() }
    fn all(&mut self, everything: Everything) -> Everything { everything }
    fn grains(&mut self, to: GrainRef, others: Vec<GrainRef>) -> Vec<GrainRef> {
        [vec![to], others].concat()
    }
    fn nothing(&mut self) { self.nothings += 1; }
    fn fallible(&mut self, fail: bool) -> Result<Point, Failure> {
        unless(fail, Point { x: 1, y: 2 }, Failure::Bad(entry()))
    }
    fn fallible_without_value(&mut self, fail: bool) -> Result<(), Failure> { unless(fail, (), Failure::Empty) }
    fn fallible_without_error(&mut self, fail: bool) -> Result<u8, ()> { unless(fail, 7, ()) }
    fn fallible_without_all(&mut self, fail: bool) -> Result<(), ()> { unless(fail, (), ()) }
    fn fallible_with_text(&mut self, fail: bool) -> Result<String, String> {
        unless(fail, "good".into(), "bad".into())
    }
}

fn entry() -> Entry {
    Entry {
        id: "é".into(),
        at: Point { x: -1, y: i32::MAX },
        tags: vec!["a".into(), String::new()],
        color: Some(Color::Blue),
        grain: GrainRef::new("echo", "k"),
    }
}

fn echo() -> (TestContext, EchoRef) {
    let ctx = TestContext::new();
    ctx.serve::<EchoGrain>("echo");
    (ctx, EchoRef::get("a").unwrap())
}

#[test]
fn scalars_and_text_pass_unchanged() {
    let (_ctx, echo) = echo();
    let all = (true, 1, -2, 3, -4, 5, -6, u64::MAX, i64::MIN, 1.5, f64::INFINITY, '\u{10ffff}');
    let (a, b, c, d, e, f, g, h, i, j, k, l) = all;
    assert_eq!(echo.scalars(a, b, c, d, e, f, g, h, i, j, k, l).unwrap(), all);
    assert_eq!(echo.text("grüezi").unwrap(), "grüezi");
    assert_eq!(echo.bytes(&[0, 255]).unwrap(), [0, 255]);
    assert_eq!(echo.strings(&["a".into(), String::new()]).unwrap(), ["a", ""]);
    assert_eq!(echo.lists(&[vec![], vec![1, 2]]).unwrap(), [vec![], vec![1, 2]]);
}

#[test]
fn options_keep_every_level() {
    let (_ctx, echo) = echo();
    assert_eq!(echo.maybe(Some("x")).unwrap().as_deref(), Some("x"));
    assert_eq!(echo.maybe(None).unwrap(), None);
    for nested in [None, Some(None), Some(Some(7))] {
        assert_eq!(echo.nested_maybe(nested).unwrap(), nested);
    }
    assert_eq!(echo.result_in_argument(Ok(3)).unwrap(), Some(3));
    assert_eq!(echo.result_in_argument(Err("no")).unwrap(), None);
}

#[test]
fn named_types_pass_unchanged() {
    let (_ctx, echo) = echo();
    assert_eq!(echo.pair(("a", 1)).unwrap(), ("a".to_owned(), 1));
    assert_eq!(echo.record_by_value(Point { x: 1, y: 2 }).unwrap(), Point { x: 1, y: 2 });
    assert_eq!(echo.record_of_text(&entry()).unwrap(), entry());
    assert_eq!(echo.records(&[entry(), entry()]).unwrap(), [entry(), entry()]);
    for shape in [
        Shape::Nothing,
        Shape::Circle(0.5),
        Shape::Polygon(vec![Point { x: 0, y: 0 }]),
        Shape::Labelled(("l".into(), Point { x: 3, y: 4 })),
        Shape::Permitted(Permissions::READ | Permissions::EXECUTE),
    ] {
        assert_eq!(echo.variant_of_all(&shape).unwrap(), shape);
    }
    assert_eq!(echo.enumeration(Color::Green).unwrap(), Color::Green);
    assert_eq!(echo.flagged(Permissions::all()).unwrap(), Permissions::all());
    assert_eq!(echo.alias(&["t".to_owned()]).unwrap(), ["t"]);
    let everything = Everything {
        entries: vec![entry()],
        shape: Shape::Nothing,
        nested: Some(Some(Err("e".into()))),
        type_: "t".into(),
    };
    assert_eq!(echo.all(&everything).unwrap(), everything);
}

#[test]
fn references_are_values() {
    let (_ctx, echo) = echo();
    let other = GrainRef::new("x", "y");
    assert_eq!(
        echo.grains(echo.grain_ref(), std::slice::from_ref(&other)).unwrap(),
        [echo.grain_ref().clone(), other.clone()]
    );
    assert_eq!(GrainRef::from(EchoRef::new(other.clone())), other);
    assert_eq!((echo.key(), echo.to_string()), ("a", "echo/a".to_owned()));
}

#[test]
fn results_become_rust_results() {
    let (_ctx, echo) = echo();
    assert_eq!(echo.fallible(false), Ok(Point { x: 1, y: 2 }));
    assert_eq!(echo.fallible(true), Err(GrainError::Grain(Failure::Bad(entry()))));
    assert_eq!(echo.fallible_without_value(false), Ok(()));
    assert_eq!(echo.fallible_without_value(true), Err(GrainError::Grain(Failure::Empty)));
    assert_eq!(echo.fallible_without_error(false), Ok(7));
    assert_eq!(echo.fallible_without_error(true), Err(GrainError::Grain(())));
    assert_eq!(echo.fallible_without_all(true), Err(GrainError::Grain(())));
    assert_eq!(echo.fallible_with_text(true), Err(GrainError::Grain("bad".to_owned())));
    assert_eq!(echo.nothing(), Ok(()));
}

#[test]
fn one_way_calls_run_after_the_turn() {
    let (ctx, echo) = echo();
    let handle = ctx.activate::<EchoGrain>("a").unwrap();
    handle.call(|grain| {
        echo.send().nothing().unwrap();
        echo.send().fallible(true).unwrap();
        assert_eq!(grain.nothings, 0);
    });
    assert_eq!(handle.call(|grain| grain.nothings), 1);
}

#[test]
fn a_call_failure_is_told_from_the_grains_own() {
    let (ctx, echo) = echo();
    ctx.fail_next_call("echo", "fallible", CallError::TimedOut);
    assert_eq!(echo.fallible(true), Err(GrainError::Call(CallError::TimedOut)));
    ctx.fail_next_call("echo", "text", CallError::Fenced);
    assert_eq!(echo.text("x"), Err(CallError::Fenced));
}

#[test]
fn closures_stand_in_for_single_methods() {
    let (ctx, echo) = echo();
    ctx.mock("test:shapes/echo", "echo", "text", |key, (text,): (String,)| format!("{key}: {text}"));
    assert_eq!(echo.text("hello").unwrap(), "a: hello");
    assert_eq!(echo.maybe(None).unwrap(), None);
}
