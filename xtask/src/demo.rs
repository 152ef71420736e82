//! `cargo xtask demo`: brings what is missing, builds silo and grains, and hands over to `granary demo`.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{checks, guests, report, setup};

/// Does the set-up, builds, and becomes the demo. Returns only when that could not be started.
pub(crate) fn run() -> Result<()> {
    setup::run(setup::Options::default())?;
    let silo = report::step("building the silo", checks::build_silo)?;
    let components = report::step("building the grains", || guests::build(None))?;
    // In our place, so that every signal reaches the process that has silos to stop.
    let failure = Command::new(&silo).args(["demo", "--components"]).arg(components).exec();
    Err(failure).with_context(|| format!("could not start {}", silo.display()))
}
