//! The child's side of a compilation: limits itself, reads a component, writes native code, ends.
//!
//! It has no key and no environment but its limits; its only input is the component, its only output one file.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit};

use crate::engine::{EngineConfig, EngineVariant, compiling_engine};
use crate::inspect::COMPONENT_BYTES_MAX;

/// The file that the artifact is written to; it must not exist yet.
pub(super) const ENV_OUTPUT: &str = "GRANARY_COMPILE_OUTPUT";

/// The name of the engine's variant that the code is for; the synchronous one when it is not given.
pub(super) const ENV_VARIANT: &str = "GRANARY_COMPILE_VARIANT";

/// The size of the artifact that the child allows itself, in bytes.
pub(super) const ENV_OUTPUT_BYTES: &str = "GRANARY_COMPILE_OUTPUT_BYTES";

/// CPU seconds that the child allows itself.
pub(super) const ENV_CPU_SECONDS: &str = "GRANARY_COMPILE_CPU_SECONDS";

/// Address space that the child allows itself, in bytes.
pub(super) const ENV_MEMORY_BYTES: &str = "GRANARY_COMPILE_MEMORY_BYTES";

/// Threads that compile at once.
pub(super) const THREADS_MAX: u64 = 4;

/// Exit code when the component is at fault (`EX_DATAERR`).
pub(super) const EXIT_REFUSED: u8 = 65;

/// Exit code when the child itself is.
const EXIT_FAILED: u8 = 70;

/// How much the child gives way to serving processes: about a third of an equal share, so that it still ends in
/// time on a machine that is busy.
const NICENESS: i32 = 5;

/// Compiles the component on standard input to the file that the environment names; for the program that
/// [`super::CompileCommand`] names. Call it before anything else in the process: it sets limits on all of it.
#[must_use]
pub fn child_main() -> ExitCode {
    ExitCode::from(compile())
}

/// The exit code.
pub(super) fn compile() -> u8 {
    match run() {
        Ok(()) => 0,
        Err((code, message)) => {
            // Nobody reads it when the parent is gone.
            let _ = writeln!(io::stderr(), "{message}");
            code
        }
    }
}

fn run() -> Result<(), (u8, String)> {
    let failed = |what: &str, error: &dyn std::fmt::Display| (EXIT_FAILED, format!("{what}: {error}"));
    limit(Resource::Cpu, ENV_CPU_SECONDS).map_err(|error| failed("the CPU limit", &error))?;
    limit(Resource::As, ENV_MEMORY_BYTES).map_err(|error| failed("the memory limit", &error))?;
    limit(Resource::Fsize, ENV_OUTPUT_BYTES).map_err(|error| failed("the output limit", &error))?;
    // Where the priority cannot be lowered, compiling is only less polite.
    let _ = rustix::process::nice(NICENESS);

    let mut component = Vec::new();
    io::stdin()
        .take(COMPONENT_BYTES_MAX + 1)
        .read_to_end(&mut component)
        .map_err(|error| failed("reading the component", &error))?;
    let variant = variant().map_err(|error| failed("the engine's variant", &error))?;
    let engine = compiling_engine(&EngineConfig::default(), variant)
        .map_err(|error| failed("making an engine", &error))?;
    let artifact =
        engine.precompile_component(&component).map_err(|error| (EXIT_REFUSED, format!("{error:#}")))?;
    let path = std::env::var_os(ENV_OUTPUT)
        .ok_or_else(|| failed("the output file", &format!("{ENV_OUTPUT} is not set")))?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(&artifact))
        .map_err(|error| failed("writing the artifact", &error))
}

/// The variant that the environment names.
fn variant() -> io::Result<EngineVariant> {
    let Ok(name) = std::env::var(ENV_VARIANT) else { return Ok(EngineVariant::PLAIN) };
    EngineVariant::from_name(&name).ok_or_else(|| io::Error::other(format!("{ENV_VARIANT} is {name:?}")))
}

/// Applies the limit that the environment gives; none when it gives none (a call by hand).
fn limit(resource: Resource, variable: &str) -> io::Result<()> {
    let Ok(text) = std::env::var(variable) else { return Ok(()) };
    let value: u64 = text.parse().map_err(|_| io::Error::other(format!("{variable} is not a number")))?;
    let limit = Rlimit { current: Some(value), maximum: Some(value) };
    rustix::process::setrlimit(resource, limit).map_err(io::Error::from)
}
