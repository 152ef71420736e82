//! Builds a JavaScript grain: `npm` into the project's own `node_modules` when it is missing, then componentize-js.
//!
//! The source is `grain.js`, the world `component` of `wit/`, and the component is `NAME.wasm` in the project's
//! folder, after the name in `package.json`. Every command is printed before it runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::super::{CliError, output};
use crate::exit_code;

/// The component tool, where npm puts it.
const TOOL: &str = "node_modules/.bin/componentize-js";

/// Builds the project in a folder, and gives the component.
pub(super) fn build(folder: &Path) -> Result<PathBuf, CliError> {
    let name = name(&folder.join("package.json"))?;
    if !folder.join(TOOL).is_file() {
        let verb = if folder.join("package-lock.json").is_file() { "ci" } else { "install" };
        run(folder, "npm", &[verb, "--no-audit", "--no-fund"])?;
    }
    let component = format!("{name}.wasm");
    // No HTTP: the host has none to give, and the tool would import it.
    let fixed = ["--wit", "wit", "--world-name", "component", "--disable", "http", "fetch-event"];
    let mut arguments = vec![TOOL, "grain.js", "--out", component.as_str()];
    arguments.extend(fixed);
    run(folder, "node", &arguments)?;
    Ok(folder.join(component))
}

/// The project's name, which becomes a file name.
fn name(manifest: &Path) -> Result<String, CliError> {
    let refuse = |what: String| CliError::data(format!("{}: {what}", manifest.display()));
    let text = std::fs::read_to_string(manifest).map_err(|error| refuse(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.starts_with('-') || !name.bytes().all(plain) {
        return Err(refuse(format!("the name {name:?} is not kebab-case, such as shopping-cart")));
    }
    Ok(name.to_owned())
}

/// Runs a command in the folder; its own output goes to standard error.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), CliError> {
    output::note(&format!("running {program} {}", arguments.join(" ")));
    let result = Command::new(program)
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .status();
    match result {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CliError::data(format!("{program} could not build the component: {status}"))),
        Err(error) => Err(CliError::new(
            exit_code::CONFIG,
            format!(
                "cannot run {program}: {error}\ninstall Node.js 20 or newer, with npm (https://nodejs.org)"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_file_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("package.json");
        for (text, good) in [
            (r#"{"name":"shopping-cart"}"#, true),
            (r#"{"name":"../x"}"#, false),
            (r#"{"name":"-x"}"#, false),
            ("{}", false),
            ("[", false),
        ] {
            std::fs::write(&manifest, text).unwrap();
            assert_eq!(name(&manifest).is_ok(), good, "{text}");
        }
    }
}
