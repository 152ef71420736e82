//! How the test context carries arguments and replies between grains, which may come from different crates with
//! Rust types of their own for one contract: by position, as the platform does.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::types::CallError;

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CallError> {
    postcard::to_stdvec(value).map_err(|error| CallError::Incompatible(format!("cannot be encoded: {error}")))
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CallError> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(|error| {
        CallError::Incompatible(format!("not of type `{}`: {error}", std::any::type_name::<T>()))
    })?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(CallError::Incompatible(format!("not of type `{}`: bytes are left", std::any::type_name::<T>())))
    }
}

/// The arguments of a method, as a tuple.
///
/// # Errors
/// Fails when they are of another type.
pub fn decode_arguments<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CallError> {
    decode(bytes)
}

/// What a method returned.
///
/// # Errors
/// Fails when it cannot be encoded.
pub fn encode_reply<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CallError> {
    encode(value)
}
