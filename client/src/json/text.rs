//! JSON text: a strict reader (RFC 8259) with a bounded depth, and a writer.

use std::fmt::{self, Display, Formatter, Write};

use super::{DEPTH_MAX, Json};

/// Reads a text that is one JSON value.
///
/// # Errors
/// Says where the text is no JSON.
pub fn parse(text: &str) -> Result<Json, String> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at == text.len() { Ok(value) } else { Err(reader.wrong("expected the end of the text")) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong(&self, what: &str) -> String {
        format!("{what} at byte {}", self.at)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Takes a byte if it is the next thing but space.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("the text nests too deep"));
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
                for (word, value) in words {
                    if self.rest().starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.wrong("expected a value"))
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return Err(self.wrong("expected `,` or `]`"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("expected a member's name"));
            }
            let name = self.string()?;
            if !self.take(b':') {
                return Err(self.wrong("expected `:`"));
            }
            members.push((name, self.value(depth + 1)?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.wrong("expected `,` or `}`"));
            }
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let whole = self.digits();
        let leading_zero = self.text.as_bytes().get(self.at - whole) == Some(&b'0');
        if whole == 0 || (whole > 1 && leading_zero) {
            return Err(self.wrong("expected a number"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.wrong("expected digits after the point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.wrong("expected digits of the exponent"));
            }
        }
        Ok(Json::Number(self.text.get(start..self.at).unwrap_or_default().to_owned()))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let plain = self
                .rest()
                .find(|c: char| c == '"' || c == '\\' || c < ' ')
                .ok_or_else(|| self.wrong("the string has no end"))?;
            text.push_str(self.rest().get(..plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(self.wrong("a control character must be escaped")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 2;
        let letter = self.text.as_bytes().get(self.at - 1).copied();
        Ok(match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.unit()?;
                let code = if (0xd800..0xdc00).contains(&high) && self.rest().starts_with("\\u") {
                    self.at += 2;
                    let low = self.unit()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(self.wrong("half of a surrogate pair"));
                    }
                    0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                } else {
                    high
                };
                char::from_u32(code).ok_or_else(|| self.wrong("half of a surrogate pair"))?
            }
            _ => return Err(self.wrong("unknown escape")),
        })
    }

    fn unit(&mut self) -> Result<u32, String> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.wrong("expected four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }
}

impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(text) => f.write_str(text),
            Self::String(text) => quoted(f, text),
            Self::Array(items) => {
                f.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        f.write_char(',')?;
                    }
                    Display::fmt(item, f)?;
                }
                f.write_char(']')
            }
            Self::Object(members) => {
                f.write_char('{')?;
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        f.write_char(',')?;
                    }
                    quoted(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}
