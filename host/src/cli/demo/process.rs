//! Child processes of the demo: bounded in time, with errors that show what they printed.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How often a running child is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a command that must succeed, and returns its standard output. What it prints is little: it fits a pipe.
pub(super) fn output_of(command: &mut Command, limit: Duration) -> Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start")?;
    wait(&mut child, limit)?;
    let printed = child.wait_with_output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if !printed.status.success() {
        bail!("{:?} failed ({}): {}", command, printed.status, text(&printed.stderr));
    }
    Ok(text(&printed.stdout))
}

/// Waits for a child to end; kills it when the limit is over.
pub(super) fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            bail!("did not end within {} s and was killed", limit.as_secs());
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// The last `count` lines of a text.
pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(count);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}
