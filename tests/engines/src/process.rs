//! A server's process and the processes that it started.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to serve; a busy machine takes some seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long an orderly end may take before the server is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// A running server, ended on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    orderly: Signal,
}

impl Server {
    /// Starts a command, which the system ends when this thread ends, and waits until the server is ready.
    pub(crate) fn start(
        program: &Path,
        configure: impl FnOnce(&mut Command),
        user: Option<&str>,
        orderly: Signal,
        log: &Path,
        mut is_ready: impl FnMut(u32) -> bool,
    ) -> Self {
        let mut command = guarded(user);
        command.arg(program);
        configure(&mut command);
        let output = File::options().create(true).append(true).open(log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start setpriv (of Debian's util-linux): {error}"));
        let mut server = Self { child, log: log.to_owned(), orderly };
        let started = Instant::now();
        while !is_ready(server.child.id()) {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("{} ended with {status}:\n{}", program.display(), server.log());
            }
            assert!(
                started.elapsed() < READY_WITHIN,
                "{} is not ready within {READY_WITHIN:?}:\n{}",
                program.display(),
                server.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Lets it end in order, connections included.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    /// SIGKILL to it and to all that it started, and waits for the end.
    ///
    /// A server refuses to start on data that a process of its predecessor still has open.
    pub(crate) fn kill(mut self) {
        // Who stands still starts nobody, so this finds all of them.
        let family = self.signal_all(Signal::STOP);
        for &pid in &family {
            let _ = kill_process(pid_of(pid), Signal::KILL);
        }
        self.child.wait().unwrap();
        let started = Instant::now();
        while family.iter().any(|&pid| is_alive(pid)) {
            assert!(started.elapsed() < STOPPED_WITHIN, "processes {family:?} live on after SIGKILL");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stands still, with its connections open.
    pub(crate) fn pause(&self) {
        let _ = self.signal_all(Signal::STOP);
    }

    /// Goes on after a pause.
    pub(crate) fn resume(&self) {
        let _ = self.signal_all(Signal::CONT);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns to whom it went.
    fn signal_all(&self, signal: Signal) -> Vec<u32> {
        let mut done: Vec<u32> = Vec::new();
        // The first stands still first; what it had started by then is found in the next round at the latest.
        loop {
            let family = family(self.child.id());
            let new: Vec<u32> = family.into_iter().filter(|pid| !done.contains(pid)).collect();
            if new.is_empty() {
                return done;
            }
            for pid in new {
                // Its end meanwhile is no failure.
                let _ = kill_process(pid_of(pid), signal);
                done.push(pid);
            }
        }
    }

    fn end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let family = family(self.child.id());
        self.resume();
        let _ = kill_process(pid_of(self.child.id()), self.orderly);
        let started = Instant::now();
        while started.elapsed() < STOPPED_WITHIN {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for pid in family {
            let _ = kill_process(pid_of(pid), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            let log = self.log();
            let earlier = log.lines().count().saturating_sub(40);
            eprintln!("--- the last lines of {}:", self.log.display());
            for line in log.lines().skip(earlier) {
                eprintln!("{line}");
            }
        }
    }
}

/// A command that runs what follows as the user, and lets the system kill it when its parent is gone.
pub(crate) fn guarded(user: Option<&str>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(user) = user {
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{said}", output.status);
}

/// Whether a process is there and has not ended: one that nobody waited for yet has.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !matches!(rest.trim_start().chars().next(), Some('Z' | 'X')))
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// A process and all that descend from it, parents first.
fn family(first: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name stands in parentheses and may hold anything; state and parent follow.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut family = vec![first];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}
