//! The store servers that tests run: PostgreSQL, and NATS twice.
//!
//! Debian's stable suites have a NATS server that is too old for promises about acknowledged writes, but that people
//! run all the same; tests run both it and a newer one, which is unpacked from a newer suite and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Need;
use super::apt::{self, Suite};
use crate::{process, workspace};

/// A look at whether a server is there.
const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// Where Debian keeps PostgreSQL's programs, one folder for each version.
const POSTGRES_FOLDER: &str = "/usr/lib/postgresql";
/// Where programs for administrators lie; not everybody searches there.
const ADMIN_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// The package and the program of NATS.
const NATS: &str = "nats-server";
/// Suites that may hold a newer NATS server.
const SUITES: [&str; 3] = ["trixie-backports", "testing", "unstable"];
/// The oldest release that counts as newer (decision C11).
const NATS_NEWER: (u32, u32) = (2, 12);

/// PostgreSQL: the server's programs, and `psql`.
pub(super) const POSTGRES: Need = Need {
    name: "PostgreSQL server",
    present: || Ok(has_postgres() && process::succeeds(Command::new("psql").arg("--version"), LOOK_LIMIT)),
    install: || apt::install(&["postgresql", "postgresql-client"]),
    by_hand: "install PostgreSQL 13 or newer with psql (on Debian: `apt-get install postgresql`)",
};

/// The NATS server of the system.
pub(super) const NATS_SYSTEM: Need = Need {
    name: "NATS server",
    present: || Ok(system_nats().is_some_and(|program| nats_version(&program).is_some())),
    install: || apt::install(&[NATS]),
    by_hand: "install nats-server 2.9 or newer (on Debian: `apt-get install nats-server`)",
};

/// A NATS server that keeps what it acknowledged.
pub(super) const NATS_NEW: Need = Need {
    name: "newer NATS server",
    present: || Ok(nats_version(&new_nats()?).is_some_and(|version| version >= NATS_NEWER)),
    install: install_new_nats,
    by_hand: "put the program nats-server 2.12 or newer at target/xtask/nats-server/usr/sbin/nats-server",
};

fn has_postgres() -> bool {
    let installed = fs::read_dir(POSTGRES_FOLDER).into_iter().flatten().flatten();
    installed.into_iter().any(|version| version.path().join("bin/initdb").is_file())
        || process::succeeds(Command::new("initdb").arg("--version"), LOOK_LIMIT)
}

fn system_nats() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(ADMIN_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(NATS))
        .find(|program| program.is_file())
}

/// Where tests look for it.
fn new_nats() -> Result<PathBuf> {
    Ok(workspace::scratch(NATS)?.join("usr/sbin").join(NATS))
}

fn nats_version(program: &Path) -> Option<(u32, u32)> {
    parse_version(&process::output_of(Command::new(program).arg("--version"), LOOK_LIMIT).ok()?)
}

/// `nats-server: v2.12.1`, or a Debian version such as `2.12.1-1`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let version = text.rsplit(' ').next()?.trim().trim_start_matches('v');
    let mut numbers = version.split(['.', '-']).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn install_new_nats() -> Result<()> {
    let into = workspace::scratch(NATS)?;
    let work = workspace::scratch("nats-server-apt")?;
    let mut tried = Vec::new();
    for mirror in apt::mirrors()? {
        for suite in SUITES {
            let folder = work.join(tried.len().to_string());
            match fetch(&folder, suite, &mirror, &into) {
                Ok(()) => return fs::remove_dir_all(&work).context("could not clean up"),
                Err(error) => tried.push(format!("{suite}: {error:#}")),
            }
        }
    }
    bail!("no suite of Debian's brought {NATS} {}.{}:\n{}", NATS_NEWER.0, NATS_NEWER.1, tried.join("\n"))
}

fn fetch(folder: &Path, suite: &str, mirror: &str, into: &Path) -> Result<()> {
    let suite = Suite::open(folder, suite, mirror)?;
    let listed = suite.versions(NATS)?;
    let newest = listed
        .iter()
        .find(|version| parse_version(version).is_some_and(|version| version >= NATS_NEWER))
        .with_context(|| format!("it has {listed:?}"))?;
    suite.unpack(NATS, newest, into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_program_and_from_the_package() {
        assert_eq!(parse_version("nats-server: v2.9.10\n"), Some((2, 9)));
        assert_eq!(parse_version("2.15.1-1"), Some((2, 15)));
        assert_eq!(parse_version("2.10.27-1+b2"), Some((2, 10)));
        assert_eq!(parse_version("nonsense"), None);
        assert!((2, 9) < NATS_NEWER && (2, 15) >= NATS_NEWER);
    }
}
