//! A pull reader of JSON: the caller says which kind of value it expects next. Strings are UTF-16, as JSON's
//! escapes are. Depth is the caller's, so hostile nesting is refused where it leaves the expected shape.

use std::fmt::Write as _;

use crate::manifest::json::{MANIFEST_JSON_BYTES_MAX, ManifestJsonError};
use crate::manifest::model::Text;

/// So many characters of a key are shown in a path.
const SHOWN_KEY_CHARS_MAX: usize = 40;

/// A step of the path to the value that is read.
#[derive(Debug)]
enum Step {
    Index(usize),
    Key(Text),
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    text: &'a str,
    /// The byte offset of what comes next.
    at: usize,
    /// Where the last string began, for errors about what it says.
    string_start: usize,
    path: Vec<Step>,
}

type Result<T> = std::result::Result<T, ManifestJsonError>;

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Self { text: "", at: 0, string_start: 0, path: Vec::new() };
        if bytes.len() > MANIFEST_JSON_BYTES_MAX {
            let found = bytes.len();
            return Err(reader.error(format!(
                "a manifest has at most {MANIFEST_JSON_BYTES_MAX} bytes of JSON, this has {found}"
            )));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => reader.text = text,
            Err(error) => {
                let (valid, _) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
                reader.text = std::str::from_utf8(valid).unwrap_or_default();
                reader.at = reader.text.len();
                return Err(reader.error("the text is not UTF-8 from here on".into()));
            }
        }
        if reader.text.starts_with('\u{feff}') {
            return Err(reader.error("the text begins with a byte order mark; leave it out".into()));
        }
        Ok(reader)
    }

    /// An error at the present place.
    pub(super) fn error(&self, problem: String) -> ManifestJsonError {
        self.error_at(self.at, problem)
    }

    /// An error about the string that was just read.
    pub(super) fn error_before(&self, problem: &str) -> ManifestJsonError {
        self.error_at(self.string_start, problem.into())
    }

    /// An error about the key of the pair that is being read.
    pub(super) fn wrong_key(&self, key: &Text, problem: &str) -> ManifestJsonError {
        self.error_at(self.string_start, format!("{}: {problem}", shown(key)))
    }

    fn error_at(&self, at: usize, problem: String) -> ManifestJsonError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        ManifestJsonError { line, column, path: self.shown_path(), problem }
    }

    fn shown_path(&self) -> String {
        let mut path = String::new();
        for (depth, step) in self.path.iter().enumerate() {
            // Writing to a `String` cannot fail.
            let _ = match step {
                Step::Index(index) => write!(path, "[{index}]"),
                // The sections' names are plain words; another one is escaped and cut like any key.
                Step::Key(key) if depth == 0 => write!(path, "{}", shown(key).trim_matches('"')),
                Step::Key(key) => write!(path, ".{}", shown(key)),
            };
        }
        if path.is_empty() { "the top".into() } else { path }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Takes the character if it comes next.
    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Takes the character after optional space, or says what was found instead.
    fn expect(&mut self, wanted: char, expected: &str) -> Result<()> {
        self.skip_space();
        if self.take(wanted) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> ManifestJsonError {
        let found = match self.peek() {
            None => "the end of the text".into(),
            Some('{') => "an object".into(),
            Some('[') => "an array".into(),
            Some('"') => "a string".into(),
            Some('-' | '0'..='9') => "a number".into(),
            Some('a'..='z' | 'A'..='Z') => {
                let word = self.rest().chars().take_while(char::is_ascii_alphanumeric);
                word.take(SHOWN_KEY_CHARS_MAX).collect()
            }
            Some(other) => format!("{other:?}"),
        };
        self.error(format!("expected {expected}, found {found}"))
    }

    /// Nothing but space may follow.
    pub(super) fn end(&mut self) -> Result<()> {
        self.skip_space();
        if self.rest().is_empty() { Ok(()) } else { Err(self.unexpected("the end of the text")) }
    }

    /// Takes `null` if it comes next.
    pub(super) fn null(&mut self) -> Result<bool> {
        self.skip_space();
        let Some(after) = self.rest().strip_prefix("null") else { return Ok(false) };
        if after.starts_with(|next: char| next.is_alphanumeric() || next == '_') {
            return Err(self.unexpected("null"));
        }
        self.at += "null".len();
        Ok(true)
    }

    /// Whether a string comes next.
    pub(super) fn at_string(&mut self) -> bool {
        self.skip_space();
        self.peek() == Some('"')
    }

    /// Reads an array, calling `each` with the index at each element.
    pub(super) fn array(
        &mut self,
        expected: &str,
        mut each: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        self.expect('[', expected)?;
        self.skip_space();
        if self.take(']') {
            return Ok(());
        }
        for index in 0.. {
            self.path.push(Step::Index(index));
            self.skip_space();
            each(self, index)?;
            self.path.pop();
            self.skip_space();
            if self.take(']') {
                break;
            }
            self.expect(',', "a comma or the end of the array")?;
        }
        Ok(())
    }

    /// Reads an object, calling `each` with the key at each value.
    pub(super) fn object(
        &mut self,
        expected: &str,
        mut each: impl FnMut(&mut Self, &Text) -> Result<()>,
    ) -> Result<()> {
        self.expect('{', expected)?;
        self.skip_space();
        if self.take('}') {
            return Ok(());
        }
        loop {
            let key = self.string("a key, which is a string")?;
            let key_start = self.string_start;
            self.expect(':', "a colon after the key")?;
            self.skip_space();
            // What `each` says about the key is said at the key.
            self.string_start = key_start;
            self.path.push(Step::Key(key.clone()));
            each(self, &key)?;
            self.path.pop();
            self.skip_space();
            if self.take('}') {
                return Ok(());
            }
            self.expect(',', "a comma or the end of the object")?;
        }
    }

    /// Reads a string.
    pub(super) fn string(&mut self, expected: &str) -> Result<Text> {
        self.skip_space();
        self.string_start = self.at;
        self.expect('"', expected)?;
        let mut units = Vec::new();
        loop {
            let Some(next) = self.peek() else {
                return Err(self.error("the text ends within a string".into()));
            };
            match next {
                '"' => {
                    self.at += 1;
                    return Ok(Text::new(units));
                }
                '\\' => units.push(self.escape()?),
                '\0'..='\u{1f}' => {
                    let code = u32::from(next);
                    return Err(self.error(format!(
                        "a string may not hold the control character U+{code:04X}; write \\u{code:04x}"
                    )));
                }
                other => {
                    units.extend_from_slice(other.encode_utf16(&mut [0; 2]));
                    self.at += other.len_utf8();
                }
            }
        }
    }

    /// Reads one escape, which is one code unit.
    fn escape(&mut self) -> Result<u16> {
        const WRONG: &str =
            "an escape is one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four hexadecimal digits";
        let mut rest = self.rest().chars().skip(1);
        let (unit, length) = match rest.next() {
            Some(c @ ('"' | '\\' | '/')) => (u32::from(c), 2),
            Some('b') => (0x08, 2),
            Some('f') => (0x0c, 2),
            Some('n') => (0x0a, 2),
            Some('r') => (0x0d, 2),
            Some('t') => (0x09, 2),
            Some('u') => {
                let digits: Option<Vec<u32>> = (0..4).map(|_| rest.next()?.to_digit(16)).collect();
                let digits = digits.ok_or_else(|| self.error(WRONG.into()))?;
                (digits.iter().fold(0, |unit, digit| unit * 16 + digit), 6)
            }
            _ => return Err(self.error(WRONG.into())),
        };
        self.at += length;
        u16::try_from(unit).map_err(|_| self.error(WRONG.into()))
    }
}

/// A key for people, bounded.
fn shown(key: &Text) -> String {
    let shown = format!("{key:?}");
    if shown.chars().count() <= SHOWN_KEY_CHARS_MAX {
        return shown;
    }
    let cut: String = shown.chars().take(SHOWN_KEY_CHARS_MAX).collect();
    format!("{cut}…\"")
}
