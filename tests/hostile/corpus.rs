//! The corpus of bad components: public must-fail cases, our own mutations and generated components, all through
//! inspection, and a sample of what is accepted through the compiling child and the linker.
//!
//! Each case ends in time, with a description or with a typed error whose text is bounded and safe to print.
//! `GRANARY_CORPUS_LONG=1` makes the cuts, flips and seeds complete; the normal run takes a sample of them.

mod bytes;
mod mutations;
mod public;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use granary_tests::fixture;
use granary_wasm::inspect::{InspectError, inspect};
use granary_wit::push_grain_package;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{ManglingAndAbi, Resolve};

use crate::{CASE_TIME_MAX, ERROR_BYTES_MAX};

/// Whether the long form was asked for.
fn long() -> bool {
    std::env::var_os("GRANARY_CORPUS_LONG").is_some()
}

/// What happened to the cases of one source.
#[derive(Debug, Default)]
struct Tally {
    refused: usize,
    accepted: Vec<Vec<u8>>,
    accepted_names: Vec<String>,
    /// Refused by catching a panic of the decoding library.
    decoder_panics: usize,
    slowest: Duration,
    faults: Vec<String>,
}

impl Tally {
    /// Inspects one case and keeps what is wrong with the way it ended.
    fn case(&mut self, name: &str, bytes: &[u8]) {
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| inspect(bytes)));
        let took = started.elapsed();
        self.slowest = self.slowest.max(took);
        if took > CASE_TIME_MAX {
            self.faults.push(format!("{name}: took {took:?}"));
        }
        match outcome {
            Err(_) => self.faults.push(format!("{name}: inspection panicked")),
            Ok(Ok(_)) => {
                self.accepted.push(bytes.to_vec());
                self.accepted_names.push(name.to_owned());
            }
            Ok(Err(error)) => {
                self.refused += 1;
                let panicked =
                    matches!(&error, InspectError::Undecodable(text) if text.contains("decoder failed"));
                self.decoder_panics += usize::from(panicked);
                let text = error.to_string();
                if text.is_empty() || text.len() > ERROR_BYTES_MAX || text.chars().any(char::is_control) {
                    let head: String = text.chars().take(200).collect();
                    self.faults.push(format!("{name}: an error of {} bytes: {head:?}", text.len()));
                }
            }
        }
    }

    /// Prints the counts and fails on any fault.
    fn finish(&self, source: &str) {
        println!(
            "{source}: {} cases, {} refused, {} accepted, {} panics of the decoder caught, slowest {:?}",
            self.refused + self.accepted.len(),
            self.refused,
            self.accepted.len(),
            self.decoder_panics,
            self.slowest
        );
        let shown: Vec<&String> = self.faults.iter().take(20).collect();
        assert!(self.faults.is_empty(), "{source}: {} faults: {shown:#?}", self.faults.len());
    }
}

/// A component from WIT text whose world is called `w`; its functions trap, and `granary:grain` is there already.
fn dummy(wit: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    push_grain_package(&mut resolve).unwrap();
    let package = resolve.push_source("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let mut core = wit_component::dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&core).unwrap().validate(true).encode().unwrap()
}

/// Five components of different make: an accepted grain, one with references and state, one with every kind of
/// type, and two fixtures of the end-to-end tests.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        (
            "plain",
            dummy("package acme:x@1.0.0; interface a { f: func(n: u64) -> u64; } world w { export a; }"),
        ),
        (
            "references",
            dummy(
                "package acme:x;
                 package acme:bank-refs@1.2.0 { interface account {
                    use granary:grain/types@0.1.0.{grain-ref, call-error};
                    deposit: func(to: grain-ref, amount: u64) -> result<u64, call-error>;
                 } }
                 interface a { f: func(); }
                 world w { import acme:bank-refs/account@1.2.0; import granary:grain/state@0.1.0;
                    export a; export granary:grain/lifecycle@0.1.0; }",
            ),
        ),
        (
            "types",
            dummy(
                "package acme:x@1.0.0; interface a {
                    record r { a: list<string>, b: option<tuple<u8, s64, f32, f64, char, bool>> }
                    variant v { none, some(r) } enum e { x, y } flags fl { p, q }
                    f: func(r: r, v: v, e: e, fl: fl) -> result<list<r>, v>;
                 } world w { export a; }",
            ),
        ),
        ("two interfaces", fixture("two-interfaces")),
        ("resources", fixture("resources")),
    ]
}
