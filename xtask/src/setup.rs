//! `cargo xtask setup`: everything that building and testing needs and that cargo does not bring.
//!
//! Each step looks before it acts, so a second run changes nothing. A step that fails says what to do by hand.
//! One run at a time changes a toolchain: the toolchain's library folder is locked meanwhile.

mod apt;
mod debian;
mod engines;
mod tools;
mod wasip2;

use std::fs::File;
use std::time::Instant;

use anyhow::{Context as _, Result};

pub(crate) use self::wasip2::Source;
use crate::report;

/// What a run of the set-up should do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Where the `wasm32-wasip2` target comes from when it is missing.
    pub(crate) wasip2: Source,
    /// Whether the test runner is needed, the languages that tests build grains in, and the servers that they store in.
    pub(crate) test_runner: bool,
}

/// Brings everything that is missing.
pub(crate) fn run(options: Options) -> Result<()> {
    let started = Instant::now();
    let toolchain = wasip2::Toolchain::find()?;
    let library = toolchain.library();
    let lock = File::open(&library).with_context(|| format!("could not open {}", library.display()))?;
    lock.lock().with_context(|| format!("could not lock {}", library.display()))?;

    ensure(&tools::C_COMPILER)?;
    ensure(&tools::RUST_COMPONENTS)?;
    wasip2::ensure(&toolchain, options.wasip2)?;
    if options.test_runner {
        ensure(&tools::TEST_RUNNER)?;
        ensure(&tools::NODE)?;
        ensure(&tools::PYTHON)?;
        ensure(&engines::POSTGRES)?;
        ensure(&engines::NATS_SYSTEM)?;
        ensure(&engines::NATS_NEW)?;
    }
    report::line(format_args!("set-up: complete after {}", report::seconds(started.elapsed())));
    Ok(())
}

/// One thing that must be there.
#[derive(Debug)]
struct Need {
    /// Its name for people.
    name: &'static str,
    /// Whether it is there and works.
    present: fn() -> Result<bool>,
    /// Brings it.
    install: fn() -> Result<()>,
    /// What a person does when bringing it fails.
    by_hand: &'static str,
}

/// Brings a thing unless it is there, and makes sure that it is there afterwards.
fn ensure(need: &Need) -> Result<()> {
    let name = need.name;
    let started = Instant::now();
    if (need.present)()? {
        report::line(format_args!("{name}: present ({})", report::seconds(started.elapsed())));
        return Ok(());
    }
    report::step(&format!("{name}: missing, installing"), || {
        (need.install)()?;
        anyhow::ensure!(
            (need.present)()?,
            "the installation reported success, but {name} still does not work"
        );
        Ok(())
    })
    .with_context(|| format!("could not install {name}; by hand: {}", need.by_hand))
}
