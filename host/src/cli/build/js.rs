//! Builds a JavaScript grain: npm into the project's own `node_modules`, then componentize-js.
//!
//! The source is `grain.js`, the world is `component` of `wit/`.

use std::path::Path;

use super::super::CliError;
use super::project::{self, Project};

/// What says that a project is in this language.
pub(super) const MARK: &str = "package.json";

/// The component tool, where npm puts it.
const TOOL: &str = "node_modules/.bin/componentize-js";

/// What to do when a program is missing.
const ADVICE: &str = "install Node.js 20 or newer, with npm (https://nodejs.org)";

/// Builds the component.
pub(super) fn build(folder: &Path, project: &Project) -> Result<(), CliError> {
    project::install_once(folder, &[MARK, "package-lock.json"], "node_modules/.granary-installed", || {
        let verb = if folder.join("package-lock.json").is_file() { "ci" } else { "install" };
        project::run(folder, "npm", &[verb, "--no-audit", "--no-fund"], ADVICE)
    })?;
    let component = project.component();
    // No HTTP: the tool would import it for every grain, and each would need a grant. The tool reads `wit/` in its own
    // folder only.
    let arguments = [
        TOOL,
        "grain.js",
        "--out",
        &component,
        "--wit",
        "wit",
        "--world-name",
        "component",
        "--disable",
        "http",
        "fetch-event",
    ];
    project::run(folder, "node", &arguments, ADVICE)
}
