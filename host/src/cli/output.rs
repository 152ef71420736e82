//! Printing: data to standard output, everything else to standard error, and a quiet end at a broken pipe.

use std::io::Write as _;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use super::{CliError, OutputFormat};

/// Prints one piece of data and a line end.
pub(crate) fn data(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader has seen enough, as with `| head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(CliError::from),
    }
}

/// Says what happens, to a person.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says what went wrong.
pub(crate) fn error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "granary: {text}");
}

/// Prints a JSON value: as it is, or a list of objects as a table of the named columns.
pub(crate) fn rows(value: &Value, columns: &[(&str, &str)], format: OutputFormat) -> Result<(), CliError> {
    if format == OutputFormat::Json {
        return data(&pretty(value));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|(title, _)| title.to_uppercase()));
    for row in value.as_array().map(Vec::as_slice).unwrap_or_default() {
        table.add_row(columns.iter().map(|(_, key)| cell(row.get(*key))));
    }
    let text: Vec<String> =
        table.lines().map(|line| line.trim_end().trim_start_matches(' ').to_owned()).collect();
    data(&text.join("\n"))
}

/// Prints an object: as it is, or one `key  value` line for each entry.
pub(crate) fn object(value: &Value, format: OutputFormat) -> Result<(), CliError> {
    if format == OutputFormat::Json {
        return data(&pretty(value));
    }
    let entries: Vec<(&String, String)> = value
        .as_object()
        .map(|map| map.iter().map(|(key, value)| (key, cell(Some(value)))).collect())
        .unwrap_or_default();
    let width = entries.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let lines: Vec<String> = entries.iter().map(|(key, value)| format!("{key:width$}  {value}")).collect();
    data(&lines.join("\n"))
}

/// Indented JSON.
pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => items.iter().map(|item| cell(Some(item))).collect::<Vec<_>>().join(", "),
        Some(other) => other.to_string(),
    }
}
