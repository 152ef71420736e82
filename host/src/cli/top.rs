//! `granary top`: silos and grain types with what they do, drawn again and again on a terminal, once elsewhere.

mod sample;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::client::Client;
use super::{CliError, Output, OutputFormat, Target, output};
use sample::Sample;

/// The shortest time between two looks: each asks every silo.
const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// The most rows of a table.
const ROWS_MAX: usize = 1_000;

/// To the upper left corner, and everything below it cleared.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Show what silos and grain types do, live.
///
///     granary top
///     granary top --once --sort waiting
///     granary top --once --output json
///
/// On a terminal the view is drawn again until Ctrl-C; elsewhere it is printed once.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TopArgs {
    /// Print once and end.
    #[arg(long)]
    once: bool,
    /// The time between two looks.
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// What grain types are sorted by, the most first.
    #[arg(long, value_enum, default_value = "calls")]
    sort: Sort,
    /// How many rows of each table are shown.
    #[arg(long, default_value_t = 20, value_parser = rows)]
    rows: usize,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

/// An order of grain types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Calls that the live activations took.
    Calls,
    /// Live activations.
    Activations,
    /// Calls that wait.
    Waiting,
    /// The name, from a to z.
    Name,
}

fn rows(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rows @ 1..=ROWS_MAX) => Ok(rows),
        _ => Err(format!("a number from 1 to {ROWS_MAX}")),
    }
}

pub(crate) fn run(args: &TopArgs) -> Result<(), CliError> {
    let client = Client::new(&args.target)?;
    let look = || -> Result<Sample, CliError> { Ok(Sample::read(&client.get("/v1/load")?)) };
    if args.output.output == OutputFormat::Json {
        return output::data(&output::pretty(&look()?.json(args.sort, args.rows)));
    }
    if args.once || !std::io::stdout().is_terminal() {
        return output::data(&look()?.text(None, args.sort, args.rows));
    }
    watch(args, look)
}

/// Until the process is ended. A silo that does not answer is waited for.
fn watch(args: &TopArgs, look: impl Fn() -> Result<Sample, CliError>) -> Result<(), CliError> {
    let interval = args.interval.max(INTERVAL_MIN);
    let mut earlier: Option<Sample> = None;
    loop {
        let text = match look() {
            Ok(sample) => {
                let text = sample.text(earlier.as_ref(), args.sort, args.rows);
                earlier = Some(sample);
                text
            }
            Err(error) => error.message,
        };
        output::data(&format!("{CLEAR}{text}"))?;
        std::thread::sleep(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bounded() {
        assert_eq!(rows("5"), Ok(5));
        for text in ["0", "1001", "-1", "x"] {
            assert!(rows(text).is_err(), "{text}");
        }
    }
}
