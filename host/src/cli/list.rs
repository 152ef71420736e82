//! `granary list silos|grains|activations|deployments`.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::client::Client;
use super::{CliError, Output, OutputFormat, Target, output};

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
                ("granted", "granted"),
                ("quarantine", "quarantine"),
            ],
        ),
    };
    let mut rows = Client::new(&args.target)?.get(path)?;
    if args.output.output == OutputFormat::Table {
        rows.as_array_mut().into_iter().flatten().for_each(add_granted);
    }
    output::rows(&rows, columns, args.output.output)
}

/// The grants of a deployment in one cell.
fn add_granted(row: &mut Value) {
    let grants = row.get("grants").cloned().unwrap_or_default();
    let texts = |key: &str| {
        let items = grants.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        items.into_iter().filter_map(|item| item.as_str().map(str::to_owned))
    };
    let mut granted: Vec<String> = texts("env").map(|name| format!("env {name}")).collect();
    granted.extend(texts("http").map(|host| format!("http {host}")));
    if grants.get("http_private") == Some(&Value::Bool(true)) {
        granted.push("http private".to_owned());
    }
    if let Some(row) = row.as_object_mut()
        && !granted.is_empty()
    {
        row.insert("granted".to_owned(), granted.into());
    }
}
