//! `granary manifest show` and `granary manifest hash`.

use std::io::Read as _;

use clap::{Args, Subcommand};
use granary_core::manifest::json;
use serde_json::Value;

use super::client::Client;
use super::{CliError, Output, OutputFormat, Target, output};

/// The largest manifest that is read from standard input.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Args)]
pub(crate) struct ManifestArgs {
    #[command(subcommand)]
    verb: ManifestVerb,
}

#[derive(Debug, Subcommand)]
enum ManifestVerb {
    /// Show grain types, interfaces, versions and properties as each silo publishes them.
    Show {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        target: Target,
    },
    /// Read a manifest as JSON on standard input, and print its canonical hash.
    ///
    ///     {"grains": [[ID, {KEY: VALUE…}]…], "interfaces": [[ID, {KEY: VALUE…}]…]}
    ///
    /// ID is null, a string, or {"hex": "8000"}; VALUE is null or a string.
    #[command(verbatim_doc_comment)]
    Hash,
}

pub(crate) fn run(args: &ManifestArgs) -> Result<(), CliError> {
    match &args.verb {
        ManifestVerb::Hash => hash(),
        ManifestVerb::Show { output, target } => {
            let silos = Client::new(target)?.get("/v1/manifest")?;
            match output.output {
                OutputFormat::Json => output::data(&output::pretty(&silos)),
                OutputFormat::Table => show(&silos),
            }
        }
    }
}

fn hash() -> Result<(), CliError> {
    let mut text = Vec::new();
    std::io::stdin().lock().take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(CliError::data(format!("the manifest is larger than {MANIFEST_BYTES_MAX} bytes")));
    }
    let manifest = json::from_json(&text).map_err(|error| CliError::data(error.to_string()))?;
    output::data(&manifest.hash().to_string())
}

/// One block for each silo, and in it a block for each grain type and interface.
fn show(silos: &Value) -> Result<(), CliError> {
    for silo in silos.as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = |key: &str| silo.get(key).and_then(Value::as_str).unwrap_or("?");
        let generation = silo.get("generation").and_then(Value::as_u64).unwrap_or_default();
        output::data(&format!("silo {} generation {generation} hash {}", text("silo"), text("hash")))?;
        for (title, key) in [("grain type", "grains"), ("interface", "interfaces")] {
            for (id, properties) in silo.get(key).and_then(Value::as_object).into_iter().flatten() {
                output::data(&format!("  {title} {id}"))?;
                for (name, value) in properties.as_object().into_iter().flatten() {
                    output::data(&format!("    {name} = {}", value.as_str().unwrap_or("null")))?;
                }
            }
        }
    }
    Ok(())
}
