//! `granary inspect FILE`: what a component is, without a silo.

use std::path::{Path, PathBuf};

use clap::Args;
use granary_wasm::inspect::Inspection;
use serde_json::Value;

use super::{CliError, Output, OutputFormat, output};

/// Show a component's grain type, interfaces, method hashes, references, imports, properties and sizes.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The component.
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &InspectArgs) -> Result<(), CliError> {
    let inspection = read(&args.file)?;
    match args.output.output {
        OutputFormat::Json => output::data(&output::pretty(&report(&inspection)?)),
        OutputFormat::Table => output::data(&text(&inspection)?),
    }
}

/// Reads and inspects a file; exit code 65 when it is no component that could be deployed.
pub(crate) fn read(file: &Path) -> Result<Inspection, CliError> {
    let name = file.display();
    let bytes =
        std::fs::read(file).map_err(|error| CliError::data(format!("cannot read {name}: {error}")))?;
    granary_wasm::inspect::inspect(&bytes).map_err(|error| CliError::data(format!("{name}: {error}")))
}

/// The inspection as JSON.
fn report(inspection: &Inspection) -> Result<Value, CliError> {
    serde_json::to_value(inspection).map_err(|error| {
        CliError::new(crate::exit_code::INTERNAL, format!("the report cannot be written: {error}"))
    })
}

/// The inspection for people.
pub(crate) fn text(inspection: &Inspection) -> Result<String, CliError> {
    let report = report(inspection)?;
    let mut lines = Vec::new();
    for key in ["grain_type", "digest", "size_bytes", "lifecycle", "migration"] {
        lines.push(format!("{key:12} {}", plain(report.get(key).unwrap_or(&Value::Null))));
    }
    for (title, key, name) in [("exports", "interfaces", "id"), ("calls", "references", "interface")] {
        for interface in report.get(key).and_then(Value::as_array).into_iter().flatten() {
            let field = |key| plain(interface.get(key).unwrap_or(&Value::Null));
            lines.push(format!("{title:12} {}@{}", field(name), field("version")));
            for (method, it) in interface.get("methods").and_then(Value::as_object).into_iter().flatten() {
                let field = |key| it.get(key).and_then(Value::as_str).unwrap_or_default();
                let hash: String = field("hash").chars().take(12).collect();
                lines.push(format!("{:12}   {method}: {}  [{hash}]", "", field("signature")));
            }
        }
    }
    for (title, key) in [("imports", "imports"), ("note", "notes")] {
        for item in report.get(key).and_then(Value::as_array).into_iter().flatten() {
            lines.push(format!("{title:12} {}", plain(item)));
        }
    }
    if !inspection.needs_http.is_empty() {
        lines.push(format!("{:12} the imports of wasi:http: deploy it with --allow-http HOST", "grant"));
    }
    for section in ["properties", "limits", "resources"] {
        for (key, value) in report.get(section).and_then(Value::as_object).into_iter().flatten() {
            lines.push(format!("{section:12} {key} = {}", plain(value)));
        }
    }
    Ok(lines.join("\n"))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
