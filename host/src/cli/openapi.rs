//! `granary openapi`: the HTTP API of the deployed grains, as OpenAPI 3.1.

use clap::Args;

use super::client::Client;
use super::{CliError, Target, output};

/// Print the HTTP API of the deployed grains as OpenAPI 3.1; the gateway has it at /v1/openapi.json.
#[derive(Debug, Args)]
pub(crate) struct OpenapiArgs {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &OpenapiArgs) -> Result<(), CliError> {
    output::data(&output::pretty(&Client::new(&args.target)?.get("/v1/openapi.json")?))
}
