//! The command line of the built program.
//!
//! `cargo xtask demo` builds this target beside the silo: with a test among its targets, cargo unites the features of
//! the development dependencies too, so that the demo and the tests share one build of everything heavy.

use std::io;
use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output()
}

#[test]
fn help_lists_every_command_and_succeeds() {
    let output = xtask(&["help"]).unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    for command in ["setup", "guests", "tidy", "demo", "test", "ci", "help"] {
        assert!(text.contains(&format!("\n  {command} ")), "{command} is missing in {text}");
    }
}

#[test]
fn an_unknown_command_fails_and_is_named() {
    let output = xtask(&["tset"]).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("`tset`") && text.contains("Usage: cargo xtask"), "{text}");
}
