//! Silo processes of the demo: started, asked and ended the way that a user would.
//!
//! Whatever happens, no process and no file outlives its value here.

use std::fs::{self, DirBuilder, File};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{Interrupt, process};

/// The longest start of a silo.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The longest orderly stop.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// The longest run of a client verb.
const VERB_LIMIT: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How many lines of a silo's log an error shows.
const LOG_LINES: usize = 20;

/// A folder that is removed with its value.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a new folder that only we may read.
    pub(super) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("granary-demo-{}", std::process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("could not create {}", path.display()))?;
        Ok(Self(path))
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("could not remove {}: {error}", self.0.display());
        }
    }
}

/// A running silo. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct Silo {
    /// Its name in the cluster.
    pub(super) name: String,
    /// Where it takes calls.
    pub(super) gateway: SocketAddr,
    /// How long its start took.
    pub(super) started_in: Duration,
    admin: String,
    binary: PathBuf,
    log: PathBuf,
    child: Child,
}

impl Silo {
    /// Starts a silo of the cluster whose data lies below `folder`, and waits until it is ready.
    pub(super) fn start(binary: &Path, folder: &Path, name: &str, interrupt: &Interrupt) -> Result<Self> {
        let ready = folder.join(format!("{name}.json"));
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let started = Instant::now();
        let mut command = Command::new(binary);
        command
            .args(["silo", "--name", name, "--data"])
            .arg(folder.join("data"))
            .args([
                "--listen",
                "127.0.0.1:0",
                "--gateway",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--ready-file",
            ])
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // In a group of its own, so that Ctrl-C reaches the demo, which then stops its silos.
            .process_group(0);
        let child = command.spawn().with_context(|| format!("could not start {}", binary.display()))?;
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut silo = Self {
            name: name.to_owned(),
            gateway: unknown,
            started_in: Duration::ZERO,
            admin: String::new(),
            binary: binary.to_path_buf(),
            log,
            child,
        };
        silo.wait_ready(&ready, interrupt).with_context(|| silo.with_log("did not become ready"))?;
        silo.started_in = started.elapsed();
        Ok(silo)
    }

    fn wait_ready(&mut self, ready: &Path, interrupt: &Interrupt) -> Result<()> {
        let started = Instant::now();
        loop {
            interrupt.check()?;
            // The file may be seen half written; then the next look finds it whole.
            if let Ok(text) = fs::read_to_string(ready)
                && let Ok(addresses) = serde_json::from_str::<Value>(&text)
            {
                self.gateway = address(&addresses, "gateway")?;
                self.admin = format!("http://{}", address(&addresses, "admin")?);
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the process ended ({status})");
            }
            anyhow::ensure!(started.elapsed() < START_LIMIT, "not ready after {} s", START_LIMIT.as_secs());
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a client verb against this silo, and returns what it printed.
    pub(super) fn verb(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).args(["--admin", &self.admin]);
        Ok(process::output_of(&mut command, VERB_LIMIT)?.trim_end().to_owned())
    }

    /// The silo that a grain is active on.
    pub(super) fn whereabouts(&self, grain: &str) -> Result<String> {
        let described = self.verb(&["describe", grain, "--output", "json"])?;
        let described: Value = serde_json::from_str(&described).context("describe printed no JSON")?;
        let silo = described.get("silo").and_then(Value::as_str);
        Ok(silo.with_context(|| format!("describe {grain} names no silo: {described}"))?.to_owned())
    }

    /// Kills the process at once, as a crash would.
    pub(super) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks the process to stop, and waits for exit status 0. Returns how long it took.
    pub(super) fn stop(mut self) -> Result<Duration> {
        let started = Instant::now();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("kill -TERM {}", self.pid())]);
        process::output_of(&mut command, VERB_LIMIT)?;
        let status =
            process::wait(&mut self.child, STOP_LIMIT).with_context(|| self.with_log("did not stop"))?;
        if !status.success() {
            bail!("{}", self.with_log(&format!("ended with {status}")));
        }
        Ok(started.elapsed())
    }

    /// A sentence about this silo, with the end of its log.
    fn with_log(&self, what: &str) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        format!("{} {what}; its log ends:\n{}\n", self.name, process::last_lines(&log, LOG_LINES))
    }
}

impl Drop for Silo {
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(addresses: &Value, key: &str) -> Result<SocketAddr> {
    let text = addresses.get(key).and_then(Value::as_str);
    let text = text.with_context(|| format!("the ready file has no \"{key}\": {addresses}"))?;
    text.parse().with_context(|| format!("the ready file's \"{key}\" is no address: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_the_ready_file() {
        let addresses = serde_json::json!({"name": "silo-1", "gateway": "127.0.0.1:4000", "admin": 3});
        assert_eq!(address(&addresses, "gateway").unwrap().port(), 4000);
        assert!(address(&addresses, "admin").is_err());
        assert!(address(&addresses, "listen").unwrap_err().to_string().contains("listen"));
    }
}
