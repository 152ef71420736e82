//! `granary list silos|grains|activations|deployments`.

use clap::{Args, ValueEnum};

use super::client::Client;
use super::{CliError, Output, Target, output};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// What to list.
    #[arg(value_enum)]
    what: What,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// The silos of the cluster, the dead ones that are still known included.
    Silos,
    /// The grain types that the cluster serves.
    Grains,
    /// The live activations on all silos.
    Activations,
    /// The deployed components.
    Deployments,
}

pub(crate) fn run(args: &ListArgs) -> Result<(), CliError> {
    let (path, columns): (_, &[(&str, &str)]) = match args.what {
        What::Silos => (
            "/v1/silos",
            &[
                ("name", "name"),
                ("status", "status"),
                ("address", "address"),
                ("gateway", "gateway"),
                ("admin", "admin"),
                ("manifest", "generation"),
            ],
        ),
        What::Grains => (
            "/v1/grains",
            &[
                ("type", "type"),
                ("interfaces", "interfaces"),
                ("digest", "digest"),
                ("silos", "silos"),
                ("activations", "activations"),
            ],
        ),
        What::Activations => (
            "/v1/activations",
            &[
                ("grain", "grain"),
                ("silo", "silo"),
                ("state", "state"),
                ("calls", "calls"),
                ("waiting", "waiting"),
                ("idle (s)", "idle_s"),
                ("component", "digest"),
            ],
        ),
        What::Deployments => (
            "/v1/deployments",
            &[
                ("type", "type"),
                ("revision", "revision"),
                ("name", "name"),
                ("bytes", "bytes"),
                ("digest", "digest"),
                ("quarantine", "quarantine"),
            ],
        ),
    };
    output::rows(&Client::new(&args.target)?.get(path)?, columns, args.output.output)
}
