//! Hostile input against the decoders and the inspection of components, in this process: nothing panics, nothing
//! hangs, and every refusal is a typed error of bounded length.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking, and print their counts"
)]

mod corpus;
mod decoders;
mod registry;

use std::time::Duration;

/// The time that one case may take.
const CASE_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest text of an error, in bytes.
const ERROR_BYTES_MAX: usize = 4 << 10;
