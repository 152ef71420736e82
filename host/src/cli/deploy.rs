//! `granary deploy FILE`, `granary undeploy TYPE` and `granary release TYPE`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::{Client, escape};
use super::grants::GrantArgs;
use super::{CliError, Output, OutputFormat, Target, output};

/// The largest component that is sent; the silo has the same bound.
const COMPONENT_BYTES_MAX: u64 = 50 << 20;

/// Deploy a component to a running cluster.
///
///     granary deploy target/wasm32-wasip2/release/counter.wasm
///
/// The silo checks the component, compiles it, and answers when every silo serves it. Live activations stay on
/// the component they started with, and keep its grants, until they are deactivated. What is not granted again at the
/// next deploy is not granted any more.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DeployArgs {
    /// The component.
    file: PathBuf,
    /// Deploy although it breaks grain types that call this one.
    #[arg(long)]
    force: bool,
    /// Override a property of the component: NAME=VALUE.
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<String>,
    #[command(flatten)]
    grants: GrantArgs,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

/// Take a grain type out of the cluster; its activations are deactivated. Persisted state stays.
#[derive(Debug, Args)]
pub(crate) struct UndeployArgs {
    /// The grain type.
    grain_type: String,
    #[command(flatten)]
    target: Target,
}

/// Let a grain type run again whose component is in quarantine, because silos died of it.
///
/// `granary list deployments` shows why. Deploying another component for the type ends its quarantine too.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The grain type.
    grain_type: String,
    #[command(flatten)]
    target: Target,
}

/// A property as it goes into the request.
fn property(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("a property is NAME=VALUE, such as idle-duration=5m".to_owned()),
    }
}

pub(crate) fn run(args: &DeployArgs) -> Result<(), CliError> {
    let file = args.file.display();
    let size = std::fs::metadata(&args.file)
        .map_err(|error| CliError::data(format!("cannot read {file}: {error}")))?
        .len();
    if size > COMPONENT_BYTES_MAX {
        return Err(CliError::data(format!(
            "{file} has {size} bytes; a component has at most {COMPONENT_BYTES_MAX}"
        )));
    }
    let bytes =
        std::fs::read(&args.file).map_err(|error| CliError::data(format!("cannot read {file}: {error}")))?;
    let name = args.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut path = format!("/v1/deployments?name={}", escape(&name));
    if args.force {
        path.push_str("&force=true");
    }
    for property in &args.properties {
        path.push_str("&property=");
        path.push_str(&escape(property));
    }
    args.grants.add_to(&mut path);
    output::note(&format!("deploying {file} ({size} bytes): checking, compiling, spreading"));
    let client = Client::with_timeout(&args.target, Duration::from_secs(600))?;
    let report = client.deploy(&path, &args.grants.env(), &bytes)?;
    show(&report, args.output.output)
}

fn show(report: &Value, format: OutputFormat) -> Result<(), CliError> {
    if format == OutputFormat::Json {
        return output::data(&output::pretty(report));
    }
    let text = |key: &str| report.get(key).and_then(Value::as_str).unwrap_or("?");
    let strings = |key: &str| -> Vec<&str> {
        report
            .get(key)
            .and_then(Value::as_array)
            .map(|items| items.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    };
    for note in strings("notes") {
        output::note(&format!("note: {note}"));
    }
    if report.get("changed").and_then(Value::as_bool) == Some(false) {
        return output::data(&format!("{}: nothing changed ({})", text("type"), text("digest")));
    }
    output::data(&format!(
        "{} deployed: revision {}, {}, served by {}",
        text("type"),
        report.get("revision").map(ToString::to_string).unwrap_or_default(),
        text("digest"),
        strings("silos").join(", ")
    ))
}

pub(crate) fn undeploy(args: &UndeployArgs) -> Result<(), CliError> {
    let client = Client::new(&args.target)?;
    client.delete(&format!("/v1/deployments/{}", escape(&args.grain_type)))?;
    output::data(&format!("{} undeployed", args.grain_type))
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<(), CliError> {
    let client = Client::new(&args.target)?;
    client.delete(&format!("/v1/deployments/{}/quarantine", escape(&args.grain_type)))?;
    output::data(&format!("{} released", args.grain_type))
}
