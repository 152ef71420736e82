//! Builds a Python grain: a virtual environment in the project's `.venv`, pip into it, then componentize-py.
//!
//! The source is the module `grain`, the world is `component` of `wit/`.

use std::path::Path;

use super::super::CliError;
use super::project::{self, Project};

/// What says that a project is in this language.
pub(super) const MARK: &str = "requirements.txt";

/// The interpreter of the project's environment.
const PYTHON: &str = ".venv/bin/python";

/// The component tool, where pip puts it.
const TOOL: &str = ".venv/bin/componentize-py";

/// What to do when a program is missing.
const ADVICE: &str =
    "install Python 3.10 or newer with venv and pip (on Debian: apt-get install python3-venv)";

/// Builds the component.
pub(super) fn build(folder: &Path, project: &Project) -> Result<(), CliError> {
    project::install_once(folder, &[MARK], ".venv/granary-installed", || {
        project::run(folder, "python3", &["-m", "venv", ".venv"], ADVICE)?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", MARK];
        run_own(folder, PYTHON, &pip)
    })?;
    let component = project.component();
    let arguments = ["-d", "wit", "-w", "component", "componentize", "grain", "-o", &component];
    run_own(folder, TOOL, &arguments)
}

/// Runs a program of the environment: a relative path would be taken from the folder of the caller.
fn run_own(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), CliError> {
    let path = std::path::absolute(folder.join(program))
        .map_err(|error| CliError::data(format!("{}: {error}", folder.display())))?;
    project::run(folder, &path.to_string_lossy(), arguments, ADVICE)
}
