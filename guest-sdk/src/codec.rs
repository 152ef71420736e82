//! How state and carried memory are written: a version byte, then CBOR.
//!
//! CBOR names its fields, so that a struct may gain fields (`#[serde(default)]`) and lose them; and unlike JSON
//! it keeps maps with any kind of key, bytes, and every float. As in JSON, `Some(None)` and `None` are one.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first byte: CBOR follows.
const FORMAT_CBOR: u8 = 1;

/// Writes a value.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, String> {
    let mut bytes = vec![FORMAT_CBOR];
    ciborium::into_writer(value, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Reads a value that [`encode`] wrote.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match bytes.split_first() {
        Some((&FORMAT_CBOR, body)) => ciborium::from_reader(body).map_err(|error| match error {
            ciborium::de::Error::Semantic(_, message) => message,
            other => other.to_string(),
        }),
        Some((format, _)) => {
            Err(format!("it is of format {format}, and this version of the SDK knows format {FORMAT_CBOR}"))
        }
        None => Err("it is empty".to_owned()),
    }
}

/// The memory of a grain, to be carried to another silo.
///
/// # Errors
/// Fails when the grain's `Serialize` does.
pub fn write_memory<T: Serialize>(grain: &T) -> Result<Vec<u8>, String> {
    encode(grain).map_err(|error| format!("the grain's memory cannot be written: {error}"))
}

/// A grain from carried memory.
///
/// # Errors
/// Fails when the bytes do not fit the struct.
pub fn read_memory<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    decode(bytes).map_err(|error| format!("the carried memory cannot be read: {error}"))
}

/// Flags travel as their bits; bits without a name are refused.
///
/// # Errors
/// Fails when `flags` is `None`.
pub fn flags_from_bits<F, E: serde::de::Error>(flags: Option<F>) -> Result<F, E> {
    flags.ok_or_else(|| E::custom("a flag is set that the contract does not name"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Serialize)]
    struct Old {
        kept: u64,
        gone: String,
    }

    #[derive(Deserialize)]
    struct New {
        kept: u64,
        #[serde(default)]
        added: Vec<u8>,
    }

    #[test]
    fn a_struct_may_gain_and_lose_fields() {
        let bytes = encode(&Old { kept: 7, gone: "x".to_owned() }).unwrap();
        let new: New = decode(&bytes).unwrap();
        assert_eq!((new.kept, new.added.len()), (7, 0));
    }

    #[test]
    fn what_json_loses_is_kept() {
        let value = (f64::INFINITY, BTreeMap::from([((1_u8, true), "pair")]), u64::MAX);
        let read: (f64, BTreeMap<(u8, bool), String>, u64) = decode(&encode(&value).unwrap()).unwrap();
        assert_eq!(read, (f64::INFINITY, BTreeMap::from([((1, true), "pair".to_owned())]), u64::MAX));
    }

    #[test]
    fn other_formats_are_named() {
        assert_eq!(
            decode::<u64>(&[9, 0]).unwrap_err(),
            "it is of format 9, and this version of the SDK knows format 1"
        );
        assert_eq!(decode::<u64>(&[]).unwrap_err(), "it is empty");
        assert!(decode::<u64>(&[FORMAT_CBOR, 0x61, 0x78]).unwrap_err().contains("expected"));
    }
}
