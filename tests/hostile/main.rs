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

/// A case that takes longer hangs. Cases take milliseconds; the machine may be busy.
const CASE_TIME_MAX: Duration = Duration::from_secs(60);

/// The longest text of an error, in bytes.
const ERROR_BYTES_MAX: usize = 4 << 10;
