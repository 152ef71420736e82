//! The manifest's model: identifiers, texts, and the two maps of properties (spec A1, A2).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::manifest::hash::{self, ManifestHash};

/// A grain type's or an interface's identifier: null, empty, or bytes, which are three different things
/// (spec A1.2). Null comes first, then unsigned bytes, a prefix before what it begins (spec A1.3).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Identifier(Option<Vec<u8>>);

impl Identifier {
    /// The null identifier.
    pub const NULL: Self = Self(None);

    /// An identifier of these bytes; valid UTF-8 is usual and not required (spec A1.4).
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Some(bytes.into()))
    }

    /// The bytes; `None` for null.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    /// The identifier as text, if it is some.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }
}

impl From<&str> for Identifier {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// For people: text as it is, everything else in a form that no text has.
impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes(), self.as_str()) {
            (None, _) => f.write_str("(null)"),
            (Some([]), _) => f.write_str("(empty)"),
            (_, Some(text)) => write!(f, "{}", text.escape_debug()),
            (Some(bytes), None) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl fmt::Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A property's key or value: UTF-16 code units, in whatever order, so that lone surrogates survive (spec A2.5).
/// Ordered by code units.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Text(Vec<u16>);

impl Text {
    /// A text of these code units.
    #[must_use]
    pub fn new(units: Vec<u16>) -> Self {
        Self(units)
    }

    /// The code units.
    #[must_use]
    pub fn units(&self) -> &[u16] {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.encode_utf16().collect())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0.iter().copied().eq(other.encode_utf16())
    }
}

/// For people: a lone surrogate becomes U+FFFD.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf16_lossy(&self.0))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for unit in char::decode_utf16(self.0.iter().copied()) {
            match unit {
                Ok(char) => write!(f, "{}", char.escape_debug())?,
                Err(lone) => write!(f, "\\u{{{:x}}}", lone.unpaired_surrogate())?,
            }
        }
        f.write_str("\"")
    }
}

/// The properties of a grain type or an interface. Unknown keys are carried along (spec A2.9); a value may be
/// null, which is not empty (spec A2.4).
pub type Properties = BTreeMap<Text, Option<Text>>;

/// What one silo offers: its grain types and its interfaces, each with properties (spec A2.1). Immutable.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct GrainManifest {
    grains: BTreeMap<Identifier, Properties>,
    interfaces: BTreeMap<Identifier, Properties>,
    /// The canonical hash, once somebody asked for it (spec A6.9).
    #[serde(skip)]
    hash: OnceLock<ManifestHash>,
}

impl GrainManifest {
    /// A manifest of these entries.
    #[must_use]
    pub fn new(
        grains: BTreeMap<Identifier, Properties>,
        interfaces: BTreeMap<Identifier, Properties>,
    ) -> Self {
        Self { grains, interfaces, hash: OnceLock::new() }
    }

    /// A builder for manifests whose ids, keys and values are text, as those of real silos are.
    #[must_use]
    pub fn builder() -> GrainManifestBuilder {
        GrainManifestBuilder::default()
    }

    /// Grain type to properties.
    #[must_use]
    pub fn grains(&self) -> &BTreeMap<Identifier, Properties> {
        &self.grains
    }

    /// Interface id to properties.
    #[must_use]
    pub fn interfaces(&self) -> &BTreeMap<Identifier, Properties> {
        &self.interfaces
    }

    /// A property of a grain type, when both are there and the value is not null.
    #[must_use]
    pub fn grain_property(&self, grain_type: &str, key: &str) -> Option<&Text> {
        self.grains.get(&grain_type.into())?.get(&key.into())?.as_ref()
    }

    /// The canonical hash (spec A6), computed at the first call.
    #[must_use]
    pub fn hash(&self) -> ManifestHash {
        *self.hash.get_or_init(|| hash::canonical(self))
    }
}

/// Equal when the maps are (spec A2.3); whether the hash was computed does not matter.
impl PartialEq for GrainManifest {
    fn eq(&self, other: &Self) -> bool {
        self.grains == other.grains && self.interfaces == other.interfaces
    }
}

impl Eq for GrainManifest {}

impl fmt::Debug for GrainManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrainManifest")
            .field("grains", &self.grains)
            .field("interfaces", &self.interfaces)
            .finish()
    }
}

/// Collects a manifest's entries. The same id or key again replaces the value, so entries that may clash are
/// checked with [`GrainManifestBuilder::has_grain`] first (spec A2.6).
#[derive(Debug, Clone, Default)]
pub struct GrainManifestBuilder {
    grains: BTreeMap<Identifier, Properties>,
    interfaces: BTreeMap<Identifier, Properties>,
}

impl GrainManifestBuilder {
    /// Whether the grain type was added.
    #[must_use]
    pub fn has_grain(&self, grain_type: &str) -> bool {
        self.grains.contains_key(&grain_type.into())
    }

    /// Whether the interface was added.
    #[must_use]
    pub fn has_interface(&self, id: &str) -> bool {
        self.interfaces.contains_key(&id.into())
    }

    /// Adds a grain type with its properties.
    #[must_use]
    pub fn grain<'a>(
        mut self,
        grain_type: &str,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        self.grains.insert(grain_type.into(), text_properties(properties));
        self
    }

    /// Adds an interface with its properties.
    #[must_use]
    pub fn interface<'a>(
        mut self,
        id: &str,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        self.interfaces.insert(id.into(), text_properties(properties));
        self
    }

    /// The manifest.
    #[must_use]
    pub fn build(self) -> GrainManifest {
        GrainManifest::new(self.grains, self.interfaces)
    }
}

fn text_properties<'a>(properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> Properties {
    properties.into_iter().map(|(key, value)| (key.into(), Some(value.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_ordered_null_first_then_bytes_with_prefixes_first() {
        let id = |bytes: &[u8]| Identifier::new(bytes);
        let ordered =
            [Identifier::NULL, id(b""), id(b"a"), id(b"a\0"), id(b"ab"), id(b"b"), id(b"\x80"), id(b"\xff")];
        assert!(ordered.is_sorted());
        assert!(ordered.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn texts_are_ordered_by_code_units_and_keep_lone_surrogates() {
        let [supplementary, private]: [Text; 2] = ["\u{10000}".into(), "\u{e000}".into()];
        assert!(supplementary < private);
        assert!(supplementary == *"\u{10000}" && supplementary != *"\u{e000}");
        let lone = Text::new(vec![0xd800]);
        assert_ne!(lone, Text::from("\u{fffd}"));
        assert_eq!(format!("{lone} {lone:?}"), "\u{fffd} \"\\u{d800}\"");
    }

    #[test]
    fn equality_ignores_the_order_of_insertion_and_the_memory_of_the_hash() {
        let entries = [("a", "1"), ("b", "2")];
        let one = GrainManifest::builder().grain("x", entries).grain("y", []).build();
        let other = GrainManifest::builder().grain("y", []).grain("x", entries.into_iter().rev()).build();
        let _ = one.hash();
        assert_eq!(one, other);
        assert_eq!(one.grain_property("x", "b").map(ToString::to_string), Some("2".into()));
        assert_eq!(one.grain_property("x", "c"), None);
        assert_ne!(one, GrainManifest::builder().interface("x", entries).grain("y", []).build());
    }

    #[test]
    fn identifiers_are_shown_so_that_null_empty_and_bytes_differ() {
        let shown = [Identifier::NULL, Identifier::new(""), "a\n".into(), Identifier::new([0x80, 0])];
        assert_eq!(shown.map(|id| id.to_string()), ["(null)", "(empty)", "a\\n", "0x8000"]);
    }
}
