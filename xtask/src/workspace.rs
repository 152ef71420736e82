//! Where things are: the workspace's root, cargo's target folder, and the tools that cargo runs with.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process;

/// Asking cargo about the workspace.
const ASK_LIMIT: Duration = Duration::from_secs(60);

/// A member of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
}

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

/// The members of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let mut command = cargo()?;
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    parse_packages(&process::output_of(&mut command, ASK_LIMIT)?)
}

fn parse_packages(metadata: &str) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo metadata is no JSON")?;
    let packages =
        metadata.get("packages").and_then(Value::as_array).context("cargo metadata has no packages")?;
    packages
        .iter()
        .map(|package| {
            let text = |key| package.get(key).and_then(Value::as_str);
            let manifest = Path::new(text("manifest_path").context("a package without manifest_path")?);
            Ok(Package {
                name: text("name").context("a package without name")?.to_owned(),
                folder: manifest.parent().context("a manifest without a folder")?.to_path_buf(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_cargos_metadata() {
        let metadata = r#"{"packages": [{"name": "a", "manifest_path": "/r/a/Cargo.toml"}], "version": 1}"#;
        assert_eq!(
            parse_packages(metadata).unwrap(),
            [Package { name: "a".to_owned(), folder: "/r/a".into() }]
        );
        assert!(parse_packages("{}").unwrap_err().to_string().contains("no packages"));
    }
}
