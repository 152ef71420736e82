//! Granary's own automation: `cargo xtask` lists what there is.

mod process;
mod report;
mod setup;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask COMMAND

  setup [--wasip2 auto|rustup|debian]   bring everything that building and testing needs
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("[xtask] error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["setup"] => setup::run(setup::Options { test_runner: true, ..Default::default() }),
        ["setup", "--wasip2", source] => {
            setup::run(setup::Options { wasip2: source.parse()?, test_runner: true })
        }
        _ => bail!("unknown command\n\n{USAGE}"),
    }
}
