//! The `wasm32-wasip2` target built from Debian's packages, for machines where rustup cannot download.
//!
//! The toolchain ships linker and component linker for every target; only the standard library and the C start files
//! are missing. Debian has the library's source (of exactly the compiler's release) and the C library, both
//! independent of the machine's architecture, so they are unpacked without being installed. What is built replaces
//! the target's folder in one step: two copies of `core` side by side would break every later build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::apt::{self, Suite};
use super::wasip2::{TARGET, Toolchain};
use crate::{process, report, workspace};

/// Suites that may hold the compiler's release, small ones first.
const SUITES: [&str; 3] = ["trixie-backports", "testing", "unstable"];
/// The library's source.
const SOURCE_PACKAGE: &str = "rust-src";
/// The C library for WASI.
const C_PACKAGE: &str = "wasi-libc";
/// Where the C library's files lie in its package.
const C_FOLDER: &str = "usr/lib/wasm32-wasip2";
/// The files of the C library that the compiler links with.
const C_FILES: [&str; 3] = ["crt1-command.o", "crt1-reactor.o", "libc.a"];
/// Where Debian keeps the sources of a release, one folder each.
const SOURCES_FOLDER: &str = "usr/src";
/// Building the standard library on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Builds the target and puts it into the toolchain.
pub(super) fn install(toolchain: &Toolchain) -> Result<()> {
    let work = workspace::scratch("wasip2")?;
    remove(&work)?;
    let unpacked = work.join("unpacked");
    report::step("fetching the sources", || fetch(&work, &unpacked, &toolchain.release))?;
    let built = report::step("compiling the standard library", || {
        compile(&find_library(&unpacked)?, &unpacked.join(C_FOLDER), &work.join("build"))
    })?;
    put(&built, &unpacked.join(C_FOLDER), toolchain)?;
    remove(&work)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    Ok(())
}

/// Unpacks both packages from the first suite and mirror that have them.
fn fetch(work: &Path, unpacked: &Path, release: &str) -> Result<()> {
    let mut tried = Vec::new();
    for mirror in apt::mirrors()? {
        for suite in SUITES {
            let folder = work.join(format!("apt-{}", tried.len()));
            match fetch_from(&folder, unpacked, suite, &mirror, release) {
                Ok(()) => return Ok(()),
                Err(error) => tried.push(format!("{suite}: {error:#}")),
            }
        }
    }
    bail!("no suite of Debian's brought {SOURCE_PACKAGE} {release} and {C_PACKAGE}:\n{}", tried.join("\n"))
}

fn fetch_from(folder: &Path, unpacked: &Path, suite: &str, mirror: &str, release: &str) -> Result<()> {
    let suite = Suite::open(folder, suite, mirror)?;
    let sources = suite.versions(SOURCE_PACKAGE)?;
    let source = sources
        .iter()
        .find(|version| is_release(version, release))
        .with_context(|| format!("{SOURCE_PACKAGE} {release} is not there, only {sources:?}"))?;
    let libraries = suite.versions(C_PACKAGE)?;
    let library = libraries.first().with_context(|| format!("{C_PACKAGE} is not there"))?;
    suite.unpack(SOURCE_PACKAGE, source, unpacked)?;
    suite.unpack(C_PACKAGE, library, unpacked)?;
    for file in C_FILES {
        let path = unpacked.join(C_FOLDER).join(file);
        anyhow::ensure!(path.exists(), "{C_PACKAGE} {library} has no {C_FOLDER}/{file}");
    }
    Ok(())
}

/// Whether a Debian version is one of a release: `1.95.0+dfsg1-1~bpo13+1` is one of `1.95.0`, `1.95.01-1` is not.
fn is_release(version: &str, release: &str) -> bool {
    version
        .strip_prefix(release)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit() || next == '.'))
}

/// The folder with the standard library's workspace.
fn find_library(unpacked: &Path) -> Result<PathBuf> {
    let sources = unpacked.join(SOURCES_FOLDER);
    fs::read_dir(&sources)
        .with_context(|| format!("could not read {}", sources.display()))?
        .filter_map(|entry| Some(entry.ok()?.path().join("library")))
        .find(|library| library.join("sysroot/Cargo.toml").exists())
        .with_context(|| format!("{SOURCE_PACKAGE} has no library/sysroot below {SOURCES_FOLDER}"))
}

/// Compiles the library, and returns the folder with the results.
fn compile(library: &Path, c_folder: &Path, build: &Path) -> Result<PathBuf> {
    // Without embedded bitcode a guest with link-time optimisation would not link.
    let flags =
        ["-Zforce-unstable-if-unmarked", "-Cembed-bitcode=yes", &format!("-Lnative={}", c_folder.display())]
            .join("\u{1f}");
    let mut command: Command = workspace::cargo()?;
    command
        .current_dir(library)
        .args(["build", "--release", "--locked", "--package", "sysroot", "--target", TARGET])
        .args(["--features", "panic-unwind,backtrace,compiler-builtins-mem"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env("CARGO_TARGET_DIR", build)
        .env_remove("RUSTFLAGS");
    process::show(&mut command, BUILD_LIMIT)?;
    Ok(build.join(TARGET).join("release/deps"))
}

/// Puts the results where the compiler looks for them; nothing is left half done.
fn put(built: &Path, c_folder: &Path, toolchain: &Toolchain) -> Result<()> {
    let staged = toolchain.library().join(format!(".{TARGET}.new"));
    remove(&staged)?;
    let stage = || -> Result<()> {
        let library = staged.join("lib");
        let own = library.join("self-contained");
        fs::create_dir_all(&own)?;
        for entry in fs::read_dir(built)? {
            let path = entry?.path();
            let wanted =
                path.extension().is_some_and(|extension| extension == "rlib" || extension == "rmeta");
            if let (true, Some(name)) = (wanted, path.file_name()) {
                fs::copy(&path, library.join(name))?;
            }
        }
        for file in C_FILES {
            fs::copy(c_folder.join(file), own.join(file))?;
        }
        remove(&toolchain.target())?;
        Ok(fs::rename(&staged, toolchain.target())?)
    };
    stage()
        .or_else(|error| {
            remove(&staged)?;
            Err(error)
        })
        .with_context(|| format!("could not write to {}", toolchain.library().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_release_counts() {
        assert!(is_release("1.95.0+dfsg1-1~bpo13+1", "1.95.0"));
        assert!(is_release("1.95.0", "1.95.0"));
        assert!(!is_release("1.95.01-1", "1.95.0"));
        assert!(!is_release("1.95.0.1-1", "1.95.0"));
        assert!(!is_release("1.94.1+dfsg1-1", "1.95.0"));
    }
}
