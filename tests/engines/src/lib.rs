//! Store servers for tests: real PostgreSQL and NATS servers, each with a port and a directory of its own.
//!
//! A server is started by the test that needs it and ended when its handle is dropped, also by a panic; where the
//! test's process is killed, the system ends the server with the thread that started it. So a server is started from
//! the test's own thread, and lives as long as the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test harness fails by panicking"
)]

mod nats;
mod port;
mod postgres;
mod process;

pub use nats::{Nats, NatsRelease};
pub use postgres::Postgres;

/// The user of every server.
pub const USER: &str = "granary";

/// That user's password; a text that an error must never show is easy to look for.
pub const PASSWORD: &str = "p4ssw0rd-of-the-tests";
