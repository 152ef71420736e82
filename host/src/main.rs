//! The `granary` binary: reads the command line and exits with the verb's code.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    granary::cli::Cli::parse().run()
}
