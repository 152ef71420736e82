//! Granary's benchmarks; `cargo xtask bench` builds and runs them.
//!
//! Every figure stands beside what it is compared with, measured in turns in the same run. The program is also what
//! it compares with: `peer KIND` serves a bare handler or echo in a process of its own, and `compile-component`
//! compiles components for the grains in this one.

mod bare;
mod bars;
mod frames;
mod measure;
mod peer;
mod processes;
mod report;
mod rows;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Parser;

use report::Circumstances;

/// Measure Granary beside what it is compared with.
#[derive(Debug, Parser)]
#[command(name = "granary-bench")]
struct Args {
    /// Print JSON in place of the table.
    #[arg(long)]
    json: bool,
    /// Fewer and shorter repetitions: under two minutes.
    #[arg(long)]
    quick: bool,
    /// The `granary` binary, of an optimised build.
    #[arg(long, value_name = "FILE")]
    granary: PathBuf,
    /// The component of the test grain `pinger`.
    #[arg(long, value_name = "FILE")]
    pinger: PathBuf,
    /// The rows to measure [default: all].
    #[arg(value_name = "ROW")]
    rows: Vec<String>,
}

/// What all rows need to know.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) quick: bool,
    pub(crate) granary: PathBuf,
    pub(crate) pinger: PathBuf,
}

impl Run {
    /// One of two numbers, by the form of the run.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("compile-component") => return granary_wasm::artifact::child_main(),
        Some("peer") => return done(peer::serve(args.next().as_deref().unwrap_or_default())),
        _ => {}
    }
    done(run(&Args::parse()))
}

/// A missed bar is no error: it is what the table says.
fn done(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the table is this program's output")]
fn run(args: &Args) -> Result<()> {
    ensure!(args.granary.is_file(), "{} is no file", args.granary.display());
    ensure!(args.pinger.is_file(), "{} is no file", args.pinger.display());
    for wanted in &args.rows {
        if !rows::ROWS.iter().any(|row| row.name == wanted) {
            let names: Vec<_> = rows::ROWS.iter().map(|row| row.name).collect();
            bail!("no row is called {wanted:?}; there are: {}", names.join(", "));
        }
    }
    if cfg!(debug_assertions) {
        eprintln!("note: this is a build with debug assertions; its figures mean nothing");
    }
    let run = Run { quick: args.quick, granary: args.granary.clone(), pinger: args.pinger.clone() };
    let (started, load_before) = (Instant::now(), measure::load());
    let mut lines = Vec::new();
    for row in rows::ROWS {
        if args.rows.is_empty() || args.rows.iter().any(|wanted| wanted == row.name) {
            let began = Instant::now();
            lines.extend((row.measure)(&run)?);
            eprintln!("measured {} in {:.1} s", row.name, began.elapsed().as_secs_f64());
        }
    }
    let circumstances = Circumstances {
        quick: run.quick,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        load_before,
        load_after: measure::load(),
        seconds: started.elapsed().as_secs_f64(),
    };
    let text =
        if args.json { report::json(&lines, &circumstances) } else { report::table(&lines, &circumstances) };
    println!("{text}");
    Ok(())
}
