//! The canonical content hash of a manifest (spec A6): SHA-256 over a fixed byte layout.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::manifest::model::{GrainManifest, Identifier, Properties, Text};

/// The version of the layout, which is part of the input (spec A6.2).
const ENCODING_VERSION: i32 = 2;
/// The length that stands for null (spec A6.4, A6.5).
const NULL_LENGTH: i32 = -1;

/// The canonical hash of a manifest's content. Its text form is 64 upper-case hexadecimal digits (spec A6.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ManifestHash(pub [u8; 32]);

impl fmt::Display for ManifestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl fmt::Debug for ManifestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a manifest hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a manifest hash has 64 upper-case hexadecimal digits, this is {0:?}")]
pub struct ManifestHashError(String);

impl FromStr for ManifestHash {
    type Err = ManifestHashError;

    /// Lower-case digits are refused: equality of the texts is ordinal (spec A6.1).
    fn from_str(text: &str) -> Result<Self, ManifestHashError> {
        let err = || ManifestHashError(text.chars().take(80).collect());
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'A'..=b'F' => Some(byte - b'A' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() {
            return Err(err());
        }
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let [high, low] = pair.map(digit);
            *byte = high.zip(low).map(|(high, low)| high << 4 | low).ok_or_else(err)?;
        }
        Ok(Self(hash))
    }
}

/// The hash of the manifest's canonical form.
pub(super) fn canonical(manifest: &GrainManifest) -> ManifestHash {
    /// Small pieces are gathered, since the digest takes many bytes at once far faster.
    const GATHERED_BYTES: usize = 4_096;

    let mut sha = Sha256::new();
    let mut gathered = Vec::with_capacity(2 * GATHERED_BYTES);
    encode(manifest, ENCODING_VERSION, &mut |bytes| {
        gathered.extend_from_slice(bytes);
        if gathered.len() >= GATHERED_BYTES {
            sha.update(&gathered);
            gathered.clear();
        }
    });
    sha.update(&gathered);
    ManifestHash(sha.finalize().into())
}

/// Writes the layout of spec A6.2 to A6.7; the maps are in the order that it wants.
fn encode(manifest: &GrainManifest, version: i32, put: &mut impl FnMut(&[u8])) {
    put(&version.to_be_bytes());
    section(manifest.grains(), put);
    section(manifest.interfaces(), put);
}

fn section(entries: &BTreeMap<Identifier, Properties>, put: &mut impl FnMut(&[u8])) {
    length(Some(entries.len()), put);
    for (id, properties) in entries {
        length(id.bytes().map(<[u8]>::len), put);
        put(id.bytes().unwrap_or_default());
        length(Some(properties.len()), put);
        for (key, value) in properties {
            text(Some(key), put);
            text(value.as_ref(), put);
        }
    }
}

fn text(text: Option<&Text>, put: &mut impl FnMut(&[u8])) {
    length(text.map(|text| text.units().len()), put);
    const UNITS: usize = 64;
    for units in text.map(Text::units).unwrap_or_default().chunks(UNITS) {
        let mut bytes = [[0; 2]; UNITS];
        for (pair, unit) in bytes.iter_mut().zip(units) {
            *pair = unit.to_be_bytes();
        }
        put(bytes.as_flattened().get(..2 * units.len()).unwrap_or_default());
    }
}

/// Lengths beyond `i32` cannot occur: manifests are bounded far below that wherever they come from.
fn length(length: Option<usize>, put: &mut impl FnMut(&[u8])) {
    let length = length.map_or(NULL_LENGTH, |it| i32::try_from(it).unwrap_or(i32::MAX));
    put(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
