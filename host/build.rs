//! Embeds what a project made by `granary new` needs of this repository: the guest SDK, the contract package and
//! the crate that derives reference packages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Folders and files below the repository's root, embedded with their paths.
const VENDORED: [&str; 9] = [
    "wit",
    "guest-sdk/Cargo.toml",
    "guest-sdk/README.md",
    "guest-sdk/src",
    "guest-sdk/macros/Cargo.toml",
    "guest-sdk/macros/src",
    "host/crates/granary-wit/Cargo.toml",
    "host/crates/granary-wit/src",
    "Cargo.toml",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let root = host.parent().ok_or("the host crate has no parent folder")?.to_path_buf();
    let mut files = Vec::new();
    for entry in VENDORED {
        println!("cargo::rerun-if-changed={}", root.join(entry).display());
        collect(&root.join(entry), &mut files)?;
    }
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root)?.to_str().ok_or("a file name is not UTF-8")?;
        writeln!(code, "    ({name:?}, include_str!({:?})),", file.to_str().ok_or("a path is not UTF-8")?)?;
    }
    code.push_str("]\n");
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("vendored.rs");
    std::fs::write(out, code)?;
    Ok(())
}

/// All text files at or below a path, but for tests, which a user's project has no use for.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let path = entry?.path();
            let is_test = path.file_stem().is_some_and(|name| name == "tests");
            if !is_test && path.file_name().is_none_or(|name| name != "vectors") {
                collect(&path, files)?;
            }
        }
    } else if path.exists() {
        files.push(path.to_path_buf());
    }
    Ok(())
}
