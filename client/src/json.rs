//! Values as the gateway's JSON: the table of `docs/json.md`, as Rust types.
//!
//! Numbers are kept as text until their type is known, so that no digit is lost: neither those of a 64-bit integer
//! nor the last bit of a float.

mod read;
mod text;
mod values;

#[cfg(test)]
mod tests;

use std::fmt::Display;

pub use text::parse;

/// How deep a text may nest.
pub const DEPTH_MAX: usize = 192;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it is written.
    Number(String),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, with its members in the order in which they stand.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A string.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::String(text.to_owned())
    }

    /// An object with these members.
    #[must_use]
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// An array of the names that are marked.
    #[must_use]
    pub fn names<const N: usize>(names: [(&str, bool); N]) -> Self {
        Self::Array(names.into_iter().filter(|(_, set)| *set).map(|(name, _)| Self::text(name)).collect())
    }

    /// What kind of value it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// A type of a contract.
pub trait WitValue: Sized {
    /// The value as JSON.
    fn to_json(&self) -> Json;

    /// The value that JSON stands for.
    ///
    /// # Errors
    /// [`ValueError`] with the place of what does not fit.
    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError>;

    /// A list of such values; bytes are not written as an array.
    #[doc(hidden)]
    fn list_to_json(items: &[Self]) -> Json {
        Json::Array(items.iter().map(Self::to_json).collect())
    }

    /// The opposite of `list_to_json`.
    #[doc(hidden)]
    fn list_from_json(value: Json, at: &Place<'_>) -> Result<Vec<Self>, ValueError> {
        read::items(value, at)?
            .into_iter()
            .enumerate()
            .map(|(index, item)| Self::from_json(item, &at.item(index)))
            .collect()
    }

    /// Whether the type is an option: then an option around it wraps what is there.
    #[doc(hidden)]
    const IS_OPTION: bool = false;

    /// What a record's field is when it is left out.
    #[doc(hidden)]
    fn absent() -> Option<Self> {
        None
    }
}

/// JSON that is not a value of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ValueError {
    /// The place in the value: `$.entries[3].id`.
    pub place: String,
    /// What is expected there, and what was found.
    pub message: String,
}

/// A place in a value. Costs nothing until it is shown.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Item(usize),
}

impl<'a> Place<'a> {
    /// The whole value.
    #[must_use]
    pub fn root() -> Self {
        Self { above: None, step: Step::Root }
    }

    /// A member of it.
    #[must_use]
    pub fn field<'b>(&'b self, name: &'b str) -> Place<'b>
    where
        'a: 'b,
    {
        Place { above: Some(self), step: Step::Field(name) }
    }

    /// An item of it.
    #[must_use]
    pub fn item<'b>(&'b self, index: usize) -> Place<'b>
    where
        'a: 'b,
    {
        Place { above: Some(self), step: Step::Item(index) }
    }

    /// An error here.
    #[must_use]
    pub fn error(&self, message: impl Display) -> ValueError {
        ValueError { place: self.to_string(), message: message.to_string() }
    }

    /// An error that says what would be right.
    pub(crate) fn expected(&self, what: &str, found: &Json) -> ValueError {
        self.error(format_args!("expected {what}, found {}", found.kind()))
    }
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(above) = self.above {
            Display::fmt(above, f)?;
        }
        match self.step {
            Step::Root => f.write_str("$"),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Item(index) => write!(f, "[{index}]"),
        }
    }
}

pub use read::{Chosen, Fields, flag_names};
