//! The tools for building grains. A silo needs none of them, so that nothing here is a failure.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Finding, Verdict};

/// The target that grains are compiled for.
const TARGET: &str = "wasm32-wasip2";

/// All verdicts.
pub(super) fn all() -> Vec<Finding> {
    vec![rust(), target()]
}

fn rust() -> Finding {
    let advice = "only for building grains in Rust: install it from https://rustup.rs";
    let found: Vec<String> =
        ["cargo", "rustc"].iter().filter_map(|tool| answer(tool, &["--version"])).collect();
    match found.as_slice() {
        [_, _] => Finding::new("toolchain", Verdict::Ok, found.join(", "), advice),
        _ => Finding::new("toolchain", Verdict::Warning, "cargo or rustc is not there", advice),
    }
}

fn target() -> Finding {
    let advice = format!("only for building grains in Rust: rustup target add {TARGET}");
    let folder = answer("rustc", &["--print", "target-libdir", "--target", TARGET]);
    match folder.filter(|folder| Path::new(folder).is_dir()) {
        Some(_) => Finding::new("wasm target", Verdict::Ok, TARGET, advice),
        None => Finding::new("wasm target", Verdict::Warning, format!("{TARGET} is not there"), advice),
    }
}

/// The first line that a tool prints; `None` when it is not there or fails.
fn answer(tool: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(tool).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.chars().take(200).collect())
}
