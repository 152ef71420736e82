//! Our own bad components, made of good ones: cut, flipped, rearranged, blown up.

use std::collections::BTreeMap;

use granary_tests::input::Random;
use granary_wasm::artifact::{CompileCommand, Compiler, CompilerConfig};
use granary_wasm::inspect::inspect;
use granary_wasm::{Class, EngineConfig, Grants, WasmEngine};

use super::bytes::{PREAMBLE, bytes, join, leb, section, sections};
use super::{Tally, dummy, long, seeds};
use crate::ERROR_BYTES_MAX;

/// Bytes of a seed that are flipped.
const FLIP_BYTES: usize = 4 << 10;

/// Accepted mutants that go through the compiling child and the linker; each takes about a tenth of a second.
const COMPILE_SAMPLE: usize = 10;

#[test]
fn cut_components_are_described_or_refused() {
    let mut tally = Tally::default();
    for (name, seed) in seeds() {
        let step = if long() { 1 } else { (seed.len() / 400).max(1) };
        for cut in (0..seed.len()).step_by(step) {
            tally.case(&format!("{name} cut at {cut}"), &seed[..cut]);
        }
    }
    tally.finish("cut");
}

#[tokio::test]
async fn components_with_flipped_bytes_are_described_or_refused_and_what_is_accepted_links() {
    let mut tally = Tally::default();
    for (name, seed) in seeds() {
        let masks: &[u8] = if long() { &[1, 2, 4, 8, 16, 32, 64, 128, 255] } else { &[0x01, 0x80] };
        for position in PREAMBLE.len()..seed.len().min(FLIP_BYTES) {
            for mask in masks {
                let mut bad = seed.clone();
                bad[position] ^= mask;
                tally.case(&format!("{name} byte {position} ^ {mask:#x}"), &bad);
            }
        }
    }
    tally.finish("flipped");
    compile_sample(&tally.accepted).await;
}

/// What inspection accepts compiles and links, or is refused with a bounded text.
async fn compile_sample(accepted: &[Vec<u8>]) {
    let dir = tempfile::tempdir().unwrap();
    let command = CompileCommand { program: granary_tests::binary(), args: vec!["compile-component".into()] };
    let config = CompilerConfig {
        cache_dir: dir.path().join("cache"),
        key_file: dir.path().join("host.key"),
        command,
    };
    let engine = WasmEngine::new(&EngineConfig::default()).unwrap();
    let compiler = Compiler::open(&engine, &config).unwrap();
    let (mut linked, mut refused) = (0, 0);
    for bytes in accepted.iter().step_by((accepted.len() / COMPILE_SAMPLE).max(1)) {
        let inspection = inspect(bytes).unwrap();
        let outcome = match compiler.compile(bytes, inspection.engine(&BTreeMap::new())).await {
            Ok(component) => {
                let (nothing, grants) = (BTreeMap::new(), Grants::default());
                let class = Class::new(engine.clone(), &inspection, &component, &nothing, &grants);
                class.map(|_| ()).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(()) => linked += 1,
            Err(text) => {
                assert!(text.len() <= ERROR_BYTES_MAX && !text.chars().any(char::is_control), "{text:?}");
                refused += 1;
            }
        }
    }
    println!("compiled in the child: {linked} linked, {refused} refused");
}

#[test]
fn rearranged_sections_are_described_or_refused() {
    let mut tally = Tally::default();
    for (name, seed) in seeds() {
        let parts = sections(&seed);
        for index in 0..parts.len() {
            let mut bad = parts.clone();
            bad.remove(index);
            tally.case(&format!("{name} without section {index}"), &join(&bad));
            let mut bad = parts.clone();
            bad.insert(index, parts[index].clone());
            tally.case(&format!("{name} with section {index} twice"), &join(&bad));
            for other in 0..index {
                let mut bad = parts.clone();
                bad.swap(index, other);
                tally.case(&format!("{name} with sections {other} and {index} swapped"), &join(&bad));
            }
            // The same length in more bytes than it needs, and in more than any number may have.
            for padding in [3, 9] {
                let mut bad = parts.clone();
                bad[index] = over_long(&parts[index], padding);
                tally.case(
                    &format!("{name} section {index} with {padding} more bytes of length"),
                    &join(&bad),
                );
            }
        }
    }
    tally.finish("sections");
}

/// A section whose length has `padding` bytes more than it needs.
fn over_long(whole: &[u8], padding: usize) -> Vec<u8> {
    let length_bytes = whole[1..].iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    let mut out = whole[..=length_bytes].to_vec();
    out[length_bytes] |= 0x80;
    out.extend(vec![0x80; padding - 1]);
    out.push(0);
    out.extend_from_slice(&whole[1 + length_bytes..]);
    out
}

#[test]
fn random_bytes_are_refused() {
    let mut tally = Tally::default();
    let mut random = Random(7);
    for case in 0..if long() { 200_000_usize } else { 10_000 } {
        let tail = bytes(&mut random, 1 + case % 200);
        let bytes = if case.is_multiple_of(2) { tail } else { [PREAMBLE, &tail].concat() };
        tally.case(&format!("random {case}"), &bytes);
    }
    tally.finish("random");
    assert!(tally.accepted.is_empty());
}

#[test]
fn components_that_are_too_much_of_something_are_refused_in_time() {
    let mut tally = Tally::default();
    tally.case("nested 1000 deep", &nested(1_000));
    tally.case("nested 20000 deep", &nested(20_000));
    tally.case("100000 exports", &exports((0..100_000).map(|n| format!("f{n}")).collect()));
    tally.case("1000 exports", &exports((0..1_000).map(|n| format!("f{n}")).collect()));
    // Types within types: of instances, of components, and both in turn.
    for leading in [&[0x42][..], &[0x41], &[0x41, 0x42]] {
        for depth in [40, 5_000, 1_000_000] {
            tally.case("types nested deep", &nested_types(depth, leading));
        }
    }
    for name in ["a\u{1b}[31m", "a\u{202e}b", "../a", "a\0b", "", "\u{feff}a"] {
        tally.case(&format!("the name {name:?}"), &exports(vec![name.to_owned()]));
        tally.case("the name as an import", &import(name));
    }
    for long in [600, 100_000] {
        tally.case("a long name", &exports(vec!["a".repeat(long)]));
        tally.case("a long import", &import(&"a".repeat(long)));
        tally.case("a long interface", &import(&format!("acme:x/{}@1.0.0", "a".repeat(long))));
    }
    for depth in [40, 200, 5_000] {
        tally.case("types that double", &type_bomb(depth, true));
        tally.case("types in a row", &type_bomb(depth, false));
    }
    for (name, bytes) in [
        ("a core module", &b"\0asm\x01\0\0\0"[..]),
        ("a zip archive", b"PK\x03\x04"),
        ("text", b"(component)"),
    ] {
        tally.case(name, bytes);
    }
    tally.finish("too much");
    assert!(tally.accepted.is_empty());
}

/// Long lists of honest names make a bounded error.
#[test]
fn errors_that_name_many_things_stay_short() {
    let mut tally = Tally::default();
    let many = |item: &dyn Fn(usize) -> String| (0..300).map(item).collect::<String>();
    let functions = many(&|n| format!("export function-number-{n}: func();"));
    let imports = many(&|n| format!("import interface-number-{n};"));
    let exports = many(&|n| format!("export interface-number-{n};"));
    let interfaces = many(&|n| format!("interface interface-number-{n} {{ f: func(); }}"));
    for world in [functions, format!("{imports} export a;"), exports] {
        let wit =
            format!("package acme:x@1.0.0; {interfaces} interface a {{ f: func(); }} world w {{ {world} }}");
        tally.case("many", &dummy(&wit));
    }
    let name = "n".repeat(2_000);
    for wit in [
        format!("interface a {{ resource {name}; f: func(); }} world w {{ export a; }}"),
        format!("interface a {{ {name}: async func(); }} world w {{ export a; }}"),
        format!("interface {name} {{ f: func(); }} world w {{ export {name}; }}"),
        format!("world w {{ export {name}: interface {{ f: func(); }} }}"),
    ] {
        tally.case("long names", &dummy(&format!("package acme:x@1.0.0; {wit}")));
    }
    tally.finish("long lists and names");
}

/// Components inside of components.
fn nested(depth: usize) -> Vec<u8> {
    // Built from the inside: each layer is the preamble and one section with the layer below.
    let mut out = PREAMBLE.to_vec();
    let mut headers = Vec::new();
    let mut size = PREAMBLE.len();
    for _ in 0..depth {
        let header = [PREAMBLE, &[4], &leb(size)].concat();
        size += header.len();
        headers.push(header);
    }
    let outer: Vec<u8> = headers.into_iter().rev().flatten().collect();
    out.splice(0..0, outer);
    out
}

/// Types of components and instances inside of each other, which `leading` lists in turn.
fn nested_types(depth: usize, leading: &[u8]) -> Vec<u8> {
    let mut body = vec![1];
    for level in 0..depth {
        // One declaration, which is a type.
        body.extend([leading[level % leading.len()], 1, 1]);
    }
    body.extend([0x42, 0]);
    [PREAMBLE, &section(7, &body)].concat()
}

/// One function type, and that many exports of an imported function.
fn exports(names: Vec<String>) -> Vec<u8> {
    let mut body = leb(names.len());
    for name in &names {
        body.push(0);
        body.extend(leb(name.len()));
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[1, 0, 0]);
    }
    [import("f"), section(11, &body)].concat()
}

/// A component that imports a function of this name.
fn import(name: &str) -> Vec<u8> {
    let function = section(7, &[1, 0x40, 0, 1, 0]);
    let body = [&[1, 0][..], &leb(name.len()), name.as_bytes(), &[1, 0]].concat();
    [PREAMBLE, &function, &section(10, &body)].concat()
}

/// Types each of which holds the one before, twice or once.
fn type_bomb(depth: usize, twice: bool) -> Vec<u8> {
    let mut body = leb(depth + 1);
    body.push(0x7d);
    for index in 0..depth {
        let item = leb(index);
        if twice {
            body.extend([&[0x6f, 2][..], &item, &item].concat());
        } else {
            body.extend([&[0x70][..], &item].concat());
        }
    }
    [PREAMBLE, &section(7, &body)].concat()
}
