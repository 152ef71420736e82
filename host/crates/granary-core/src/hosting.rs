//! The seam between grains and what runs them: a class (deployed component), its instances, and what an
//! instance may ask of its silo. Plain data and three traits; `granary-wasm` implements the first two,
//! `granary-grains` the third and drives the rest.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{ActivationId, Digest, GrainId, GrainType, SiloAddress};

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a call gave no result of its own (decision A8). Retried inside the platform only when provably not
/// delivered. Texts are bounded and escaped before they get here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CallError {
    /// The callee certainly did not start.
    #[error("not delivered: {0}")]
    NotDelivered(String),
    /// The callee may or may not have run.
    #[error("unknown outcome: {0}")]
    UnknownOutcome(String),
    /// A bound was hit; nothing ran.
    #[error("overloaded, retry after {retry_after_ms} ms")]
    Overloaded { retry_after_ms: u32 },
    /// The grain type, interface or method does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// Caller and callee disagree about the method's type.
    #[error("incompatible: {0}")]
    Incompatible(String),
    /// The deadline passed; the callee may have run.
    #[error("timed out")]
    TimedOut,
    /// The callee trapped, or its activation failed.
    #[error("failed: {0}")]
    Failed(String),
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The call would wait for itself; the chain of grains, oldest first, ends with the one called again.
    #[error("deadlock: {}", .0.join(" -> "))]
    Deadlock(Vec<String>),
    /// The silo is not valid and may not run turns.
    #[error("fenced")]
    Fenced,
    /// Silos died of the callee's component, so that no silo runs it; nothing ran.
    #[error("quarantined: {0}")]
    Quarantined(String),
}

/// Why a read or write of persistent state failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StateError {
    /// Somebody else wrote since the state was read; carries the stored etag, if there is a row.
    #[error("etag conflict: the stored etag is {}", .stored.as_deref().unwrap_or("(no row)"))]
    Conflict { stored: Option<String> },
    /// A newer activation of the grain owns the state.
    #[error("fenced: a newer activation owns this state")]
    Fenced,
    /// The value or name is beyond a limit.
    #[error("too large: {0}")]
    TooLarge(String),
    /// The store cannot be reached or failed; a write may have been applied.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

/// A stored state value with its etag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateValue {
    pub value: Vec<u8>,
    pub etag: String,
}

/// Why an activation ends (spec AL-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeactivationReason {
    ShuttingDown,
    ActivationFailed,
    DirectoryFailure,
    Idle,
    Duplicate,
    ApplicationRequested,
    Migrating,
    RuntimeRequested,
    StateConflict,
    Undeployed,
}

/// One method of a grain interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodInfo {
    /// SHA-256 over the resolved structural types (decision A5). In a reference that is only used for one-way
    /// calls it is the hash of the parameters.
    pub hash: Digest,
    /// The hash over the parameters alone, which is what one-way calls carry; never equal to any `hash`.
    pub params_hash: Digest,
    /// Signature in WIT, for people: `func(by: u64) -> u64`.
    pub signature: String,
    /// True when the method returns nothing.
    pub no_result: bool,
}

impl MethodInfo {
    /// Whether a call that carries `hash` fits this method: the whole type, or the parameters of a one-way call.
    #[must_use]
    pub fn accepts(&self, hash: &Digest) -> bool {
        *hash == self.hash || *hash == self.params_hash
    }
}

/// One grain interface that a class exports, or that it calls through a derived package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceInfo {
    /// Without a version: `acme:bank/account` (decision A6).
    pub id: String,
    /// Semver text, `0.0.0` when the package has none.
    pub version: String,
    pub methods: BTreeMap<String, MethodInfo>,
}

/// What a class is and wants; from inspection of the component, overridden by the deployment's properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassInfo {
    pub grain_type: GrainType,
    /// SHA-256 of the component's bytes.
    pub digest: Digest,
    /// The exported grain interfaces, by id.
    pub interfaces: Vec<InterfaceInfo>,
    /// The grain interfaces that it calls (imported derived packages), with the methods that it uses.
    pub references: Vec<InterfaceInfo>,
    /// Exports `granary:grain/lifecycle`.
    pub has_lifecycle: bool,
    /// Exports `granary:grain/migration`.
    pub has_migration: bool,
    /// Runs on the asynchronous engine: some method that it exports is an `async func`. Calls to it
    /// never take the inline path (decision C4).
    pub asynchronous: bool,
    /// Turns of one activation may overlap: the component is asynchronous and its property `reentrant` is set.
    pub reentrant: bool,
    /// All properties, as they go into the manifest.
    pub properties: BTreeMap<String, String>,
    pub limits: Limits,
}

/// Bounds on one activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Linear memory in bytes; default 64 MiB.
    pub memory_bytes_max: u64,
    /// CPU time of one turn; default 1 s.
    pub turn_cpu_max: Duration,
    /// Encoded arguments, and encoded result, in bytes; default 4 MiB each.
    pub value_bytes_max: u32,
    /// Calls waiting for the activation; default 1 000.
    pub mailbox_max: u32,
    /// Idle time until deactivation; `None` never; default 15 min.
    pub idle_age: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 64 << 20,
            turn_cpu_max: Duration::from_secs(1),
            value_bytes_max: 4 << 20,
            mailbox_max: 1_000,
            idle_age: Some(Duration::from_secs(15 * 60)),
        }
    }
}

/// A method, found. Cheap to clone, as each call carries one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MethodRef {
    /// Interface id without version.
    pub interface: Arc<str>,
    pub method: Arc<str>,
    pub hash: Digest,
}

/// A text form of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// A JSON array or object of arguments; a JSON value as result (decision A11).
    Json,
    /// Comma-separated WAVE arguments, without outer parentheses; a WAVE value as result.
    Wave,
}

/// Values that do not fit a method, or a method that is not there. `Display` is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// No such method, or an ambiguous name; the text lists what there is.
    #[error("{0}")]
    Method(String),
    /// The arguments do not fit; `path` is as `$[0].items[3].price`.
    #[error("{path}: {message}")]
    Value { path: String, message: String },
}

/// A deployed component: validated, compiled, linked; cheap to instantiate.
pub trait GrainClass: Send + Sync + Debug {
    fn info(&self) -> &ClassInfo;

    /// Finds a method by `method`, `interface.method` or `ns:pkg/interface.method` (decision A7).
    ///
    /// # Errors
    /// [`ClassError::Method`] when there is none or more than one; the message lists the candidates.
    fn method(&self, name: &str) -> Result<MethodRef, ClassError>;

    /// Encodes arguments given as text.
    ///
    /// # Errors
    /// [`ClassError`] with the path of the first value that does not fit, and the type expected there.
    fn args_from_text(
        &self,
        method: &MethodRef,
        format: TextFormat,
        text: &str,
    ) -> Result<Vec<u8>, ClassError>;

    /// Renders an encoded result as text; JSON `null` or an empty WAVE text for methods without result.
    ///
    /// # Errors
    /// [`ClassError::Value`] when the bytes are not a value of the result's type.
    fn result_to_text(
        &self,
        method: &MethodRef,
        format: TextFormat,
        result: &[u8],
    ) -> Result<String, ClassError>;

    /// Makes an instance for one activation. Runs the component's own start code under the turn's limits.
    fn instantiate(
        &self,
        host: Arc<dyn ActivationHost>,
    ) -> BoxFuture<'_, Result<Box<dyn GrainInstance>, TurnFailure>>;
}

/// What one turn does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Calls a method with encoded arguments; yields the encoded result.
    Invoke { method: MethodRef, args: Vec<u8> },
    /// `lifecycle.activate`; nothing where it is not exported.
    Activate,
    /// `lifecycle.deactivate`; nothing where it is not exported.
    Deactivate(DeactivationReason),
    /// `migration.dehydrate`; yields the bytes.
    Dehydrate,
    /// `migration.rehydrate`.
    Rehydrate(Vec<u8>),
}

/// What a turn inherits from the call that caused it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnContext {
    /// Grains waiting for this turn, oldest first, the running grain last.
    pub chain: Vec<GrainId>,
    /// Time left for the whole call; `None` outside calls.
    pub remaining: Option<Duration>,
    /// Request context, copied along the chain; at most 32 entries, 8 KiB.
    pub request_context: Vec<(String, String)>,
    /// W3C `traceparent`, when the caller sent one.
    pub trace_parent: Option<String>,
}

/// How a turn failed. After [`TurnFailure::Refused`] the instance is sound; after any other it must be dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnFailure {
    /// The guest's own error of `activate`, `dehydrate` or `rehydrate`.
    #[error("{0}")]
    Refused(String),
    /// The arguments do not decode, or the method is not there: nothing ran.
    #[error("{0}")]
    BadRequest(String),
    /// The instance is gone; one line for the caller, the rest went to the log.
    #[error("{message}")]
    Trapped { kind: TrapKind, message: String },
}

/// What ended an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrapKind {
    /// The guest panicked or aborted.
    Panic,
    StackOverflow,
    /// A growth beyond the memory limit, after which the guest gave up.
    OutOfMemory,
    /// The turn used up its CPU budget.
    CpuBudget,
    /// The result is larger than the limit.
    ResultTooLarge,
    /// Anything else that wasmtime reports.
    Other,
}

/// Turns of one activation that overlap, at most; more calls wait in its mailbox.
pub const OVERLAPPING_TURNS_MAX: usize = 64;

/// One live instance. One turn at a time, unless they are run by [`GrainInstance::overlap`]; dropping a pending turn
/// ends the instance.
pub trait GrainInstance: Send {
    /// Begins to run turns beside each other; `None` for all but reentrant classes.
    fn overlap(&mut self) -> Option<Overlap<'_>> {
        None
    }

    /// Runs one turn to its end; `Ok` holds the encoded result, or nothing for the lifecycle turns.
    fn turn(&mut self, turn: Turn, context: TurnContext) -> BoxFuture<'_, Result<Vec<u8>, TurnFailure>>;
}

/// A reentrant instance while its turns overlap.
pub struct Overlap<'a> {
    /// Starts turns. When the last handle is dropped no more turns come.
    pub turns: Arc<dyn OverlappingTurns>,
    /// What makes the turns run: they stand still unless it is polled. It ends when no more turns come and all have
    /// ended, with what they left running; or with the failure that ended the instance. Dropped before, it ends the
    /// instance.
    pub driver: BoxFuture<'a, Result<(), TurnFailure>>,
}

impl Debug for Overlap<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Overlap")
    }
}

/// Starts turns of one reentrant instance beside each other.
pub trait OverlappingTurns: Send + Sync {
    /// Starts the call of a method; at most [`OVERLAPPING_TURNS_MAX`] may run. Dropping the future leaves the turn
    /// running. After a failure other than [`TurnFailure::BadRequest`] the instance is gone, and all turns that still
    /// run fail likewise.
    fn start(
        &self,
        method: MethodRef,
        args: Vec<u8>,
        context: TurnContext,
    ) -> BoxFuture<'static, Result<Vec<u8>, TurnFailure>>;
}

/// Who an activation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivationIdentity {
    pub grain: GrainId,
    pub activation: ActivationId,
    pub silo: SiloAddress,
    pub silo_name: String,
}

/// A call that a grain makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingCall {
    pub to: GrainId,
    pub method: MethodRef,
    pub args: Vec<u8>,
    /// Accepted, not awaited.
    pub one_way: bool,
    /// The context of the calling turn.
    pub context: TurnContext,
}

/// Severity of a guest's log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// Something a grain asks for its own activation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LifecycleRequest {
    /// Deactivate after the running turn.
    DeactivateOnIdle,
    /// Migrate after the running turn, to the named silo or wherever placement says.
    MigrateOnIdle(Option<String>),
    /// Do not deactivate for idleness for this long.
    KeepAlive(Duration),
}

/// What an instance may ask of its silo; one for each activation.
pub trait ActivationHost: Send + Sync + Debug {
    fn identity(&self) -> &ActivationIdentity;

    /// The default grain type of an interface, with `key` (spec A2.10).
    ///
    /// # Errors
    /// `NotFound` when no deployed type implements it, `Incompatible` when several do.
    fn resolve(&self, interface: &str, key: &str) -> Result<GrainId, CallError>;

    /// Calls another grain.
    fn call(&self, call: OutgoingCall) -> BoxFuture<'_, Result<Vec<u8>, CallError>>;

    /// Calls a method by name, arguments and result as JSON text.
    fn call_json<'a>(
        &'a self,
        to: GrainId,
        method: &'a str,
        args: &'a str,
        context: TurnContext,
    ) -> BoxFuture<'a, Result<String, CallError>>;

    fn state_read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<StateValue>, StateError>>;

    /// Writes when the stored etag is `expected` (`None`: no row); returns the new etag, when durable.
    fn state_write<'a>(
        &'a self,
        name: &'a str,
        value: Vec<u8>,
        expected: Option<String>,
    ) -> BoxFuture<'a, Result<String, StateError>>;

    /// Removes the row when the stored etag is `expected`.
    fn state_clear<'a>(
        &'a self,
        name: &'a str,
        expected: Option<String>,
    ) -> BoxFuture<'a, Result<(), StateError>>;

    /// One line of the guest's log, already bounded and escaped.
    fn log(&self, level: LogLevel, target: &str, text: &str);

    fn request(&self, request: LifecycleRequest);
}
