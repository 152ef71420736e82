//! `granary describe TYPE/KEY`: where a grain is active, and how it does.

use clap::Args;

use super::client::{Client, grain_path};
use super::{CliError, Output, Target, output};

#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// The grain: TYPE/KEY.
    grain: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &DescribeArgs) -> Result<(), CliError> {
    let path = format!("/v1/activations/{}", grain_path(&args.grain)?);
    output::object(&Client::new(&args.target)?.get(&path)?, args.output.output)
}
