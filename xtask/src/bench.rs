//! `cargo xtask bench`: builds an optimised silo and the benchmark program, and hands over to it.
//!
//! The optimised build is one of its own: what tests and demo use is compiled for speed of compiling.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::{guests, process, report, setup, workspace};

/// Compiling everything with optimisation on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Does the set-up, builds, and becomes the benchmark program, which gets the options. Returns only when that could not
/// be started.
pub(crate) fn run(options: &[String]) -> Result<()> {
    setup::run(setup::Options::default())?;
    let guests = report::step("building the grain", || guests::build(Some("pinger")))?;
    report::step("building the optimised silo", || {
        let mut command = workspace::cargo()?;
        command.args(["build", "--locked", "--release", "--workspace"]);
        command.args(["--bin", "granary", "--bin", "granary-bench"]);
        process::show(&mut command, BUILD_LIMIT)
    })?;
    let built = workspace::target_dir()?.join("release");
    let program = built.join("granary-bench");
    let failure = Command::new(&program)
        .arg("--granary")
        .arg(built.join("granary"))
        .arg("--pinger")
        .arg(guests.join("pinger.wasm"))
        .args(options)
        .exec();
    Err(failure).with_context(|| format!("could not start {}", program.display()))
}
