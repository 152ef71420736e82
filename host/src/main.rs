//! The `granary` binary: reads the command line and exits with the verb's code.

use std::process::ExitCode;

use clap::Parser as _;

/// Calls allocate much and briefly, often on one thread and free on another, which glibc's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    granary::cli::Cli::parse().run()
}
