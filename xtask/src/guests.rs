//! `cargo xtask guests`: builds the grains of the examples and of the tests, as components.
//!
//! They are built here and never by a build script, so that no cargo runs inside another. Cargo decides what is out
//! of date; a component is copied to `target/guests/` only when its bytes changed, and in one step, so that a test
//! or a silo that reads it meanwhile sees the old or the new one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::workspace::{self, Package};
use crate::{process, report};

/// Every guest package. Its component is named after it.
const GUESTS: [&str; 13] = [
    "account",
    "counter",
    "denied",
    "evil",
    "evil-life",
    "fetcher",
    "mismatch",
    "pinger",
    "presence-game",
    "presence-player",
    "transfer",
    "values",
    "walker",
];
/// The folders whose packages are guests.
const GUEST_FOLDERS: [&str; 2] = ["examples", "tests/guests"];
/// Packages that lie there and are no guests: programs of the examples.
const PROGRAMS: [&str; 1] = ["presence-client"];
/// The target that guests are compiled for.
const TARGET: &str = "wasm32-wasip2";
/// The profile that guests are compiled with.
const PROFILE: &str = "guest";
/// Building all guests from nothing on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Builds all guests, or one, and returns the folder that holds the components.
pub(crate) fn build(only: Option<&str>) -> Result<PathBuf> {
    let root = workspace::root()?;
    let packages = workspace::packages()?;
    check_complete(&GUESTS, &found(&root, &packages))?;
    let chosen: Vec<&str> = match only {
        Some(name) if GUESTS.contains(&name) => vec![name],
        Some(name) => bail!("no guest is called {name}; there are: {}", GUESTS.join(", ")),
        None => GUESTS.to_vec(),
    };

    let mut command = workspace::cargo()?;
    command.args(["build", "--locked", "--lib", "--profile", PROFILE, "--target", TARGET]);
    for name in &chosen {
        command.args(["--package", name]);
    }
    process::show(&mut command, BUILD_LIMIT)?;

    let built = workspace::target_dir()?.join(TARGET).join(PROFILE);
    // There, wherever cargo's own target folder is.
    let folder = root.join("target/guests");
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    for name in chosen {
        let from = built.join(format!("{}.wasm", name.replace('-', "_")));
        let to = folder.join(format!("{name}.wasm"));
        let changed = copy_if_changed(&from, &to)?;
        let bytes = fs::metadata(&to)?.len();
        let news = if changed { "new" } else { "unchanged" };
        report::line(format_args!("  {name}.wasm: {} KiB, {news}", bytes.div_ceil(1024)));
    }
    Ok(folder)
}

/// The packages that lie where guests lie.
fn found<'a>(root: &Path, packages: &'a [Package]) -> BTreeSet<&'a str> {
    packages
        .iter()
        .filter(|package| !PROGRAMS.contains(&package.name.as_str()))
        .filter(|package| GUEST_FOLDERS.iter().any(|folder| package.folder.starts_with(root.join(folder))))
        .map(|package| package.name.as_str())
        .collect()
}

/// A guest that is not listed would never be built, and a listed one that is not there cannot be.
fn check_complete(listed: &[&str], found: &BTreeSet<&str>) -> Result<()> {
    let listed: BTreeSet<&str> = listed.iter().copied().collect();
    let unlisted: Vec<&&str> = found.difference(&listed).collect();
    let missing: Vec<&&str> = listed.difference(found).collect();
    if !unlisted.is_empty() {
        bail!("guest packages that are not listed in xtask/src/guests.rs: {unlisted:?}");
    }
    if !missing.is_empty() {
        bail!(
            "guest packages that are listed in xtask/src/guests.rs but are no workspace members: {missing:?}"
        );
    }
    Ok(())
}

/// Copies a file in one step unless the copy has the same bytes; returns whether it copied.
fn copy_if_changed(from: &Path, to: &Path) -> Result<bool> {
    let bytes = fs::read(from).with_context(|| format!("cargo left no component at {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    let staged = to.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&staged, bytes).with_context(|| format!("could not write {}", staged.display()))?;
    fs::rename(&staged, to).with_context(|| format!("could not write {}", to.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlisted_guest_and_a_missing_one_are_named() {
        let found = BTreeSet::from(["counter", "stray"]);
        let error = check_complete(&["counter"], &found).unwrap_err().to_string();
        assert!(error.contains("stray") && error.contains("not listed"), "{error}");
        let error = check_complete(&["counter", "gone", "stray"], &found).unwrap_err().to_string();
        assert!(error.contains("gone"), "{error}");
        check_complete(&["stray", "counter"], &found).unwrap();
    }

    #[test]
    fn only_packages_in_guest_folders_count() {
        let package = |name: &str, folder: &str| Package { name: name.to_owned(), folder: folder.into() };
        let packages = [
            package("counter", "/r/examples/counter"),
            package("granary-core", "/r/host/crates/granary-core"),
            package("presence-client", "/r/examples/presence/client"),
        ];
        assert_eq!(found(Path::new("/r"), &packages), BTreeSet::from(["counter"]));
    }

    #[test]
    fn the_same_bytes_are_not_copied_again() {
        let folder = std::env::temp_dir().join(format!("granary-xtask-copy-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (from, to) = (folder.join("from"), folder.join("to.wasm"));
        fs::write(&from, b"one").unwrap();
        assert!(copy_if_changed(&from, &to).unwrap());
        assert!(!copy_if_changed(&from, &to).unwrap());
        fs::write(&from, b"two").unwrap();
        assert!(copy_if_changed(&from, &to).unwrap());
        assert_eq!(fs::read(&to).unwrap(), b"two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
