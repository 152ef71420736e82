//! The harness of the end-to-end tests: real silo processes on loopback, the real command line, real HTTP.
//!
//! Nothing here sleeps in place of a condition: [`wait_until`] asks until the answer is right, and fails with the
//! last one. Every process is ended by its id when its handle is dropped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test harness fails by panicking"
)]

mod cli;
mod http;
pub mod input;
mod schema;
mod silo;
mod web;

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use cli::{CliOutput, cli, cli_in};
pub use http::{Answer, Http};
pub use schema::validate;
pub use silo::{Cluster, Silo};
pub use web::Web;

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The `granary` binary that `cargo xtask test` built.
#[must_use]
pub fn binary() -> PathBuf {
    let path = target().join("debug/granary");
    assert!(path.is_file(), "{} is missing: run the tests with `cargo xtask test`", path.display());
    path
}

/// An example or fixture component by name.
#[must_use]
pub fn guest(name: &str) -> PathBuf {
    let path = target().join(format!("guests/{name}.wasm"));
    assert!(path.is_file(), "{} is missing: run `cargo xtask guests`", path.display());
    path
}

/// A component written as text, in `tests/fixtures/NAME.wat`.
#[must_use]
pub fn fixture(name: &str) -> Vec<u8> {
    wat::parse_file(root().join(format!("tests/fixtures/{name}.wat"))).unwrap()
}

/// Asks every 10 ms until the answer is `Ok`, at most `within`.
///
/// # Panics
/// Panics with the last answer when the time is up.
#[track_caller]
pub fn wait_until<T, E: Debug>(within: Duration, what: &str, mut ask: impl FnMut() -> Result<T, E>) -> T {
    let started = Instant::now();
    loop {
        match ask() {
            Ok(value) => return value,
            Err(last) if started.elapsed() >= within => {
                panic!("{what}: not within {within:?}; the last answer was {last:?}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
