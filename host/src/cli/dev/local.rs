//! The silo that `granary dev` starts. It is in a process group of its own, so that Ctrl-C reaches it through us: as
//! a request to drain, after the last build was ended.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli::client::Client;
use crate::cli::demo::Interrupt;
use crate::cli::{CliError, Target};
use crate::exit_code;

/// How long a start may take.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long a stop may take: the drain deadline of a silo, with room.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How often a condition is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How much of the silo's log an error shows, in lines.
const LOG_LINES: usize = 10;

/// A silo that was started here. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct LocalSilo {
    pub(super) name: String,
    pub(super) gateway: String,
    pub(super) admin: String,
    log: PathBuf,
    child: Child,
}

/// Whether a silo answers at the address.
pub(super) fn answers(target: &Target) -> Result<bool, CliError> {
    match Client::with_timeout(target, Duration::from_secs(5))?.get("/version") {
        Ok(_) => Ok(true),
        Err(error) if error.code == exit_code::UNAVAILABLE => Ok(false),
        Err(error) => Err(error),
    }
}

/// The address of a URL on this machine.
fn here(admin: &str) -> Result<SocketAddr, CliError> {
    let text = admin.trim_start_matches("http://").trim_end_matches('/').replace("localhost", "127.0.0.1");
    let address: Option<SocketAddr> = text.parse().ok();
    address.filter(|address| address.ip().is_loopback()).ok_or_else(|| {
        CliError::new(
            exit_code::UNAVAILABLE,
            format!("no silo answers at {admin}, and a silo is started on this machine only"),
        )
    })
}

impl LocalSilo {
    /// Starts a silo and waits until it is ready.
    pub(super) fn start(
        binary: &Path,
        data: &Path,
        target: &Target,
        interrupt: &Interrupt,
    ) -> Result<Self, CliError> {
        let admin = here(&target.admin)?;
        std::fs::create_dir_all(data)
            .map_err(|error| CliError::new(exit_code::CONFIG, format!("{}: {error}", data.display())))?;
        let (ready, log) = (data.join("dev.ready"), data.join("dev.log"));
        let output = File::create(&log)?;
        let mut command = Command::new(binary);
        command.arg("silo").arg("--data").arg(data).args(["--admin", &admin.to_string()]);
        command.arg("--ready-file").arg(&ready);
        if let Some(file) = &target.token_file {
            command.arg("--admin-token-file").arg(file);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(|error| CliError::new(exit_code::CONFIG, format!("the silo cannot be run: {error}")))?;
        let mut silo =
            Self { name: String::new(), gateway: String::new(), admin: target.admin.clone(), log, child };
        silo.wait_ready(&ready, interrupt)?;
        Ok(silo)
    }

    fn wait_ready(&mut self, ready: &Path, interrupt: &Interrupt) -> Result<(), CliError> {
        let started = Instant::now();
        loop {
            // The silo removes an older file before it does anything else, and writes a new one in one step.
            let addresses = std::fs::read_to_string(ready).ok();
            let addresses = addresses.and_then(|text| serde_json::from_str::<Value>(&text).ok());
            let text = |key: &str| {
                let found = addresses.as_ref()?.get(key)?.as_str()?;
                Some(found.to_owned())
            };
            if let Some(status) = self.ended() {
                return Err(self.failure(&format!("the silo ended ({status})")));
            }
            if let (Some(name), Some(gateway), Some(admin)) = (text("name"), text("gateway"), text("admin"))
                && self.admin.contains(&admin)
            {
                (self.name, self.gateway) = (name, gateway);
                return Ok(());
            }
            if interrupt.is_set() {
                return Err(CliError::new(exit_code::TERMINATED, "interrupted while the silo started"));
            }
            if started.elapsed() > START_LIMIT {
                return Err(self.failure(&format!("the silo was not ready within {START_LIMIT:?}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// How the process ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Where it logs.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Asks the silo to drain, and waits for its end.
    pub(super) fn stop(mut self) -> Result<(), CliError> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if self.ended().is_none()
            && let Some(pid) = pid
        {
            // It may end by itself at this very moment.
            let _ = kill_process(pid, Signal::TERM);
        }
        let started = Instant::now();
        loop {
            match self.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failure(&format!("the silo ended with {status}"))),
                None if started.elapsed() > STOP_LIMIT => {
                    return Err(
                        self.failure(&format!("the silo did not stop within {STOP_LIMIT:?}, and was killed"))
                    );
                }
                None => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    fn failure(&self, what: &str) -> CliError {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n");
        CliError::new(exit_code::FAILED, format!("{what}; the end of {}:\n{end}", self.log.display()))
    }
}

impl Drop for LocalSilo {
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_gets_a_silo() {
        assert_eq!(here("http://127.0.0.1:11112/").unwrap().port(), 11_112);
        assert_eq!(here("localhost:7").unwrap().port(), 7);
        assert_eq!(here("http://192.0.2.1:11112").unwrap_err().code, exit_code::UNAVAILABLE);
    }
}
