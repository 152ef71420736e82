//! The store as bytes: in WebAssembly the host's, natively the test context's.

use super::StateError;

/// A stored value and its etag.
pub(super) type Stored = (Vec<u8>, String);

pub(super) fn read(name: &str) -> Result<Option<Stored>, StateError> {
    #[cfg(target_family = "wasm")]
    return match crate::bindings::state::read(name) {
        Ok(stored) => Ok(stored.map(|it| (it.value, it.etag))),
        Err(error) => Err(error.into()),
    };
    #[cfg(not(target_family = "wasm"))]
    crate::testing::env::read_state(name)
}

pub(super) fn write(name: &str, value: &[u8], expected: Option<&str>) -> Result<String, StateError> {
    #[cfg(target_family = "wasm")]
    return crate::bindings::state::write(name, value, expected).map_err(Into::into);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::env::write_state(name, value, expected)
}

pub(super) fn clear(name: &str, expected: Option<&str>) -> Result<(), StateError> {
    #[cfg(target_family = "wasm")]
    return crate::bindings::state::clear(name, expected).map_err(Into::into);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::env::clear_state(name, expected)
}

impl From<crate::bindings::state::StateError> for StateError {
    fn from(error: crate::bindings::state::StateError) -> Self {
        use crate::bindings::state::StateError as Host;

        match error {
            Host::Conflict(etag) => Self::Conflict(etag),
            Host::Fenced => Self::Fenced,
            Host::TooLarge(what) => Self::TooLarge(what),
            Host::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}
