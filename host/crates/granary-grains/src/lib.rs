//! Grains on one silo: catalog, activations, turns, calls, migration.
//!
//! [`Grains`] is the whole of it. It runs grain classes and instances through the traits of
//! `granary_core::hosting`, and reaches the rest of the silo only through the traits of [`seams`]: the directory,
//! the other silos, the deployed types, the state store and the log.
//!
//! Invariants:
//! - There is at most one activation of a grain in the catalog, and one task that owns its instance; while it is idle,
//!   the task lends the instance to at most one turn on a caller's task (`inline`).
//! - No user code runs before the directory names the activation (spec B4.1).
//! - An activation runs one turn at a time, calls in the order of their arrival.
//! - A turn that started is driven to its end, whatever happens to its caller; only the end of the silo drops it.
//! - A call is delivered again only when it provably did not start.
//! - A migrating activation runs again only when the directory says that it was not moved (decision B10).

mod activation;
mod catalog;
mod cycles;
mod drain;
mod grains;
mod host;
mod inline;
mod invoke;
mod location_cache;
mod metrics;
mod migration;
mod options;
mod placement;
mod random;
pub mod seams;
mod state;
mod turns;
mod validity;

#[cfg(test)]
mod tests;

pub use activation::{ActivationState, ActivationSummary};
pub use drain::DrainReport;
pub use grains::{DeactivateOutcome, Grains};
pub use invoke::text::CallTextError;
pub use metrics::MetricsSnapshot;
pub use migration::{MigrateError, MigrateTarget, MigrationReport};
pub use options::{CALL_TIMEOUT_MAX, EVENT_INTERVAL, FORWARDS_MAX, GLOBAL_QUEUE_INTERVAL, GrainsOptions};
pub use seams::{
    Directory, DirectoryError, LogSink, MoveOutcome, PeerError, Peers, Seams, ThawOutcome, Types,
};
pub use validity::Validity;
