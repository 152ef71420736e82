//! The list of decoders. A new decoder of bytes from outside gets a line here.
//!
//! Not here: request heads, which hyper reads, and the bytes of SQLite files, which SQLite reads.

use std::collections::BTreeMap;

use bytes::BytesMut;
use granary_core::id::{Digest, GrainId, GrainType, SiloAddress};
use granary_core::manifest::ManifestHash;
use granary_core::manifest::json;
use granary_net::{FRAME_BYTES_MAX, FrameDecoder};
use granary_wasm::inspect::{Inspection, inspect};
use granary_wit::{Interface, Signature};
use tokio_util::codec::Decoder as _;
use wasm_encoder::{ComponentSection as _, CustomSection};

/// The bound on values, as a grain type has it by default.
const VALUE_BYTES_MAX: usize = 4 << 20;

/// Reads an input and forgets what it says.
type Decode = dyn Fn(&[u8]) -> Result<(), String>;

/// One decoder.
pub(crate) struct Decoder {
    pub(crate) name: &'static str,
    /// Inputs of the normal run.
    pub(crate) cases: u64,
    /// Valid inputs, of which changed ones are made.
    pub(crate) samples: Vec<Vec<u8>>,
    /// The error is the text that its reader gets.
    pub(crate) decode: Box<Decode>,
}

fn decoder(
    name: &'static str,
    cases: u64,
    samples: Vec<Vec<u8>>,
    decode: impl Fn(&[u8]) -> Result<(), String> + 'static,
) -> Decoder {
    Decoder { name, cases, samples, decode: Box::new(decode) }
}

/// All of them.
pub(crate) fn registry() -> Vec<Decoder> {
    let mut all = vec![
        decoder("frames between silos", 20_000, frame_samples(), frames),
        decoder("manifest as JSON", 20_000, texts(&MANIFESTS), |bytes| told(json::from_json(bytes))),
        decoder("ids", 20_000, texts(&IDS), ids),
    ];
    all.extend(values());
    all.extend(components());
    all
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn told<T>(result: Result<T, impl std::fmt::Display>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

/// One frame of each kind: the frozen bytes of the format's own test.
const FRAMES: [&str; 11] = [
    "1e0000001147524e5901010163000a000001d8360a036f6e65000a000001d9360c02",
    "070000001247524e590001",
    "0b0000001247524e59010201630164",
    "040000001303ac02",
    "1300000014040302010000000030750000030170027879",
    "0e00000015090000000000000003c801017a",
    "09000000160900000000000000",
    "0100000017",
    "0100000018",
    "050000001903627965",
    "0d0000001a090000000000000003776879",
];

fn frame_samples() -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let mut samples: Vec<Vec<u8>> =
        FRAMES.iter().map(|hex| hex.as_bytes().chunks(2).map(byte).collect()).collect();
    samples.push(samples.concat());
    samples
}

fn frames(bytes: &[u8]) -> Result<(), String> {
    let mut source = BytesMut::from(bytes);
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    while let Some(frame) = decoder.decode(&mut source).map_err(|error| error.to_string())? {
        frame.probe().map_err(|error| error.to_string())?;
    }
    if source.is_empty() { Ok(()) } else { Err("an unfinished frame".to_owned()) }
}

const MANIFESTS: [&str; 2] = [
    r#"{"grains": [["counter", {"grain-type": "counter", "x": null}], [{"hex": "8000"}, {}], [null, {}]], "interfaces": []}"#,
    r#"{"interfaces": [["a\ud800", {"\u0041": "\ud83d\ude00"}]], "grains": []}"#,
];

const IDS: [&str; 6] = [
    "counter/alice",
    "a-b.c/ü/x",
    "10.0.0.1:7000@5",
    "[::1]:7000@-5",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
];

fn ids(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let tries = [
        told(text.parse::<GrainId>()),
        told(GrainType::new(&text)),
        told(text.parse::<SiloAddress>()),
        told(text.parse::<Digest>()),
        told(text.parse::<ManifestHash>()),
    ];
    // The longest text is judged when all refuse.
    match tries.iter().find(|result| result.is_ok()) {
        Some(_) => Ok(()),
        None => tries.into_iter().max_by_key(|result| result.as_ref().err().map(String::len)).unwrap(),
    }
}

const WIT: &str = "package a:b; interface i {
    record point { x: s32, y: f64, tag: option<string> }
    variant shape { none, dot(point), many(list<shape-part>) }
    record shape-part { at: tuple<u8, u16, u32, u64>, kind: kind, marks: flagged }
    enum kind { small, large }
    flags flagged { a, b, c, d, e, f, g, h, i }
    everything: func(shape: shape, letters: list<char>, data: list<u8>, outcome: result<s8, f32>, yes: bool);
}";

const JSON_ARGS: [&str; 2] = [
    r#"[{"many": [{"at": [1, 2, 3, "4"], "kind": "small", "marks": ["a", "i"]}]}, ["x", "ü"], [1, 2], {"ok": -5}, true]"#,
    r#"{"shape": {"dot": {"x": 1, "y": 2.5e3, "tag": null}}, "letters": [], "data": [], "outcome": {"err": "NaN"}, "yes": false}"#,
];

const WAVE_ARGS: [&str; 2] = [
    "many([{at: (1, 2, 3, 4), kind: small, marks: {a, i}}]), ['x', 'ü'], [1, 2], ok(-5), true",
    "dot({x: 1, y: 2.5e3, tag: some(\"a\\u{1f600}\")}), [], [], err(nan), false",
];

fn signature() -> Signature {
    let mut resolve = wit_parser::Resolve::default();
    resolve.push_source("a.wit", WIT).unwrap();
    let (id, _) = resolve.interfaces.iter().next().unwrap();
    Interface::from_resolve(&resolve, id).unwrap().functions["everything"].clone()
}

fn values() -> [Decoder; 3] {
    let signature = signature();
    let encode = |text: &&str| granary_wit::args_from_json(&signature, text, VALUE_BYTES_MAX).unwrap();
    let encoded = JSON_ARGS.iter().map(encode).collect();
    let (of_bytes, of_json, of_wave) = (signature.clone(), signature.clone(), signature);
    [
        decoder("value encoding", 20_000, encoded, move |bytes| {
            granary_wit::validate_args(&of_bytes, bytes, VALUE_BYTES_MAX)
                .map_err(|error| error.to_string())?;
            // What is valid has both text forms, and they mean the same bytes.
            let json = granary_wit::args_to_json(&of_bytes, bytes).unwrap();
            assert_eq!(
                granary_wit::args_from_json(&of_bytes, &json, VALUE_BYTES_MAX).unwrap(),
                bytes,
                "{json}"
            );
            let wave = granary_wit::args_to_wave(&of_bytes, bytes).unwrap();
            assert_eq!(
                granary_wit::args_from_wave(&of_bytes, &wave, VALUE_BYTES_MAX).unwrap(),
                bytes,
                "{wave}"
            );
            Ok(())
        }),
        decoder("arguments as JSON", 20_000, texts(&JSON_ARGS), move |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let encoded = granary_wit::args_from_json(&of_json, &text, VALUE_BYTES_MAX);
            granary_wit::validate_args(
                &of_json,
                &encoded.map_err(|error| error.to_string())?,
                VALUE_BYTES_MAX,
            )
            .unwrap();
            Ok(())
        }),
        decoder("arguments as WAVE", 20_000, texts(&WAVE_ARGS), move |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let encoded = granary_wit::args_from_wave(&of_wave, &text, VALUE_BYTES_MAX);
            granary_wit::validate_args(
                &of_wave,
                &encoded.map_err(|error| error.to_string())?,
                VALUE_BYTES_MAX,
            )
            .unwrap();
            Ok(())
        }),
    ]
}

/// A small component with one grain interface.
fn component() -> Vec<u8> {
    let text = r#"(component
      (core module $code (memory (export "m") 1) (func (export "next") (param i64) (result i64) local.get 0))
      (core instance $code (instantiate $code))
      (func $next (param "by" u64) (result u64) (canon lift (core func $code "next")))
      (instance $counter (export "next" (func $next)))
      (export "granary-tests:fuzz/counter@1.0.0" (instance $counter)))"#;
    wat::parse_str(text).unwrap()
}

/// The component with a custom section.
fn with_section(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = component();
    CustomSection { name: name.into(), data: data.into() }.append_to_component(&mut bytes);
    bytes
}

const PROPERTIES: [&str; 2] = [
    r#"{"v": 1, "grain-type": "ledger", "granary.memory-max": "16MiB", "idle-duration": "90s", "immovable": "0"}"#,
    r#"{"v": 1, "granary.turn-cpu-max": "1s", "keep-alive": true, "placement-strategy": "random", "own": [1]}"#,
];

const OVERRIDES: [&str; 2] = [
    "grain-type=other\ngranary.value-max=1KiB\nidle-duration=indefinite",
    "granary.mailbox-max=5\ngranary.multi-cluster=one-instance-per-cluster\nfree=text",
];

fn components() -> [Decoder; 3] {
    let samples = vec![component(), with_section("granary-manifest", PROPERTIES[0].as_bytes())];
    let inspection: Inspection = inspect(&component()).unwrap();
    [
        decoder("components", 4_000, samples, |bytes| told(inspect(bytes))),
        decoder("properties of a component", 1_000, texts(&PROPERTIES), |bytes| {
            told(inspect(&with_section("granary-manifest", bytes)))
        }),
        decoder("properties of a deployment", 20_000, texts(&OVERRIDES), move |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let pairs = text.lines().filter_map(|line| line.split_once('='));
            let pairs: BTreeMap<String, String> =
                pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            told(inspection.class_info(&pairs))
        }),
    ]
}
