//! `granary build`: builds a grain project with its language's tools, and checks what came out.

mod js;
mod project;
mod python;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;

use super::{CliError, inspect, output};
use crate::exit_code;

/// The target that grains are compiled for.
const TARGET: &str = "wasm32-wasip2";

/// Build the grain project in this folder, and check the component.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The project's folder.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Build without optimisation (Rust only).
    #[arg(long)]
    debug: bool,
}

pub(crate) fn run(args: &BuildArgs) -> Result<(), CliError> {
    let folder = &args.folder;
    let components = if folder.join("Cargo.toml").is_file() {
        cargo(args)?
    } else if folder.join(js::MARK).is_file() {
        vec![with_tools(folder, js::build)?]
    } else if folder.join(python::MARK).is_file() {
        vec![with_tools(folder, python::build)?]
    } else {
        return Err(CliError::data(format!(
            "{} has neither Cargo.toml nor {} nor {}: run this in a grain project, or make one with `granary new NAME`",
            folder.display(),
            js::MARK,
            python::MARK,
        )));
    };
    if components.is_empty() {
        return Err(CliError::data(
            "the build made no component: the library needs crate-type = [\"cdylib\"] in Cargo.toml",
        ));
    }
    for component in components {
        let inspection = inspect::read(&component)?;
        output::note(&inspect::text(&inspection)?);
        output::data(&display(&component))?;
    }
    Ok(())
}

/// Builds a project whose tools know nothing of grains, and gives the component.
fn with_tools(
    folder: &Path,
    build: fn(&Path, &project::Project) -> Result<(), CliError>,
) -> Result<PathBuf, CliError> {
    let project = project::Project::read(folder)?;
    project.write_packages(folder)?;
    build(folder, &project)?;
    let component = folder.join(project.component());
    project.state_properties(&component)?;
    Ok(component)
}

/// Runs cargo, and gives the components that it made.
fn cargo(args: &BuildArgs) -> Result<Vec<PathBuf>, CliError> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(&args.folder)
        .args(["build", "--target", TARGET, "--message-format", "json-render-diagnostics"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if !args.debug {
        command.arg("--release");
    }
    let result = command.output().map_err(|error| {
        CliError::new(
            exit_code::CONFIG,
            format!("cannot run cargo: {error}\ninstall Rust (https://rustup.rs) and the target: rustup target add {TARGET}"),
        )
    })?;
    if !result.status.success() {
        return Err(CliError::data(format!(
            "cargo could not build the component (is the target there? rustup target add {TARGET})"
        )));
    }
    let made = result
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter(|message| message.get("reason").and_then(Value::as_str) == Some("compiler-artifact"))
        .flat_map(|message| message.get("filenames").and_then(Value::as_array).cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .filter(|file| {
            file.extension().is_some_and(|extension| extension == "wasm")
                && file.parent().is_none_or(|folder| folder.file_name().is_none_or(|name| name != "deps"))
        })
        .collect();
    Ok(made)
}

/// A path as one would type it here.
fn display(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).or_else(|_| path.strip_prefix(".")).unwrap_or(path).display().to_string()
}
