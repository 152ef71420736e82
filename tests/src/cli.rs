//! The command line, run as a user would run it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run of the command line left.
#[derive(Debug, Clone)]
pub struct CliOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CliOutput {
    /// The trimmed standard output of a run that must have gone well.
    #[track_caller]
    #[must_use]
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout.trim()
    }

    /// Asserts a failure with this exit code whose message contains all of `parts`.
    #[track_caller]
    pub fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is missing in {self:?}");
        }
        assert!(!self.stderr.contains("thread 'main'"), "{self:?}");
    }
}

/// Runs `granary` against the silo whose admin address is given.
#[must_use]
pub fn cli(admin: &str, args: &[&str]) -> CliOutput {
    cli_in(Path::new("."), admin, args, b"")
}

/// Runs `granary` in a folder, with something on standard input.
#[must_use]
pub fn cli_in(folder: &Path, admin: &str, args: &[&str], input: &[u8]) -> CliOutput {
    let mut child = Command::new(crate::binary())
        .current_dir(folder)
        .args(args)
        .env("GRANARY_URL", format!("http://{admin}"))
        .env_remove("RUST_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A verb that reads nothing may be gone before its input is.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    CliOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
