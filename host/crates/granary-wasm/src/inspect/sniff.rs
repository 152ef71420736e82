//! What a file that is not a component looks like.

use super::InspectError;

/// The component binary format that today's tools write: version 13, layer 1.
const COMPONENT_PREAMBLE: [u8; 8] = *b"\0asm\x0d\x00\x01\x00";

/// Accepts what begins as a component.
pub(super) fn require_component(bytes: &[u8]) -> Result<(), InspectError> {
    if bytes.starts_with(&COMPONENT_PREAMBLE) {
        return Ok(());
    }
    Err(InspectError::NotAComponent(describe(bytes)))
}

fn describe(bytes: &[u8]) -> String {
    let Some(first) = bytes.first() else { return "an empty file".to_owned() };
    if bytes.starts_with(b"\0asm") {
        return match bytes.get(4..8) {
            Some([1, 0, 0, 0]) => "a core module, not a component; build for wasm32-wasip2 instead of \
                 wasm32-wasip1 or wasm32-unknown-unknown"
                .to_owned(),
            Some([a, b, c, d]) => {
                format!("WebAssembly of an unknown format version ({a:02x} {b:02x} {c:02x} {d:02x})")
            }
            _ => format!("WebAssembly that ends after {} bytes", bytes.len()),
        };
    }
    let known: [(&[u8], &str); 7] = [
        (b"PK\x03\x04", "a zip archive"),
        (b"\x1f\x8b", "a gzip file"),
        (b"\x7fELF", "a native executable or library (ELF)"),
        (b"MZ", "a Windows executable"),
        (b"\xcf\xfa\xed\xfe", "a macOS executable"),
        (b"!<arch>\n", "an archive of object files"),
        (b"granary-cwasm", "a compiled artifact of the silo's own cache"),
    ];
    if let Some((_, what)) = known.into_iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return what.to_owned();
    }
    let head = bytes.get(..bytes.len().min(512)).unwrap_or(bytes);
    // A cut in the middle of a character is still text.
    let text = match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            head.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok())
        }
        Err(_) => None,
    };
    match text {
        Some(text)
            if text.trim_start().starts_with("(component") || text.trim_start().starts_with("(module") =>
        {
            "WebAssembly text; `wasm-tools parse` turns it into a binary".to_owned()
        }
        Some(text) if !text.chars().any(|char| char.is_control() && !char.is_whitespace()) => {
            "a text file".to_owned()
        }
        _ => format!("no WebAssembly: it begins with byte {first:#04x} instead of \"\\0asm\""),
    }
}
