//! End-to-end tests: what a user does, with real processes and components. One binary, so that it links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_collect,
    reason = "helpers of tests fail by panicking, and collecting threads starts them"
)]

mod bad_components;
mod bad_requests;
mod bank;
mod concurrent;
mod denied;
mod dev;
mod doctor;
mod evil;
mod first_steps;
mod grants;
mod hostile_input;
mod languages;
mod manifest;
mod migrate;
mod neighbours;
mod new_project;
mod openapi;
mod presence;
mod quarantine;
mod security;
mod silo_life;
mod stores;
mod tls;
mod top;
mod values;
