//! Silo processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::{CliOutput, Http, cli, guest, wait_until};

/// How long a silo may take to become ready; it takes well under a second on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A data directory and the silos that were started on it; or a server that holds the store, and the silos that were
/// started with it, each with a data directory of its own.
#[derive(Debug)]
pub struct Cluster {
    data: TempDir,
    store: Option<String>,
}

/// One silo process.
#[derive(Debug)]
pub struct Silo {
    pub name: String,
    pub listen: String,
    pub gateway: String,
    pub admin: String,
    log: PathBuf,
    child: Child,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    #[must_use]
    pub fn new() -> Self {
        Self { data: tempfile::tempdir().unwrap(), store: None }
    }

    /// A cluster whose store is at this address.
    #[must_use]
    pub fn with_store(url: &str) -> Self {
        Self { store: Some(url.to_owned()), ..Self::new() }
    }

    #[must_use]
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Starts a silo and waits until it is ready.
    #[must_use]
    pub fn start(&self, name: &str) -> Silo {
        self.start_with(name, &[])
    }

    /// Starts a silo with more flags.
    #[must_use]
    pub fn start_with(&self, name: &str, flags: &[&str]) -> Silo {
        self.start_in(name, flags, &[])
    }

    /// Starts a silo with a planted fault: `abort:TYPE/KEY` or `panic:TYPE/KEY`.
    #[must_use]
    pub fn start_with_failpoint(&self, name: &str, failpoint: &str) -> Silo {
        self.start_in(name, &[], &[("GRANARY_TEST_FAILPOINT", failpoint)])
    }

    fn start_in(&self, name: &str, flags: &[&str], environment: &[(&str, &str)]) -> Silo {
        let ready = self.data.path().join(format!("{name}.ready"));
        let _ = std::fs::remove_file(&ready);
        let log = self.data.path().join(format!("{name}.log"));
        let own = self.store.as_ref().map(|_| self.data.path().join(format!("{name}.data")));
        let mut child = Command::new(crate::binary())
            .args(["silo", "--name", name, "--data"])
            .arg(own.as_deref().unwrap_or_else(|| self.data.path()))
            .envs(self.store.as_ref().map(|store| ("GRANARY__SILO__STORE", store)))
            .args(["--listen", "127.0.0.1:0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .arg("--ready-file")
            .arg(&ready)
            .args(flags)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().create(true).append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        let addresses: Value = wait_until(READY_WITHIN, &format!("silo {name} is ready"), || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("silo {name} ended with {status}:\n{}", std::fs::read_to_string(&log).unwrap());
            }
            std::fs::read_to_string(&ready).map(|text| serde_json::from_str(&text).unwrap())
        });
        let text = |key: &str| addresses[key].as_str().unwrap().to_owned();
        Silo {
            name: text("name"),
            listen: text("listen"),
            gateway: text("gateway"),
            admin: text("admin"),
            log,
            child,
        }
    }
}

impl Silo {
    /// The gateway, for calls.
    #[must_use]
    pub fn gateway(&self) -> Http {
        Http::new(&self.gateway)
    }

    /// The admin API.
    #[must_use]
    pub fn admin(&self) -> Http {
        Http::new(&self.admin)
    }

    /// Runs the command line against this silo.
    #[must_use]
    pub fn cli(&self, args: &[&str]) -> CliOutput {
        cli(&self.admin, args)
    }

    /// Deploys example or fixture components.
    #[track_caller]
    pub fn deploy(&self, names: &[&str]) {
        for name in names {
            let _ = self.cli(&["deploy", guest(name).to_str().unwrap()]).ok();
        }
    }

    /// `granary describe` as JSON.
    #[track_caller]
    #[must_use]
    pub fn describe(&self, grain: &str) -> Value {
        serde_json::from_str(self.cli(&["describe", grain, "--output", "json"]).ok()).unwrap()
    }

    /// What the silo logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Resident memory in bytes.
    #[must_use]
    pub fn rss(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// How the process ended, if it did.
    #[must_use]
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and waits for the end; gives the status and how long it took.
    #[must_use]
    pub fn terminate(mut self) -> (ExitStatus, Duration) {
        let started = Instant::now();
        self.signal("TERM");
        let status = wait_until(Duration::from_secs(60), "the silo exits", || {
            self.child.try_wait().unwrap().ok_or("it still runs")
        });
        (status, started.elapsed())
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "cannot send {name}");
    }
}

impl Drop for Silo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let earlier = log.lines().count().saturating_sub(60);
            eprintln!("--- the last lines of silo {}:", self.name);
            for line in log.lines().skip(earlier) {
                eprintln!("{line}");
            }
        }
    }
}
