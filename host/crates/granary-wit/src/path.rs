//! Where in a text a value stands, and text of bounded length. Shared by the JSON and WAVE forms.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use crate::types::{Brief, Signature, Type};
use crate::value::ValueError;

/// How many bytes the text form of arguments or a result may have: 32 MiB. Six times the default bound of
/// encoded values, which is what the worst values need, fits.
pub const TEXT_BYTES_MAX: usize = 32 << 20;

/// How many bytes of something found in a text a message shows.
const FOUND_BYTES_MAX: usize = 60;

#[derive(Debug, Clone)]
enum Step<'a> {
    Index(usize),
    Name(&'a str),
}

/// The way from the whole text, `$`, to a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path<'a>(Vec<Step<'a>>);

impl<'a> Path<'a> {
    pub(crate) fn index(&mut self, index: usize) {
        self.0.push(Step::Index(index));
    }

    pub(crate) fn name(&mut self, name: &'a str) {
        self.0.push(Step::Name(name));
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> ValueError {
        ValueError { path: self.to_string(), message: message.into() }
    }

    /// The error for a value of the wrong kind.
    pub(crate) fn mismatch(&self, ty: &Type, found: impl Display) -> ValueError {
        self.error(format!("expected {}, found {found}", Brief(ty)))
    }

    /// The error for an argument that is not there; the path leads to where it would be.
    pub(crate) fn missing_argument(&self, signature: &Signature, index: usize) -> ValueError {
        let name = signature.params.get(index).map(|(name, ty)| format!("{name}: {ty}")).unwrap_or_default();
        self.error(format!("argument {} (`{}`) is missing in {}", index + 1, Brief(&name), Brief(signature)))
    }

    /// The error for the first argument too many.
    pub(crate) fn surplus_argument(&self, signature: &Signature) -> ValueError {
        let count = match signature.params.len() {
            0 => "no arguments".to_owned(),
            1 => "1 argument".to_owned(),
            count => format!("{count} arguments"),
        };
        self.error(format!("too many arguments: {} takes {count}", Brief(signature)))
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('$')?;
        self.0.iter().try_for_each(|step| match step {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Name(name) => write!(f, ".{name}"),
        })
    }
}

/// A piece of the caller's text for a message: escaped, and cut at 60 bytes.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let cut = text.get(..text.floor_char_boundary(FOUND_BYTES_MAX)).unwrap_or_default();
    let plain = cut.len() == text.len() && !cut.contains(char::is_control);
    if plain {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let mut shown: String = cut.chars().map(escape).collect();
    if cut.len() < text.len() {
        shown.push('…');
    }
    Cow::Owned(shown)
}

/// A text that refuses to grow beyond [`TEXT_BYTES_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Text(String);

impl Text {
    pub(crate) fn finish(self) -> String {
        self.0
    }

    pub(crate) fn str(&mut self, text: &str) -> Result<(), ValueError> {
        if text.len() > TEXT_BYTES_MAX.saturating_sub(self.0.len()) {
            let message = format!("the value as text takes more than {TEXT_BYTES_MAX} bytes, the limit");
            return Err(ValueError { path: "$".to_owned(), message });
        }
        self.0.push_str(text);
        Ok(())
    }

    /// Something short: a number.
    pub(crate) fn display(&mut self, value: impl Display) -> Result<(), ValueError> {
        self.str(&value.to_string())
    }

    /// Writes items with `, ` or another separator between them.
    pub(crate) fn separated<T>(
        &mut self,
        separator: &str,
        items: impl Iterator<Item = T>,
        mut one: impl FnMut(&mut Self, T) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.str(separator)?;
            }
            one(self, item)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Path, TEXT_BYTES_MAX, Text, shown};

    #[test]
    fn path_reads_as_written_in_programs() {
        let mut path = Path::default();
        path.index(0);
        path.name("items");
        path.index(3);
        path.name("price");
        assert_eq!(path.to_string(), "$[0].items[3].price");
    }

    #[test]
    fn what_was_found_is_cut_and_escaped() {
        assert_eq!(shown("abc"), "abc");
        assert_eq!(shown("a\nb\u{1b}[0m"), "a\\nb\\u{1b}[0m");
        assert_eq!(shown(&"é".repeat(100)), format!("{}…", "é".repeat(30)));
    }

    #[test]
    fn text_is_bounded() {
        let mut text = Text::default();
        let half = "x".repeat(TEXT_BYTES_MAX / 2);
        text.str(&half).unwrap();
        text.str(&half).unwrap();
        assert!(text.str("y").unwrap_err().message.contains("more than 33554432 bytes"));
    }
}
