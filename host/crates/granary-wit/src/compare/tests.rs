use super::{compare, compare_params};
use crate::hash::method_hash;
use crate::testing::signature;

fn message(types: &str, expected: &str, found: &str) -> String {
    compare("deposit", &signature(types, expected), &signature(types, found)).unwrap().to_string()
}

#[test]
fn mismatch_names_function_place_and_both_types() {
    assert_eq!(
        message("", "func(amount: u64) -> u64", "func(amount: string) -> u64"),
        "function `deposit`: parameter 1 (`amount`): expected `u64`, found `string`"
    );
    assert_eq!(
        message("", "func() -> result<u64, string>", "func() -> result<u32, string>"),
        "function `deposit`: result, ok: expected `u64`, found `u32`"
    );
    assert_eq!(
        message("", "func() -> u8", "func()"),
        "function `deposit`: result: expected `u8`, found nothing"
    );
    assert_eq!(
        message("", "func(a: u8)", "func(a: u8, b: u8)"),
        "function `deposit`: number of parameters: expected 1 as in `func(a: u8)`, found 2 as in \
         `func(a: u8, b: u8)`"
    );
}

#[test]
fn mismatch_walks_into_members() {
    let types = "record a { x: u8, y: list<tuple<u8, u8>> } record b { x: u8, y: list<tuple<u8, s8>> }
        record c { x: u8 } variant v { p(u8), q } variant w { p(u16), q } variant z { p, q }";
    assert_eq!(
        message(types, "func(p: a)", "func(p: b)"),
        "function `deposit`: parameter 1 (`p`), field `y`, item, item 1: expected `u8`, found `s8`"
    );
    assert_eq!(
        message(types, "func(p: option<c>)", "func(p: option<u8>)"),
        "function `deposit`: parameter 1 (`p`), some: expected `record { x: u8 }`, found `u8`"
    );
    assert_eq!(
        message(types, "func(p: v)", "func(p: w)"),
        "function `deposit`: parameter 1 (`p`), case `p`: expected `u8`, found `u16`"
    );
    assert_eq!(
        message(types, "func(p: v)", "func(p: z)"),
        "function `deposit`: parameter 1 (`p`): expected `variant { p(u8), q }`, found `variant { p, q }`"
    );
}

#[test]
fn equal_structures_match_whatever_the_names() {
    let types = "record a { x: u8 } record b { x: u8 }";
    let (one, other) = (signature(types, "func(p: a) -> a"), signature(types, "async func(q: b) -> b"));
    assert_eq!(compare("f", &one, &other), None);
    assert_eq!(method_hash(&one), method_hash(&other));
}

#[test]
fn one_way_calls_compare_parameters_only() {
    let (one, other) = (signature("", "func(p: u8) -> u8"), signature("", "func(p: u8) -> string"));
    assert!(compare("f", &one, &other).is_some());
    assert_eq!(compare_params("f", &one, &other), None);
}

#[test]
fn long_types_are_cut_in_messages() {
    let cases: Vec<String> = (0..900).map(|index| format!("case-{index}")).collect();
    let types = format!("enum e {{ {} }}", cases.join(", "));
    let message = message(&types, "func(a: e)", "func(a: u8)");
    assert!(message.len() < 400 && message.contains("…"), "{message}");
}
