use std::collections::HashSet;

use super::{method_hash, params_hash};
use crate::testing::signature;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_vectors_hold() {
    use sha2::Digest as _;
    let text = include_str!("../../../../../wit/vectors/method-hash.json");
    let vectors: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    assert!(vectors.len() >= 20);
    for vector in vectors {
        let field = |name: &str| vector[name].as_str().unwrap();
        let signature = signature(field("types"), field("function"));
        assert_eq!(hex(&method_hash(&signature)), field("method-hash"), "{}", field("case"));
        assert_eq!(hex(&params_hash(&signature)), field("params-hash"), "{}", field("case"));
        let preimage: Vec<u8> = (0..field("preimage").len() / 2)
            .map(|at| u8::from_str_radix(&field("preimage")[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        assert_eq!(hex(&sha2::Sha256::digest(&preimage)), field("method-hash"), "{}", field("case"));
    }
}

#[test]
fn different_structures_have_different_hashes() {
    let types =
        "record r1 { a: u8 } record r2 { b: u8 } record r3 { a: u8, b: u8 } record r4 { b: u8, a: u8 }
        enum e1 { a, b } enum e2 { b, a } flags g1 { a, b } variant v1 { a, b } variant v2 { a(u8), b }
        variant v3 { a, b(u8) }";
    let functions = [
        "func()",
        "func(a: u8)",
        "func() -> u8",
        "func(a: u8, b: u8)",
        "func(a: u8) -> u8",
        "func(a: s8)",
        "func(a: bool)",
        "func(a: char)",
        "func(a: u32)",
        "func(a: string)",
        "func(a: list<u8>)",
        "func(a: option<u8>)",
        "func(a: option<option<u8>>)",
        "func(a: tuple<u8>)",
        "func(a: tuple<u8, u8>)",
        "func(a: result)",
        "func(a: result<u8>)",
        "func(a: result<_, u8>)",
        "func(a: result<u8, u8>)",
        "func(a: r1)",
        "func(a: r2)",
        "func(a: r3)",
        "func(a: r4)",
        "func(a: e1)",
        "func(a: e2)",
        "func(a: g1)",
        "func(a: v1)",
        "func(a: v2)",
        "func(a: v3)",
        "func(a: r1, b: u8)",
    ];
    let mut seen = HashSet::new();
    for function in functions {
        let signature = signature(types, function);
        assert!(seen.insert(method_hash(&signature)), "{function}");
    }
    for function in functions {
        assert!(!seen.contains(&params_hash(&signature(types, function))), "{function}");
    }
}
