//! Compiles components to native code in a bounded child process, and keeps the result (decision C5).
//!
//! A component is untrusted input, and compiling it is the largest program that it can make a silo run: so it
//! runs in a process of its own, with limits on time, CPU and memory, at a low priority. What comes back is
//! native code; the parent authenticates it with a key of the host which the child never sees, and loads only
//! what carries that authentication. Silos that share a cache directory compile a component once.

mod cache;
mod child;
mod load;
mod process;

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use granary_core::id::Digest;
use tokio::time::Instant;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::engine::{EngineVariant, WasmEngine};

pub use child::child_main;

use cache::{Cache, HostKey};

/// Wall time that a compilation may always take.
pub const COMPILE_TIME_BASE: Duration = Duration::from_secs(30);

/// Wall time that is added for each MiB of component.
pub const COMPILE_TIME_PER_MIB: Duration = Duration::from_secs(10);

/// Address space of the compiling process, in bytes.
pub const COMPILE_MEMORY_BYTES_MAX: u64 = 3 << 30;

/// The largest compiled artifact that is accepted, in bytes.
const ARTIFACT_BYTES_MAX: u64 = 512 << 20;

/// How often a waiting silo looks whether another one has finished compiling the same component.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The program that compiles: it must end up in [`child_main`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileCommand {
    /// The executable; for the `granary` binary its own path.
    pub program: PathBuf,
    /// What makes it call [`child_main`]; for the `granary` binary `compile-component`.
    pub args: Vec<OsString>,
}

impl CompileCommand {
    /// The running executable with the argument `compile-component`.
    ///
    /// # Errors
    /// Fails when the system does not tell the executable's path.
    pub fn current_exe() -> io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, args: vec!["compile-component".into()] })
    }
}

/// Where compiled code is kept and how it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerConfig {
    /// Compiled artifacts; may be shared by the silos of one host.
    pub cache_dir: PathBuf,
    /// The host's key; made with mode 0600 when it is not there.
    pub key_file: PathBuf,
    /// The compiling program.
    pub command: CompileCommand,
}

/// A component did not become native code.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler does not accept the component.
    #[error("the compiler refused the component: {0}")]
    Refused(String),
    /// It took too long, was killed, or ended without a result.
    #[error("compiling was given up: {0}")]
    GivenUp(String),
    /// The compiling program could not be run.
    #[error("{} could not be run as the compiler", program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The cache directory or the key cannot be used.
    #[error("{} cannot be used", path.display())]
    Cache {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The artifact is not for this engine, which means that the compiling program is another version.
    #[error(
        "the compiled code does not fit this silo's engine (is the compiling program of the same version?): {0}"
    )]
    Foreign(String),
}

impl CompileError {
    fn cache(path: &Path, source: io::Error) -> Self {
        Self::Cache { path: path.to_owned(), source }
    }
}

/// Turns components into native code.
#[derive(Debug)]
pub struct Compiler {
    command: CompileCommand,
    targets: [Arc<Target>; 4],
}

/// One of the engines, with the code that was compiled for it.
struct Target {
    variant: EngineVariant,
    engine: Engine,
    cache: Cache,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("variant", &self.variant).finish_non_exhaustive()
    }
}

/// How long compiling `bytes` of component may take.
fn compile_time_max(bytes: usize) -> Duration {
    let mib = u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX);
    COMPILE_TIME_BASE.saturating_add(COMPILE_TIME_PER_MIB.saturating_mul(mib))
}

impl Compiler {
    /// Opens the cache; makes the directory and the host's key where they are missing.
    ///
    /// # Errors
    /// [`CompileError::Cache`] when the directory or the key cannot be made or read.
    pub fn open(engine: &WasmEngine, config: &CompilerConfig) -> Result<Self, CompileError> {
        std::fs::create_dir_all(&config.cache_dir)
            .map_err(|error| CompileError::cache(&config.cache_dir, error))?;
        let key = HostKey::load_or_create(&config.key_file)
            .map_err(|error| CompileError::cache(&config.key_file, error))?;
        let target = |variant| {
            let engine = engine.of(variant).clone();
            let compatibility = cache::compatibility(&engine, variant);
            let cache = Cache::new(config.cache_dir.clone(), compatibility, key.clone());
            Arc::new(Target { variant, engine, cache })
        };
        Ok(Self { command: config.command.clone(), targets: EngineVariant::ALL.map(target) })
    }

    fn target(&self, variant: EngineVariant) -> &Arc<Target> {
        variant.pick(&self.targets)
    }

    /// The native code of a component for an engine, from the cache or freshly compiled. Dropping the future kills
    /// the compiling process; the next call starts over.
    ///
    /// # Errors
    /// [`CompileError`]; nothing is cached then.
    pub async fn compile(&self, bytes: &[u8], variant: EngineVariant) -> Result<Component, CompileError> {
        let target = self.target(variant);
        let digest = Digest::of(bytes);
        let time_max = compile_time_max(bytes.len());
        if let Some(component) = target.load(digest).await? {
            return Ok(component);
        }
        let lock = target.lock(digest, time_max).await?;
        // Another silo may have finished while this one waited for the lock.
        if let Some(component) = target.load(digest).await? {
            return Ok(component);
        }
        let started = Instant::now();
        let output = target.cache.output_path(digest);
        // Left by a silo that died while it compiled; this one holds the lock now.
        let _ = std::fs::remove_file(&output);
        let compiled = process::compile(&self.command, bytes, variant, &output, time_max).await;
        let artifact = compiled
            .and_then(|()| cache::read_bounded(&output).map_err(|error| CompileError::cache(&output, error)));
        let _ = std::fs::remove_file(&output);
        let artifact = artifact?;
        tracing::info!(
            digest = %digest.short(),
            component_bytes = bytes.len(),
            artifact_bytes = artifact.len(),
            elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            engine = variant.name(),
            "compiled a component"
        );
        let target = Arc::clone(target);
        blocking(move || {
            let component = load::component(&target.engine, &artifact)
                .map_err(|error| CompileError::Foreign(crate::text::first_line(&format!("{error:#}"))))?;
            if let Err(error) = target.cache.store(digest, &artifact) {
                // The code is there; a full disk only makes the next start slower.
                tracing::warn!(digest = %digest.short(), %error, "compiled code was not cached");
            }
            drop(lock);
            Ok(component)
        })
        .await
    }
}

impl Target {
    /// A cached artifact; `None` when there is none that is sound.
    async fn load(self: &Arc<Self>, digest: Digest) -> Result<Option<Component>, CompileError> {
        let target = Arc::clone(self);
        blocking(move || {
            let artifact = match target.cache.load(digest) {
                Ok(Some(artifact)) => artifact,
                Ok(None) => return Ok(None),
                Err(reason) => {
                    tracing::warn!(digest = %digest.short(), %reason, "a cached artifact is unusable and is made again");
                    return Ok(None);
                }
            };
            match load::component(&target.engine, &artifact) {
                Ok(component) => Ok(Some(component)),
                Err(error) => {
                    tracing::warn!(digest = %digest.short(), %error, "a cached artifact does not load and is made again");
                    Ok(None)
                }
            }
        })
        .await
    }

    /// The host-wide right to compile this component.
    async fn lock(&self, digest: Digest, time_max: Duration) -> Result<File, CompileError> {
        let path = self.cache.lock_path(digest);
        let error = |source| CompileError::cache(&path, source);
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(error)?;
        // Twice the bound: the holder's time, and one more holder's before this one.
        let deadline = Instant::now() + time_max.saturating_mul(2);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    tokio::time::sleep(LOCK_POLL).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(CompileError::GivenUp(
                        "another process has been compiling the same component for too long".to_owned(),
                    ));
                }
                Err(TryLockError::Error(source)) => return Err(error(source)),
            }
        }
    }
}

/// Runs file and hash work where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CompileError> + Send + 'static,
) -> Result<T, CompileError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(CompileError::GivenUp(format!("the loading task ended early: {error}"))))
}

#[cfg(test)]
mod tests;
