//! `granary logs TYPE/KEY`: the last lines that a grain logged, wherever it was active.

use clap::Args;
use serde_json::Value;

use super::client::{Client, grain_path};
use super::{CliError, Output, OutputFormat, Target, output};

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The grain: TYPE/KEY.
    grain: String,
    /// At most so many lines, the newest.
    #[arg(long, default_value_t = 200)]
    lines: usize,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &LogsArgs) -> Result<(), CliError> {
    let path = format!("/v1/logs/{}?lines={}", grain_path(&args.grain)?, args.lines);
    let lines = Client::new(&args.target)?.get(&path)?;
    if args.output.output == OutputFormat::Json {
        return output::data(&output::pretty(&lines));
    }
    for line in lines.as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        output::data(&format!("{} {:5} {} {}", text("time"), text("level"), text("silo"), text("text")))?;
    }
    Ok(())
}
