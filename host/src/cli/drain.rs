//! `granary drain SILO`: empties a silo and stops it.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::{Client, escape};
use super::{CliError, Target, output};

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The silo's name.
    silo: String,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &DrainArgs) -> Result<(), CliError> {
    let client = Client::with_timeout(&args.target, Duration::from_secs(120))?;
    let report = client.post(&format!("/v1/silos/{}/drain", escape(&args.silo)), &[])?;
    let detail = report.get("detail").and_then(Value::as_str).unwrap_or("draining");
    output::data(&format!("{}: {detail}", args.silo))
}
