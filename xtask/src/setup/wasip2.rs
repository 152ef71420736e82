//! The `wasm32-wasip2` target: what guests are compiled for.
//!
//! A target that compiles a guest is left alone, wherever it came from. A missing one comes from rustup; where
//! rustup cannot download it, it is built from Debian's packages (see [`super::debian`]).

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::debian;
use crate::{process, report, workspace};

/// The target's name.
pub(super) const TARGET: &str = "wasm32-wasip2";
/// A question to the compiler.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// Compiling the trivial guest.
const CHECK_LIMIT: Duration = Duration::from_secs(120);
/// rustup's download, its own repeated attempts included.
const RUSTUP_LIMIT: Duration = Duration::from_secs(300);
/// What is compiled as a check: uses the standard library, so that all of it has to link.
const TRIVIAL_GUEST: &str = "fn main() { println!(\"built\"); }\n";
/// A component begins so; a core module has another fourth word.
const COMPONENT_PREAMBLE: [u8; 8] = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];

/// Where a missing target comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// rustup, else Debian.
    #[default]
    Auto,
    /// `rustup target add`.
    Rustup,
    /// Built from Debian's packages.
    Debian,
}

impl FromStr for Source {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "rustup" => Ok(Self::Rustup),
            "debian" => Ok(Self::Debian),
            other => bail!("--wasip2 {other}: expected auto, rustup or debian"),
        }
    }
}

/// The Rust toolchain that builds.
#[derive(Debug)]
pub(super) struct Toolchain {
    /// Its release, such as `1.95.0`.
    pub(super) release: String,
    sysroot: PathBuf,
}

impl Toolchain {
    /// Asks the compiler for its release and place.
    pub(super) fn find() -> Result<Self> {
        let version = process::output_of(workspace::rustc()?.arg("-vV"), ASK_LIMIT)?;
        let release = parse_release(&version).context("`rustc -vV` prints no release")?;
        let sysroot = process::output_of(workspace::rustc()?.args(["--print", "sysroot"]), ASK_LIMIT)?;
        Ok(Self { release, sysroot: PathBuf::from(sysroot.trim_end()) })
    }

    /// The folder that holds one folder for each target.
    pub(super) fn library(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib")
    }

    /// The target's folder.
    pub(super) fn target(&self) -> PathBuf {
        self.library().join(TARGET)
    }

    /// Whether the target's files are rustup's.
    fn belongs_to_rustup(&self) -> bool {
        self.library().join(format!("manifest-rust-std-{TARGET}")).exists()
    }

    /// Removes what an interrupted or foreign installation left; rustup's own files are left to rustup.
    pub(super) fn remove_remains(&self) -> Result<()> {
        let folder = self.target();
        if folder.exists() && !self.belongs_to_rustup() {
            report::line(format_args!("removing {}, which does not work", folder.display()));
            fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
        }
        Ok(())
    }
}

/// Brings the target unless it compiles a guest already.
pub(super) fn ensure(toolchain: &Toolchain, source: Source) -> Result<()> {
    let started = Instant::now();
    if check().is_ok() {
        report::line(format_args!(
            "{TARGET}: present, compiles a guest ({})",
            report::seconds(started.elapsed())
        ));
        return Ok(());
    }
    report::step(&format!("{TARGET}: missing, installing"), || match source {
        Source::Rustup => from_rustup(toolchain),
        Source::Debian => from_debian(toolchain),
        Source::Auto => from_rustup(toolchain).or_else(|rustup| {
            report::line(format_args!(
                "rustup could not bring it: {}",
                process::last_lines(&format!("{rustup:#}"), 3)
            ));
            from_debian(toolchain).with_context(|| format!("rustup failed before that: {rustup:#}"))
        }),
    })
    .with_context(|| advice(toolchain))
}

fn from_rustup(toolchain: &Toolchain) -> Result<()> {
    report::step("rustup target add", || {
        toolchain.remove_remains()?;
        let mut command = Command::new("rustup");
        // rustup's own backtrace says nothing to people who read why it failed.
        command.current_dir(workspace::root()?).args(["target", "add", TARGET]).env("RUST_BACKTRACE", "0");
        process::output_of(&mut command, RUSTUP_LIMIT)?;
        check().context("rustup installed the target, but it compiles no guest")
    })
}

fn from_debian(toolchain: &Toolchain) -> Result<()> {
    report::step("building the target's standard library from Debian's packages", || {
        toolchain.remove_remains()?;
        debian::install(toolchain)?;
        check().or_else(|error| {
            toolchain.remove_remains()?;
            Err(error.context("the target was built, but it compiles no guest; it was removed again"))
        })
    })
}

/// Compiles a trivial guest the way that guests are compiled (link-time optimisation, abort on panic).
fn check() -> Result<()> {
    let folder = workspace::scratch("wasip2-check")?;
    fs::create_dir_all(&folder)?;
    let source = folder.join("guest.rs");
    let component = folder.join("guest.wasm");
    fs::write(&source, TRIVIAL_GUEST)?;
    let mut command = workspace::rustc()?;
    command
        .args(["--edition", "2024", "--target", TARGET, "-Clto=fat", "-Cpanic=abort", "-Copt-level=s"])
        .arg(&source)
        .arg("-o")
        .arg(&component);
    let compiled = process::output_of(&mut command, CHECK_LIMIT).and_then(|_| Ok(fs::read(&component)?));
    fs::remove_dir_all(&folder)?;
    anyhow::ensure!(compiled?.starts_with(&COMPONENT_PREAMBLE), "the compiler's output is no component");
    Ok(())
}

fn advice(toolchain: &Toolchain) -> String {
    format!(
        "could not install the target {TARGET}. By hand: `rustup target add {TARGET}` where rustup can download (behind \
         a proxy set `https_proxy`); else, on a Debian system that reaches its mirror, `cargo xtask setup --wasip2 \
         debian`. If rustup says \"detected conflict\", remove {} first",
        toolchain.target().display()
    )
}

/// The line `release: 1.95.0` of `rustc -vV`.
fn parse_release(version: &str) -> Option<String> {
    version.lines().find_map(|line| Some(line.strip_prefix("release: ")?.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_the_verbose_version() {
        let version =
            "rustc 1.95.0 (0123 2026-04-14)\nbinary: rustc\nrelease: 1.95.0\nLLVM version: 22.1.2\n";
        assert_eq!(parse_release(version).as_deref(), Some("1.95.0"));
        assert_eq!(parse_release("rustc 1.95.0\n"), None);
    }

    #[test]
    fn sources_are_parsed_and_others_are_named() {
        assert_eq!("debian".parse::<Source>().unwrap(), Source::Debian);
        let error = "apt".parse::<Source>().unwrap_err().to_string();
        assert!(error.contains("apt") && error.contains("rustup"), "{error}");
    }
}
