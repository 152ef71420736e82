//! The JSON grammar (RFC 8259): a cursor that knows tokens, and nothing of types.
//!
//! Values are read straight into bytes by their type, so there is no tree and no recursion here: a reader
//! asks for the token that its type needs. Numbers come out as they are written, so that no integer and no
//! float loses a bit on the way.

use std::borrow::Cow;

use crate::path::shown;

/// What is wrong with the text itself, with line and column, both from 1.
#[derive(Debug)]
pub(super) struct Syntax(pub(super) String);

/// What the next value is, by its first character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
    /// No value starts like this.
    Other,
    End,
}

#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    pub(super) fn kind(&mut self) -> Kind {
        self.skip_space();
        match self.byte() {
            None => Kind::End,
            Some(b'n') => Kind::Null,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            Some(b'"') => Kind::String,
            Some(b'[') => Kind::Array,
            Some(b'{') => Kind::Object,
            Some(_) => Kind::Other,
        }
    }

    /// Takes this punctuation character if it comes next.
    pub(super) fn eat(&mut self, wanted: u8) -> bool {
        self.skip_space();
        let found = self.byte() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, wanted: u8) -> Result<(), Syntax> {
        if self.eat(wanted) { Ok(()) } else { Err(self.unexpected(&format!("`{}`", char::from(wanted)))) }
    }

    /// After an item: `true` when a comma says that another follows, `false` when `close` ends the items.
    pub(super) fn more(&mut self, close: u8) -> Result<bool, Syntax> {
        if self.eat(b',') {
            return Ok(true);
        }
        if self.eat(close) {
            return Ok(false);
        }
        Err(self.unexpected(&format!("`,` or `{}`", char::from(close))))
    }

    pub(super) fn expect_end(&mut self) -> Result<(), Syntax> {
        if self.kind() == Kind::End { Ok(()) } else { Err(self.unexpected("the end of the text")) }
    }

    pub(super) fn bool(&mut self) -> Result<bool, Syntax> {
        if self.word("true") {
            return Ok(true);
        }
        if self.word("false") {
            return Ok(false);
        }
        Err(self.unexpected("`true` or `false`"))
    }

    pub(super) fn null(&mut self) -> Result<(), Syntax> {
        if self.word("null") { Ok(()) } else { Err(self.unexpected("`null`")) }
    }

    fn word(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// A number as it is written.
    pub(super) fn number(&mut self) -> Result<&'a str, Syntax> {
        self.skip_space();
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        // No leading zeros: a 0 is the whole integer part.
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn digits(&mut self) -> Result<(), Syntax> {
        let start = self.at;
        while matches!(self.byte(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected("a digit")) } else { Ok(()) }
    }

    /// A string's value; borrowed when nothing in it is escaped.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Syntax> {
        self.expect(b'"')?;
        let mut value = Cow::Borrowed("");
        loop {
            let piece = self.plain_piece();
            if value.is_empty() {
                value = Cow::Borrowed(piece);
            } else {
                value.to_mut().push_str(piece);
            }
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(value);
                }
                Some(b'\\') => {
                    let unescaped = self.escape()?;
                    value.to_mut().push(unescaped);
                }
                Some(_) => return Err(self.syntax("a control character in a string must be escaped")),
                None => return Err(self.unexpected("the closing `\"` of a string")),
            }
        }
    }

    /// Up to the next quote, backslash or control character.
    fn plain_piece(&mut self) -> &'a str {
        let rest = self.rest();
        let length =
            rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len());
        self.at += length;
        // All of these are ASCII, so the cut is between characters.
        rest.get(..length).unwrap_or_default()
    }

    fn escape(&mut self) -> Result<char, Syntax> {
        self.at += 1;
        let escape = self.byte();
        self.at += usize::from(escape.is_some_and(|byte| byte.is_ascii()));
        Ok(match escape {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.syntax("no such escape in a string")),
        })
    }

    fn unicode_escape(&mut self) -> Result<char, Syntax> {
        let first = self.hex4()?;
        if let Some(found) = char::from_u32(first) {
            return Ok(found);
        }
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let combined = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(combined).ok_or_else(|| self.syntax("not a character"));
            }
        }
        Err(self.syntax(&format!("`\\u{first:04x}` is half of a surrogate pair, which a string cannot hold")))
    }

    fn hex4(&mut self) -> Result<u32, Syntax> {
        let digits =
            self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let value = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let value = value.ok_or_else(|| self.syntax("`\\u` needs four hexadecimal digits"))?;
        self.at += 4;
        Ok(value)
    }

    /// The next value, described for a message.
    pub(super) fn describe(&mut self) -> String {
        let kind = self.kind();
        let mut ahead = self.clone();
        match kind {
            Kind::Null => "null".to_owned(),
            Kind::Bool => if self.rest().starts_with('t') { "true" } else { "false" }.to_owned(),
            Kind::Number => match ahead.number() {
                Ok(number) => format!("number {}", shown(number)),
                Err(_) => "a malformed number".to_owned(),
            },
            Kind::String => match ahead.string() {
                Ok(text) => format!("string \"{}\"", shown(&text)),
                Err(_) => "a malformed string".to_owned(),
            },
            Kind::Array => "an array".to_owned(),
            Kind::Object => "an object".to_owned(),
            Kind::Other => format!("`{}`", self.rest().chars().next().unwrap_or_default().escape_default()),
            Kind::End => "the end of the text".to_owned(),
        }
    }

    fn unexpected(&mut self, expected: &str) -> Syntax {
        let found = match self.rest().chars().next() {
            Some(found) => format!("`{}`", found.escape_default()),
            None => "the end of the text".to_owned(),
        };
        self.syntax(&format!("expected {expected}, found {found}"))
    }

    fn syntax(&self, message: &str) -> Syntax {
        let before = self.text.get(..self.text.floor_char_boundary(self.at)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Syntax(format!("not JSON at line {line}, column {column}: {message}"))
    }
}
