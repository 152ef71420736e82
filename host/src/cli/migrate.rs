//! `granary migrate TYPE/KEY --to SILO`.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::{Client, escape, grain_path};
use super::{CliError, Output, OutputFormat, Target, output};

/// Longer than the silo takes to give up, so that its answer is seen.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Move a live activation to another silo, its state intact and no call lost.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The grain: TYPE/KEY.
    grain: String,
    /// The name of the silo to move to.
    #[arg(long, value_name = "SILO")]
    to: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &MigrateArgs) -> Result<(), CliError> {
    let path = format!("/v1/activations/{}/migrate?to={}", grain_path(&args.grain)?, escape(&args.to));
    let report = Client::with_timeout(&args.target, TIMEOUT)?.post(&path, &[])?;
    if args.output.output == OutputFormat::Json {
        return output::data(&output::pretty(&report));
    }
    let text = |key: &str| report.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
    let number = |key: &str| report.get(key).and_then(Value::as_f64).unwrap_or_default();
    if report.get("moved").and_then(Value::as_bool) == Some(false) {
        return output::data(&format!("{} is on {} already", args.grain, text("to")));
    }
    output::data(&format!(
        "{} moved from {} to {}: {} bytes, paused {:.1} ms",
        args.grain,
        text("from"),
        text("to"),
        number("bytes"),
        number("pause_ms")
    ))
}
