//! `cargo xtask test`: all checks in order, from the cheap to the dear, stopping at the first that fails.
//!
//! The test runner comes last, so that its summary is the last thing printed.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::{guests, process, report, setup, tidy, workspace};

/// A check that compiles nothing.
const QUICK_LIMIT: Duration = Duration::from_secs(5 * 60);
/// A check that may compile everything on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// The whole of the tests; the runner limits each test by itself.
const TESTS_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);
/// The same with the long ones.
const LONG_TESTS_LIMIT: Duration = Duration::from_secs(12 * 60 * 60);

/// Which tests run.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Also the tests that are marked as ignored because they take long.
    pub(crate) long: bool,
    /// Only tests whose name contains one of these; all when empty.
    pub(crate) filters: Vec<String>,
}

/// Runs set-up and all checks.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::run(setup::Options { test_runner: true, ..Default::default() })?;
    step("format", format)?;
    step("tidy", tidy::run)?;
    step("clippy", clippy)?;
    step("docs", docs)?;
    step("guests", || guests::build(None).map(drop))?;
    step("silo", build_silo)?;
    step("doc tests", doc_tests)?;
    report::line("tests ...");
    tests(options).context("tests failed")
}

/// Builds the silo with the features that the tests build it with, and returns the binary's path.
pub(crate) fn build_silo() -> Result<PathBuf> {
    // With the whole workspace selected, and a test among the targets, cargo unites the same features as for the tests,
    // and compiles nothing twice.
    cargo(
        &["build", "--locked", "--workspace", "--bin", "granary", "--test", "command_line"],
        &[],
        BUILD_LIMIT,
    )?;
    Ok(workspace::target_dir()?.join("debug/granary"))
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    report::step(name, work).with_context(|| format!("the check \"{name}\" failed"))
}

fn format() -> Result<()> {
    process::output_of(workspace::cargo()?.args(["fmt", "--all", "--check"]), QUICK_LIMIT)
        .map(drop)
        .context("`cargo fmt --all` puts this right")
}

fn clippy() -> Result<()> {
    cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"], &[], BUILD_LIMIT)
}

fn docs() -> Result<()> {
    cargo(
        &["doc", "--locked", "--workspace", "--exclude", "xtask", "--no-deps", "--lib"],
        &[("RUSTDOCFLAGS", "-D warnings")],
        BUILD_LIMIT,
    )
}

fn doc_tests() -> Result<()> {
    // The host's comments are the help texts of its command line, whose examples are no Rust.
    let arguments = ["test", "--locked", "--workspace", "--exclude", "granary", "--doc", "--quiet"];
    process::output_of(workspace::cargo()?.args(arguments), BUILD_LIMIT).map(drop)
}

fn tests(options: &Options) -> Result<()> {
    let mut command = workspace::cargo()?;
    command.args(["nextest", "run", "--locked", "--workspace", "--profile", "ci"]);
    if options.long {
        command.args(["--run-ignored", "all"]);
    }
    command.args(&options.filters);
    process::show(&mut command, if options.long { LONG_TESTS_LIMIT } else { TESTS_LIMIT })
}

/// Runs the registry of decoders (`tests/hostile/registry.rs`) with fresh seeds.
pub(crate) fn fuzz(seconds: u64) -> Result<()> {
    let arguments = ["test", "--locked", "--workspace", "--test", "hostile", "decoders", "--", "--nocapture"];
    let limit = BUILD_LIMIT.saturating_add(Duration::from_secs(seconds));
    cargo(&arguments, &[("GRANARY_FUZZ_SECONDS", &seconds.to_string())], limit)
}

/// Runs cargo with its progress shown.
fn cargo(arguments: &[&str], environment: &[(&str, &str)], limit: Duration) -> Result<()> {
    let mut command = workspace::cargo()?;
    command.args(arguments).envs(environment.iter().copied());
    process::show(&mut command, limit)
}
