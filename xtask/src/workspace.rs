//! Where things are: the workspace's root, cargo's target folder, and the tools that cargo runs with.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result};

/// The root of the workspace.
pub(crate) fn root() -> Result<PathBuf> {
    // Cargo sets this for `cargo run`; the compiled-in value serves a binary that is started by hand.
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let root = Path::new(&manifest).parent().context("the folder of xtask has no parent")?;
    Ok(root.to_path_buf())
}

/// Cargo's target folder: `CARGO_TARGET_DIR`, else `target/` in the root.
pub(crate) fn target_dir() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let root = root()?;
    let chosen = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    Ok(FOUND.get_or_init(|| chosen).clone())
}

/// A folder for xtask's own working files, inside the target folder. It may not exist yet.
pub(crate) fn scratch(name: &str) -> Result<PathBuf> {
    Ok(target_dir()?.join("xtask").join(name))
}

/// Cargo of the toolchain that runs us, started in the root.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root()?);
    Ok(command)
}

/// The compiler of the toolchain that runs us, started in the root.
pub(crate) fn rustc() -> Result<Command> {
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc")));
    command.current_dir(root()?);
    Ok(command)
}
