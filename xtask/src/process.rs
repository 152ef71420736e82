//! Child processes: run, bounded in time, with errors that show the command and what it printed.
//!
//! A child never reads our standard input. What a captured child prints is shown only when it fails.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How many of the last lines of a failed command's output its error shows.
const SHOWN_LINES_MAX: usize = 40;
/// How often a running child is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a finished command printed.
#[derive(Debug)]
pub(crate) struct Printed {
    /// Whether it exited with status 0.
    pub(crate) success: bool,
    /// How it ended, for people.
    pub(crate) status: String,
    /// Standard output, lossily decoded.
    pub(crate) stdout: String,
    /// Standard error, lossily decoded.
    pub(crate) stderr: String,
}

/// Runs a command to its end and returns what it printed, whatever its exit status.
///
/// Fails when it cannot be started or takes longer than `limit`; then it is killed.
pub(crate) fn capture(command: &mut Command, limit: Duration) -> Result<Printed> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{}`", shown(command)))?;
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let status = wait(&mut child, limit).with_context(|| format!("`{}`", shown(command)))?;
    Ok(Printed {
        success: status.success(),
        status: status.to_string(),
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

/// Runs a command that must succeed, and returns its standard output.
pub(crate) fn output_of(command: &mut Command, limit: Duration) -> Result<String> {
    let printed = capture(command, limit)?;
    if !printed.success {
        let all = format!("{}{}", printed.stdout, printed.stderr);
        bail!("`{}` failed ({}):\n{}", shown(command), printed.status, last_lines(&all, SHOWN_LINES_MAX));
    }
    Ok(printed.stdout)
}

/// Runs a command that must succeed and whose output people see as it comes.
pub(crate) fn show(command: &mut Command, limit: Duration) -> Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("could not start `{}`", shown(command)))?;
    let status = wait(&mut child, limit).with_context(|| format!("`{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status}); its output stands above", shown(command));
    }
    Ok(())
}

/// Whether a command can be started and exits with status 0 within `limit`. Prints nothing.
pub(crate) fn succeeds(command: &mut Command, limit: Duration) -> bool {
    capture(command, limit).is_ok_and(|printed| printed.success)
}

/// Waits for a child to end; kills it when the limit is over.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
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
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(count);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}

/// A command line as a person would type it.
fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Reads a pipe to its end on a thread of its own, so that a full pipe never stops the child.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A read error ends the text early; the exit status still tells success from failure.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn text(reader: thread::JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failed_command_shows_itself_its_status_and_its_output() {
        let error = output_of(&mut shell("echo out; echo err >&2; exit 3"), LIMIT).unwrap_err().to_string();
        assert!(error.contains("sh -c"), "{error}");
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("out\nerr"), "{error}");
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_and_named() {
        let error = capture(&mut shell("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        let shown = format!("{error:#}");
        assert!(shown.contains("sleep 60") && shown.contains("did not end"), "{shown}");
    }

    #[test]
    fn more_output_than_a_pipe_holds_is_read() {
        let printed = output_of(&mut shell("head -c 300000 /dev/zero"), LIMIT).unwrap();
        assert_eq!(printed.len(), 300_000);
    }

    #[test]
    fn last_lines_keeps_the_end() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 2), "a");
    }
}
