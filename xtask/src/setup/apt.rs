//! Debian's package manager: installing packages, and taking single packages apart without installing them.
//!
//! The machine's own package sources stay as they are. The mirror is the one that the machine uses already.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::{process, report};

/// One run of the package manager on a slow line.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// A question that needs no network.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// Where the archive's keys lie, newest name first.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg"];

/// Installs packages; needs root, or `sudo` without a password.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    if !process::succeeds(Command::new("apt-get").arg("--version"), ASK_LIMIT) {
        bail!("this is no Debian system (there is no apt-get); install by hand: {}", packages.join(", "));
    }
    let install = || {
        let mut command = privileged()?;
        command.args(["install", "--yes", "--no-install-recommends"]).args(packages);
        process::output_of(&mut command, LIMIT)
    };
    let Err(first) = install() else { return Ok(()) };
    report::line("apt-get install failed; once more after apt-get update");
    process::output_of(privileged()?.arg("update"), LIMIT).context(format!("before it: {first:#}"))?;
    install().map(drop)
}

/// `apt-get` with the rights to install.
fn privileged() -> Result<Command> {
    let mut command = if is_root()? {
        Command::new("apt-get")
    } else if process::succeeds(Command::new("sudo").args(["-n", "true"]), ASK_LIMIT) {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "apt-get"]);
        sudo
    } else {
        bail!("installing packages needs root, or sudo without a password");
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self").context("could not read /proc/self")?.uid() == 0)
}

/// A view of one Debian suite that is apart from the machine's own package sources.
#[derive(Debug)]
pub(super) struct Suite {
    folder: PathBuf,
    options: Vec<String>,
}

impl Suite {
    /// Reads the package lists of a suite into `folder`, which must be empty or missing.
    pub(super) fn open(folder: &Path, suite: &str, mirror: &str) -> Result<Self> {
        let lists = folder.join("lists");
        fs::create_dir_all(lists.join("partial"))?;
        fs::create_dir_all(folder.join("cache/archives/partial"))?;
        let sources = folder.join("sources.list");
        fs::write(&sources, format!("deb [signed-by={}] {mirror} {suite} main\n", keyring()?))?;
        let mut options = vec![
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", lists.display()),
            format!("Dir::Cache={}", folder.join("cache").display()),
            "Dir::Cache::pkgcache=".to_owned(),
            "Dir::Cache::srcpkgcache=".to_owned(),
            "APT::Update::Error-Mode=any".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=2".to_owned(),
            "Acquire::http::Timeout=30".to_owned(),
        ];
        if is_root()? {
            // The sandbox user may not read folders below a root-only home.
            options.push("APT::Sandbox::User=root".to_owned());
        }
        let this = Self { folder: folder.to_path_buf(), options };
        process::output_of(this.command("apt-get").arg("update"), LIMIT)?;
        Ok(this)
    }

    /// The versions of a package, as the suite lists them.
    pub(super) fn versions(&self, package: &str) -> Result<Vec<String>> {
        let listed = process::output_of(self.command("apt-cache").args(["madison", package]), ASK_LIMIT)?;
        Ok(parse_madison(&listed))
    }

    /// Fetches one package and unpacks its files below `into`.
    pub(super) fn unpack(&self, package: &str, version: &str, into: &Path) -> Result<()> {
        let downloads = self.folder.join("downloads").join(package);
        fs::create_dir_all(&downloads)?;
        let mut command = self.command("apt-get");
        command.args(["download", &format!("{package}={version}")]).current_dir(&downloads);
        process::output_of(&mut command, LIMIT)?;
        let archive = fs::read_dir(&downloads)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .with_context(|| format!("apt-get download left no package in {}", downloads.display()))?;
        fs::create_dir_all(into)?;
        process::output_of(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(into), LIMIT)?;
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.arg("-o").arg(option);
        }
        command
    }
}

/// The mirrors of Debian itself that the machine is set up for, most likely first.
pub(super) fn mirrors() -> Result<Vec<String>> {
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(CREATED_BY)|$(LABEL)|$(RELEASE)|$(REPO_URI)"]);
    let listed = process::output_of(&mut command, ASK_LIMIT)?;
    let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let found = parse_mirrors(&listed, codename.unwrap_or_default());
    anyhow::ensure!(!found.is_empty(), "apt-get is set up for no mirror of Debian's packages");
    Ok(found)
}

fn keyring() -> Result<&'static str> {
    let find = || KEYRINGS.into_iter().find(|path| Path::new(path).exists());
    if let Some(path) = find() {
        return Ok(path);
    }
    install(&["debian-archive-keyring"])?;
    find().context("the package debian-archive-keyring brought no keyring")
}

/// Lines `name | version | source`.
fn parse_madison(listed: &str) -> Vec<String> {
    listed.lines().filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned())).collect()
}

/// Lines `created-by|label|release|uri`. Sources of Debian itself carry its label; before the first update there is
/// no label, and the system's own release name has to do.
fn parse_mirrors(listed: &str, codename: &str) -> Vec<String> {
    let mut labelled = Vec::new();
    let mut guessed = Vec::new();
    for line in listed.lines() {
        let mut fields = line.splitn(4, '|');
        let (Some("Packages"), Some(label), Some(release), Some(uri)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if label == "Debian" {
            labelled.push(uri.to_owned());
        } else if release == codename && !codename.is_empty() {
            guessed.push(uri.to_owned());
        }
    }
    let mut found: Vec<String> = Vec::new();
    for uri in labelled.into_iter().chain(guessed) {
        if !found.contains(&uri) {
            found.push(uri);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn madison_lines_yield_versions_in_order() {
        let listed = " rust-src | 1.95.0+dfsg1-1 | http://a.example/debian s/main amd64 Packages\n\
                       rust-src | 1.94.0+dfsg1-2 | http://a.example/debian s/main amd64 Packages\n";
        assert_eq!(parse_madison(listed), ["1.95.0+dfsg1-1", "1.94.0+dfsg1-2"]);
        assert!(parse_madison("").is_empty());
    }

    #[test]
    fn the_mirror_labelled_debian_comes_before_others_of_the_same_release() {
        let listed = "Packages|Docker CE|stone|http://other.example/\n\
                      Packages|Debian-Security|stone-security|http://mirror.example/security/\n\
                      DEP-11|Debian|stone|http://mirror.example/icons/\n\
                      Packages|Debian|stone|http://mirror.example/debian/\n\
                      Packages|Debian|stone-updates|http://mirror.example/debian/\n";
        assert_eq!(
            parse_mirrors(listed, "stone"),
            ["http://mirror.example/debian/", "http://other.example/"]
        );
    }

    #[test]
    fn without_labels_the_release_name_decides() {
        let listed = "Packages||stone|http://mirror.example/debian/\nPackages||nodistro|http://x.example/\n";
        assert_eq!(parse_mirrors(listed, "stone"), ["http://mirror.example/debian/"]);
        assert!(parse_mirrors(listed, "").is_empty());
    }
}
