//! Tools beside the compiler: a C compiler, rustfmt and clippy, and the test runner.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{Need, apt};
use crate::{process, workspace};

/// A look at whether a tool is there.
const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// A download of rustup's.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(600);
/// A build of the test runner on a slow machine.
const RUNNER_BUILD_LIMIT: Duration = Duration::from_secs(45 * 60);
/// The version of the test runner that is installed when there is none.
const RUNNER_VERSION: &str = "0.9.143";

/// The embedded store is SQLite, whose C code is compiled with the rest.
pub(super) const C_COMPILER: Need = Need {
    name: "C compiler",
    present: compiles_c,
    install: || apt::install(&["gcc", "libc6-dev"]),
    by_hand: "install a C compiler and the C library's headers (on Debian: `apt-get install gcc libc6-dev`)",
};

/// The checks need both.
pub(super) const RUST_COMPONENTS: Need = Need {
    name: "rustfmt and clippy",
    present: || {
        Ok(process::succeeds(workspace::cargo()?.args(["fmt", "--version"]), LOOK_LIMIT)
            && process::succeeds(workspace::cargo()?.args(["clippy", "--version"]), LOOK_LIMIT))
    },
    install: || {
        let mut command = Command::new("rustup");
        command.current_dir(workspace::root()?).args(["component", "add", "rustfmt", "clippy"]);
        process::output_of(&mut command, DOWNLOAD_LIMIT).map(drop)
    },
    by_hand: "`rustup component add rustfmt clippy`",
};

/// The test runner: one process for each test, time limits, and groups that run one at a time.
pub(super) const TEST_RUNNER: Need = Need {
    name: "cargo-nextest",
    present: || Ok(process::succeeds(workspace::cargo()?.args(["nextest", "--version"]), LOOK_LIMIT)),
    install: install_runner,
    by_hand: "`cargo install cargo-nextest --locked --version 0.9.143`",
};

/// The example and test grains in JavaScript are built with it.
pub(super) const NODE: Need = Need {
    name: "Node.js 20 with npm",
    present: || {
        let major =
            process::output_of(Command::new("node").arg("--version"), LOOK_LIMIT).ok().and_then(|version| {
                version.trim().trim_start_matches('v').split('.').next()?.parse::<u32>().ok()
            });
        Ok(major.is_some_and(|major| major >= 20)
            && process::succeeds(Command::new("npm").arg("--version"), LOOK_LIMIT))
    },
    install: || apt::install(&["nodejs", "npm"]),
    by_hand: "install Node.js 20 or newer with npm (Debian 12 has 18, which is too old)",
};

/// The example and test grains in Python are built in virtual environments.
pub(super) const PYTHON: Need = Need {
    name: "Python with venv",
    present: || {
        let modules = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
        Ok(process::succeeds(Command::new("python3").args(["-c", modules]), LOOK_LIMIT))
    },
    install: || apt::install(&["python3", "python3-venv"]),
    by_hand: "install Python 3.10 or newer with venv (on Debian: `apt-get install python3-venv`)",
};

fn compiles_c() -> Result<bool> {
    let folder = workspace::scratch("c-check")?;
    fs::create_dir_all(&folder)?;
    let source = folder.join("check.c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n")?;
    let mut command = Command::new("cc");
    command.arg(&source).arg("-o").arg(folder.join("check"));
    let works = process::succeeds(&mut command, LOOK_LIMIT);
    fs::remove_dir_all(&folder)?;
    Ok(works)
}

fn install_runner() -> Result<()> {
    let mut command = workspace::cargo()?;
    // The runner waits for tests most of the time: a lightly optimised build serves as well and is there in half
    // the time. It never updates itself, so that part is left out.
    command
        .args(["install", "cargo-nextest", "--locked", "--version", RUNNER_VERSION])
        .args(["--no-default-features", "--features", "default-no-update"])
        .args(["--config", "profile.release.opt-level=1"])
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS");
    process::show(&mut command, RUNNER_BUILD_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_version_that_is_installed() {
        assert!(TEST_RUNNER.by_hand.contains(RUNNER_VERSION));
    }
}
