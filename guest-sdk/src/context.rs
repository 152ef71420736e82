//! Who and where the running activation is, and what it may ask for itself.
//!
//! Natively these functions answer for the grain whose turn the test context runs, and panic outside a turn.

use std::time::Duration;

use crate::types::GrainRef;

#[cfg(target_family = "wasm")]
use crate::bindings::context as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::host;

/// The grain's own reference.
#[must_use]
pub fn self_ref() -> GrainRef {
    host::self_ref()
}

/// The grain's own key.
#[must_use]
pub fn key() -> String {
    self_ref().key
}

/// The id of this activation: 32 hexadecimal digits, new for each activation.
#[must_use]
pub fn activation_id() -> String {
    host::activation_id()
}

/// The name of the silo that runs this activation.
#[must_use]
pub fn silo() -> String {
    host::silo()
}

/// The time that is left for the running call; `None` outside a call.
#[must_use]
pub fn remaining() -> Option<Duration> {
    host::remaining_ms().map(Duration::from_millis)
}

/// A value of the request context, which travels along the chain of calls.
#[must_use]
pub fn request_value(key: &str) -> Option<String> {
    host::request_value(key)
}

/// Deactivates after the running turn.
pub fn deactivate_on_idle() {
    host::deactivate_on_idle();
}

/// Moves the activation after the running turn: to the named silo, or to one that placement chooses.
pub fn migrate_on_idle(silo: Option<&str>) {
    host::migrate_on_idle(silo);
}

/// Keeps the activation from being deactivated for idleness for this time; zero takes it back.
pub fn keep_alive(time: Duration) {
    host::keep_alive(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
}
