//! `cargo xtask tidy`: the repository's own rules, which no compiler checks.
//!
//! All violations are found before it fails, each as `path:line: what is wrong`.

mod manifests;
mod markdown;
mod rules;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::{process, report, workspace};

/// Asking git which files there are.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// Files above this size hold no text that people wrote.
const TEXT_BYTES_MAX: u64 = 4 << 20;
/// The licence texts that must be there.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// A file of the repository with its text.
#[derive(Debug)]
struct Source {
    /// Its path, relative to the root, with `/` between folders.
    path: String,
    /// Its text.
    text: String,
}

/// Checks all rules.
pub(crate) fn run() -> Result<()> {
    let root = workspace::root()?;
    let sources = read(&root)?;
    let mut violations = Vec::new();
    for source in &sources {
        rules::check(source, &mut violations);
        if source.path.ends_with(".md") {
            markdown::check(source, &|path| root.join(path).exists(), &mut violations);
        }
    }
    for package in workspace::packages()? {
        let path = package.folder.join("Cargo.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        let path = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        manifests::check(&Source { path, text }, &mut violations);
    }
    for licence in LICENCES {
        if !root.join(licence).is_file() {
            violations.push(format!("{licence}: the licence text is missing"));
        }
    }
    if !violations.is_empty() {
        bail!("{} violations of the repository's rules:\n{}", violations.len(), violations.join("\n"));
    }
    report::line(format_args!("  {} files follow the rules", sources.len()));
    Ok(())
}

/// All text files of the repository: those that git knows, or would take.
fn read(root: &Path) -> Result<Vec<Source>> {
    let mut command = Command::new("git");
    command.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed =
        process::output_of(&mut command, ASK_LIMIT).context("the rules are checked in a git checkout")?;
    let mut sources = Vec::new();
    for path in listed.split_terminator('\0') {
        let full: PathBuf = root.join(path);
        // A file that is deleted but not yet committed is still listed.
        let Ok(meta) = fs::symlink_metadata(&full) else { continue };
        if !meta.is_file() || meta.len() > TEXT_BYTES_MAX {
            continue;
        }
        let bytes = fs::read(&full).with_context(|| format!("could not read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path: path.to_owned(), text });
        }
    }
    Ok(sources)
}
