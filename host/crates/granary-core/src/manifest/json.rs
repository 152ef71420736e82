//! The manifest as JSON, the form that `granary manifest hash` reads:
//! `{"grains": [[ID, {KEY: VALUE…}]…], "interfaces": [[ID, {…}]…]}`.
//!
//! ID is `null`, a string (its UTF-8 bytes) or `{"hex": "8000"}`; KEY is a string; VALUE is `null` or a string.
//! KEY and VALUE are UTF-16, so a lone `"\ud800"` is that one code unit. Both sections are required, so that a
//! hash is never given for half a manifest; the same id or key twice is an error, in whatever spelling.
//!
//! The reader is our own because the usual ones either refuse lone surrogates or let the last of two equal keys
//! win. It accepts exactly RFC 8259's grammar for this one shape, and never recurses.

mod reader;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::manifest::json::reader::Reader;
use crate::manifest::model::{GrainManifest, Identifier, Properties, Text};

/// The largest text that is read, in bytes.
pub const MANIFEST_JSON_BYTES_MAX: usize = 64 << 20;

/// So many characters of an id are shown in an error.
const SHOWN_ID_CHARS_MAX: usize = 200;

/// Why a text is not a manifest, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}, at {path}: {problem}")]
pub struct ManifestJsonError {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// The place in the document, such as `grains[0][1]."key"`; `the top` for the document itself.
    pub path: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// Reads a manifest.
///
/// # Errors
/// Fails when the text is too long, not UTF-8, not JSON, or of another shape, and when an id or key occurs twice.
pub fn from_json(text: &[u8]) -> Result<GrainManifest, ManifestJsonError> {
    let mut reader = Reader::new(text)?;
    let (mut grains, mut interfaces) = (None, None);
    reader.object("a manifest, which is an object", |reader, key| {
        let slot = match String::from_utf16(key.units()).as_deref() {
            Ok("grains") => &mut grains,
            Ok("interfaces") => &mut interfaces,
            _ => return Err(reader.wrong_key(key, "the sections are \"grains\" and \"interfaces\"")),
        };
        if slot.is_some() {
            return Err(reader.wrong_key(key, "this section occurs twice"));
        }
        *slot = Some(section(reader)?);
        Ok(())
    })?;
    reader.end()?;
    let missing = |reader: &Reader<'_>, name: &str| {
        reader.error(format!(
            "the section \"{name}\" is missing; write \"{name}\": [] if there is nothing in it"
        ))
    };
    let grains = grains.ok_or_else(|| missing(&reader, "grains"))?;
    let interfaces = interfaces.ok_or_else(|| missing(&reader, "interfaces"))?;
    Ok(GrainManifest::new(grains, interfaces))
}

fn section(reader: &mut Reader<'_>) -> Result<BTreeMap<Identifier, Properties>, ManifestJsonError> {
    const ENTRY: &str = "an entry, which is an array [ID, {KEY: VALUE}]";
    let mut entries = BTreeMap::new();
    reader.array("a section, which is an array of entries", |reader, _| {
        let mut id = None;
        let mut properties = None;
        reader.array(ENTRY, |reader, index| {
            match index {
                0 => {
                    let found = identifier(reader)?;
                    if entries.contains_key(&found) {
                        let shown: String = found.to_string().chars().take(SHOWN_ID_CHARS_MAX).collect();
                        return Err(reader.error(format!("the id {shown} occurs twice in this section")));
                    }
                    id = Some(found);
                }
                1 => properties = Some(properties_of(reader)?),
                _ => return Err(reader.error(format!("expected {ENTRY}, found a third element"))),
            }
            Ok(())
        })?;
        let (Some(id), Some(properties)) = (id, properties) else {
            return Err(reader.error(format!("expected {ENTRY}, found fewer than two elements")));
        };
        entries.insert(id, properties);
        Ok(())
    })?;
    Ok(entries)
}

fn identifier(reader: &mut Reader<'_>) -> Result<Identifier, ManifestJsonError> {
    const ID: &str = "an id, which is null, a string or {\"hex\": DIGITS}";
    if reader.null()? {
        return Ok(Identifier::NULL);
    }
    if reader.at_string() {
        let text = reader.string(ID)?;
        return String::from_utf16(text.units()).map(|text| Identifier::new(text.into_bytes())).map_err(|_| {
            reader.error_before("an id is bytes, and this string has a lone surrogate, which UTF-8 has no bytes for; write the bytes as {\"hex\": DIGITS}")
        });
    }
    let mut bytes = None;
    reader.object(ID, |reader, key| {
        if *key != *"hex" || bytes.is_some() {
            return Err(reader.wrong_key(key, "an id's object has the one key \"hex\""));
        }
        let digits = reader.string("a string of hexadecimal digits")?;
        let decoded = decode_hex(digits.units());
        bytes = Some(decoded.ok_or_else(|| {
            reader.error_before("\"hex\" has an even number of hexadecimal digits and nothing else")
        })?);
        Ok(())
    })?;
    bytes.map(Identifier::new).ok_or_else(|| reader.error("an id's object has the one key \"hex\"".into()))
}

fn decode_hex(units: &[u16]) -> Option<Vec<u8>> {
    let digit = |unit: u16| char::from_u32(unit.into()).and_then(|c| c.to_digit(16));
    let (pairs, rest) = units.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let byte = |[high, low]: &[u16; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    pairs.iter().map(byte).collect()
}

fn properties_of(reader: &mut Reader<'_>) -> Result<Properties, ManifestJsonError> {
    let mut properties = Properties::new();
    reader.object("properties, which are an object", |reader, key| {
        if properties.contains_key(key) {
            return Err(reader.wrong_key(key, "this key occurs twice in these properties"));
        }
        let value =
            if reader.null()? { None } else { Some(reader.string("a value, which is null or a string")?) };
        properties.insert(key.clone(), value);
        Ok(())
    })?;
    Ok(properties)
}

/// Writes a manifest in the form that [`from_json`] reads: one line, in the canonical order, ASCII escapes only
/// where JSON or a lone surrogate needs them.
#[must_use]
pub fn to_json(manifest: &GrainManifest) -> String {
    let mut json = String::from("{\"grains\": ");
    write_section(&mut json, manifest.grains());
    json.push_str(", \"interfaces\": ");
    write_section(&mut json, manifest.interfaces());
    json.push('}');
    json
}

fn write_section(json: &mut String, entries: &BTreeMap<Identifier, Properties>) {
    json.push('[');
    for (index, (id, properties)) in entries.iter().enumerate() {
        json.push_str(if index == 0 { "[" } else { ", [" });
        match (id.bytes(), id.as_str()) {
            (None, _) => json.push_str("null"),
            (_, Some(text)) => write_text(json, &text.into()),
            (Some(bytes), None) => {
                json.push_str("{\"hex\": \"");
                // Writing to a `String` cannot fail.
                for byte in bytes {
                    let _ = write!(json, "{byte:02x}");
                }
                json.push_str("\"}");
            }
        }
        json.push_str(", {");
        for (index, (key, value)) in properties.iter().enumerate() {
            json.push_str(if index == 0 { "" } else { ", " });
            write_text(json, key);
            json.push_str(": ");
            match value {
                Some(value) => write_text(json, value),
                None => json.push_str("null"),
            }
        }
        json.push_str("}]");
    }
    json.push(']');
}

fn write_text(json: &mut String, text: &Text) {
    json.push('"');
    for unit in char::decode_utf16(text.units().iter().copied()) {
        let escaped = match unit {
            Ok(c @ ('"' | '\\')) => {
                json.extend(['\\', c]);
                continue;
            }
            Ok(c) if c >= ' ' => {
                json.push(c);
                continue;
            }
            Ok(control) => u32::from(control),
            Err(lone) => u32::from(lone.unpaired_surrogate()),
        };
        // Writing to a `String` cannot fail.
        let _ = write!(json, "\\u{escaped:04x}");
    }
    json.push('"');
}

#[cfg(test)]
mod tests;
