//! The parent's side of a compilation: starts the child, feeds it, and ends it in time.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::{ARTIFACT_BYTES_MAX, COMPILE_MEMORY_BYTES_MAX, CompileCommand, CompileError, child};
use crate::engine::EngineVariant;

/// How much of the child's complaint is kept, in bytes.
const ERROR_BYTES_MAX: u64 = 4 << 10;

/// Compiles to the file `output` in a child process that lives no longer than `time_max`, or than this future.
pub(super) async fn compile(
    command: &CompileCommand,
    component: &[u8],
    variant: EngineVariant,
    output: &Path,
    time_max: Duration,
) -> Result<(), CompileError> {
    let mut child = start(command, variant, output, time_max)?;
    let outcome = tokio::time::timeout(time_max, converse(&mut child, component)).await;
    match outcome {
        Ok(result) => result,
        Err(_) => {
            // Also reaps it. `kill_on_drop` covers the case that this future is dropped.
            if let Err(error) = child.kill().await {
                tracing::warn!(%error, "the compiling process could not be killed");
            }
            Err(CompileError::GivenUp(format!(
                "it took more than {} s for {} KiB",
                time_max.as_secs(),
                component.len() >> 10
            )))
        }
    }
}

fn start(
    command: &CompileCommand,
    variant: EngineVariant,
    output: &Path,
    time_max: Duration,
) -> Result<Child, CompileError> {
    // Threads use CPU side by side, so that the CPU bound is the wall bound for each of them.
    let cpu_seconds = time_max.as_secs().saturating_mul(child::THREADS_MAX);
    Command::new(&command.program)
        .args(&command.args)
        .env_clear()
        .env(child::ENV_OUTPUT, output)
        .env(child::ENV_VARIANT, variant.name())
        .env(child::ENV_CPU_SECONDS, cpu_seconds.to_string())
        .env(child::ENV_MEMORY_BYTES, COMPILE_MEMORY_BYTES_MAX.to_string())
        .env(child::ENV_OUTPUT_BYTES, ARTIFACT_BYTES_MAX.to_string())
        // wasmtime compiles on a pool of threads; each one reserves stack and heap out of the memory bound.
        .env("RAYON_NUM_THREADS", child::THREADS_MAX.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| CompileError::Start { program: command.program.clone(), source })
}

async fn converse(child: &mut Child, component: &[u8]) -> Result<(), CompileError> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A child that ends early closes the pipe; its exit status and text say more than this error.
            let _ = stdin.write_all(component).await;
            let _ = stdin.shutdown().await;
        }
    };
    let ((), complaint) = tokio::join!(feed, read(stderr, ERROR_BYTES_MAX));
    let status = child.wait().await.map_err(|error| CompileError::GivenUp(error.to_string()))?;
    let complaint = crate::text::first_line(&String::from_utf8_lossy(&complaint));
    match status.code() {
        Some(0) => Ok(()),
        Some(code) if code == i32::from(child::EXIT_REFUSED) => Err(CompileError::Refused(complaint)),
        _ => Err(CompileError::GivenUp(format!("the compiling process ended with {status}: {complaint}"))),
    }
}

/// Reads to the end, keeps the first `bytes_max`.
async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes_max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before an error is all there is to report.
        let _ = (&mut pipe).take(bytes_max).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    bytes
}
