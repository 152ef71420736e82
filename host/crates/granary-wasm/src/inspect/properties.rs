//! Properties of a grain type: the custom section that states them, and what the well-known ones may say.
//!
//! Properties are texts. Names that this host knows are checked from the start, whether or not it acts on them
//! yet (decision C10); other names are carried through.

use std::collections::BTreeMap;
use std::time::Duration;

use granary_core::hosting::Limits;
use granary_core::id::IdError;
use serde_json::Value;

use crate::text::bounded;

/// The custom section (decision A9).
pub(super) const MANIFEST_SECTION: &str = "granary-manifest";

/// The largest manifest section, in bytes.
pub(super) const MANIFEST_BYTES_MAX: usize = 16 << 10;

/// The property that names the grain type.
pub(super) const GRAIN_TYPE: &str = "grain-type";

/// The property that lets the turns of one activation overlap.
const REENTRANT: &str = "reentrant";

/// The section format's version.
const MANIFEST_VERSION: u64 = 1;

/// The largest memory limit that a type may ask for, in bytes: all that a 32-bit memory can have.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// The largest limit on encoded values, in bytes; a frame between silos must hold it.
const VALUE_BYTES_MAX: u64 = 8 << 20;

/// The longest CPU budget of a turn.
const TURN_CPU_MAX: Duration = Duration::from_secs(60 * 60);

/// The longest mailbox.
const MAILBOX_MAX: u64 = 100_000;

/// A property cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// The section is beyond its bound.
    #[error("the section {MANIFEST_SECTION} has more than {MANIFEST_BYTES_MAX} bytes")]
    SectionTooLarge,
    /// Two sections disagree.
    #[error("the component has {0} sections {MANIFEST_SECTION} with different contents; it may have one")]
    Sections(usize),
    /// The section is not what its format says.
    #[error("the section {MANIFEST_SECTION} cannot be read: {0}")]
    Section(String),
    /// The section is in a format of the future.
    #[error("the section {MANIFEST_SECTION} has version {0}, this host reads version {MANIFEST_VERSION}")]
    Version(String),
    /// A value that its property does not allow.
    #[error("property `{name}`: {value:?} is not allowed, it is {expected}")]
    Value { name: String, value: String, expected: String },
    /// Overlapping turns, asked of a component that waits within each call (decision A4).
    #[error(
        "property `{REENTRANT}`: the turns of this component cannot overlap, since all its functions are plain `func`s; remove the property, or set it to false"
    )]
    Reentrant,
}

impl PropertyError {
    fn value(name: &str, value: &str, expected: impl Into<String>) -> Self {
        Self::Value { name: name.to_owned(), value: bounded(value, 128), expected: expected.into() }
    }

    pub(super) fn grain_type(value: &str, error: &IdError) -> Self {
        Self::value(GRAIN_TYPE, value, error.to_string())
    }
}

/// Where linear memories lie: `compact`, the default, or [`RESERVED`].
pub(super) const MEMORY_LAYOUT: &str = "granary.memory-layout";

/// 4 GiB of address space for each linear memory.
pub(super) const RESERVED: &str = "reserved";

/// What a well-known property may say.
enum Rule {
    OneOf(&'static [&'static str]),
    GrainType,
    Name,
    Flag,
    /// Present or not; the value says nothing.
    Presence,
    Byte,
    IdleDuration,
    MemoryMax,
    TurnCpuMax,
    ValueMax,
    MailboxMax,
}

const STRATEGIES: &[&str] = &[
    "random",
    "prefer-local",
    "hash-based",
    "activation-count",
    "resource-optimized",
    "silo-role",
    "stateless-worker",
];

const MULTI_CLUSTER: &[&str] = &["one-instance-per-cluster", "global-single-instance"];

/// The well-known properties, in alphabetical order.
const RULES: &[(&str, Rule)] = &[
    ("directory-policy", Rule::Name),
    ("full-type-name", Rule::Name),
    ("grain-type", Rule::GrainType),
    ("granary.mailbox-max", Rule::MailboxMax),
    (MEMORY_LAYOUT, Rule::OneOf(&["compact", RESERVED])),
    ("granary.memory-max", Rule::MemoryMax),
    ("granary.multi-cluster", Rule::OneOf(MULTI_CLUSTER)),
    ("granary.turn-cpu-max", Rule::TurnCpuMax),
    ("granary.value-max", Rule::ValueMax),
    ("idle-duration", Rule::IdleDuration),
    ("immovable", Rule::Byte),
    ("keep-alive", Rule::Flag),
    ("placement-filter", Rule::Name),
    ("placement-strategy", Rule::OneOf(STRATEGIES)),
    (REENTRANT, Rule::Flag),
    ("type-name", Rule::Name),
    ("unordered", Rule::Presence),
];

/// Reads the properties out of the distinct manifest sections of a component.
pub(super) fn from_sections(sections: &[Vec<u8>]) -> Result<BTreeMap<String, String>, PropertyError> {
    match sections {
        [] => Ok(BTreeMap::new()),
        [section] => from_section(section),
        _ => Err(PropertyError::Sections(sections.len())),
    }
}

fn from_section(section: &[u8]) -> Result<BTreeMap<String, String>, PropertyError> {
    let value: Value =
        serde_json::from_slice(section).map_err(|error| PropertyError::Section(error.to_string()))?;
    let Value::Object(mut object) = value else {
        return Err(PropertyError::Section("it is not a JSON object".to_owned()));
    };
    match object.remove("v") {
        Some(Value::Number(version)) if version.as_u64() == Some(MANIFEST_VERSION) => {}
        Some(version) => return Err(PropertyError::Version(bounded(&version.to_string(), 64))),
        None => return Err(PropertyError::Section("it has no version, `\"v\": 1`".to_owned())),
    }
    Ok(object.into_iter().map(|(key, value)| (key, text(value))).collect())
}

/// A property's value as text: strings as they are, all else as compact JSON.
fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The names of the properties that have a meaning here; others are carried along (spec A2.9).
pub fn known_properties() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(name, _)| *name)
}

/// Checks all properties, and takes the limits from them; returns remarks.
///
/// # Errors
/// [`PropertyError::Value`] names the first property with a bad value.
pub fn apply_properties(
    properties: &BTreeMap<String, String>,
    limits: &mut Limits,
) -> Result<Vec<String>, PropertyError> {
    let mut notes = Vec::new();
    for (name, value) in properties {
        match RULES.iter().find(|(known, _)| known == name) {
            Some((_, rule)) => rule.apply(name, value, limits)?,
            None if name.starts_with("granary.") => {
                notes.push(format!(
                    "property `{}` is not known to this host and has no effect",
                    bounded(name, 64)
                ));
            }
            None => {}
        }
    }
    if properties.get("keep-alive").is_some_and(|value| value == "true") {
        limits.idle_age = None;
    }
    Ok(notes)
}

pub(super) use apply_properties as apply;

/// Whether turns may overlap. Those of a synchronous component cannot, and a property that could not have its effect
/// is an error rather than a silent no.
pub(super) fn reentrant(
    properties: &BTreeMap<String, String>,
    asynchronous: bool,
) -> Result<bool, PropertyError> {
    let wanted = properties.get(REENTRANT).is_some_and(|value| value == "true");
    if wanted && !asynchronous { Err(PropertyError::Reentrant) } else { Ok(wanted) }
}

impl Rule {
    fn apply(&self, name: &str, value: &str, limits: &mut Limits) -> Result<(), PropertyError> {
        let error = |expected: String| PropertyError::value(name, value, expected);
        match self {
            Self::OneOf(names) => {
                if !names.contains(&value) {
                    return Err(error(format!("one of {}", names.join(", "))));
                }
            }
            Self::GrainType => {
                granary_core::id::GrainType::new(value)
                    .map_err(|id| PropertyError::grain_type(value, &id))?;
            }
            Self::Name => {
                if value.is_empty() || value.len() > 256 || value.chars().any(char::is_control) {
                    return Err(error("a text of 1 to 256 bytes without control characters".to_owned()));
                }
            }
            Self::Flag => {
                if !matches!(value, "true" | "false") {
                    return Err(error("true or false".to_owned()));
                }
            }
            Self::Presence => {}
            Self::Byte => {
                value.parse::<u8>().map_err(|_| error("a number from 0 to 255".to_owned()))?;
            }
            Self::IdleDuration => {
                limits.idle_age = idle_age(value).ok_or_else(|| {
                    error("a duration such as \"90s\", \"15m\" or \"2h\", or \"indefinite\"".to_owned())
                })?
            }
            Self::MemoryMax => {
                limits.memory_bytes_max = bytes(value, 64 << 10, MEMORY_BYTES_MAX)
                    .ok_or_else(|| error("a size from \"64KiB\" to \"4GiB\"".to_owned()))?;
            }
            Self::ValueMax => {
                let bytes = bytes(value, 1 << 10, VALUE_BYTES_MAX)
                    .ok_or_else(|| error("a size from \"1KiB\" to \"8MiB\"".to_owned()))?;
                limits.value_bytes_max = u32::try_from(bytes).unwrap_or(u32::MAX);
            }
            Self::TurnCpuMax => {
                limits.turn_cpu_max = humantime::parse_duration(value)
                    .ok()
                    .filter(|time| (Duration::from_millis(1)..=TURN_CPU_MAX).contains(time))
                    .ok_or_else(|| error("a duration from \"1ms\" to \"1h\"".to_owned()))?;
            }
            Self::MailboxMax => {
                let number = value.parse().ok().filter(|number| (1..=MAILBOX_MAX).contains(number));
                let number = number.ok_or_else(|| error(format!("a number from 1 to {MAILBOX_MAX}")))?;
                limits.mailbox_max = u32::try_from(number).unwrap_or(u32::MAX);
            }
        }
        Ok(())
    }
}

/// The outer `None` means that it is no duration.
#[expect(clippy::option_option, reason = "not a duration, never, and a duration are three things")]
fn idle_age(value: &str) -> Option<Option<Duration>> {
    if value == "indefinite" {
        return Some(None);
    }
    let age = humantime::parse_duration(value).ok()?;
    (age >= Duration::from_secs(1)).then_some(Some(age))
}

/// A size: a number of bytes, or one with `KiB`, `MiB` or `GiB`.
fn bytes(value: &str, min: u64, max: u64) -> Option<u64> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let unit = units.into_iter().find_map(|(unit, factor)| Some((value.strip_suffix(unit)?, factor)));
    let (number, factor) = unit.unwrap_or((value, 1_u64));
    let bytes = number.trim_end().parse::<u64>().ok()?.checked_mul(factor)?;
    (min..=max).contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests;
