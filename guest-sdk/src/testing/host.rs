//! What `granary_guest::context` answers natively: for the grain whose turn runs.

use crate::types::GrainRef;

use super::env::{self, Request};

/// The name of the test context's silo.
const SILO_NAME: &str = "test";

pub(crate) fn self_ref() -> GrainRef {
    env::or_panic(env::running_grain().ok_or(OUTSIDE), "no grain")
}

pub(crate) fn activation_id() -> String {
    env::or_panic(env::running_activation().ok_or(OUTSIDE), "no activation")
}

pub(crate) fn silo() -> String {
    SILO_NAME.to_owned()
}

pub(crate) fn remaining_ms() -> Option<u64> {
    None
}

pub(crate) fn request_value(key: &str) -> Option<String> {
    env::request_value(key)
}

pub(crate) fn deactivate_on_idle() {
    env::request(Request::Deactivate);
}

pub(crate) fn migrate_on_idle(_silo: Option<&str>) {
    env::request(Request::Migrate);
}

pub(crate) fn keep_alive(_ms: u64) {}

const OUTSIDE: &str = "the context belongs to a turn of a grain: run it by `Handle::call` of a `TestContext`";
