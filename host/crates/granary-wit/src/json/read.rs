//! JSON to bytes, by type.

mod members;

use std::borrow::Cow;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::cursor::{Cursor, Kind, Syntax};
use crate::path::{Path, shown};
use crate::types::{Brief, Case, Signature, Type};
use crate::value::{Encoder, ValueError, WireError};

/// Encodes arguments given as a JSON array, by position, or as a JSON object, by parameter name. A text
/// without anything in it is the same as `[]`. The encoded arguments may take `bytes_max` bytes.
///
/// # Errors
/// [`ValueError`] with the path of the first value that does not fit, the type expected there and what was
/// found; also for arguments too few, too many, unknown or given twice, and for text that is not JSON.
pub fn args_from_json(signature: &Signature, text: &str, bytes_max: usize) -> Result<Vec<u8>, ValueError> {
    let mut reader = Reader::new(text, bytes_max);
    match reader.cursor.kind() {
        Kind::Array => reader.positional(signature)?,
        Kind::Object => reader.members(signature.params.as_slice(), "parameter")?,
        Kind::End if signature.params.is_empty() => {}
        Kind::End => return Err(reader.path.missing_argument(signature, 0)),
        _ => {
            let found = reader.cursor.describe();
            let message = format!("expected an array or an object of arguments, found {found}");
            return Err(reader.path.error(message));
        }
    }
    reader.finish()
}

/// Encodes one value of type `ty`.
///
/// # Errors
/// As [`args_from_json`].
pub fn value_from_json(ty: &Type, text: &str, bytes_max: usize) -> Result<Vec<u8>, ValueError> {
    let mut reader = Reader::new(text, bytes_max);
    reader.value(ty)?;
    reader.finish()
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    out: Encoder,
    path: Path<'a>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, bytes_max: usize) -> Self {
        Self { cursor: Cursor::new(text), out: Encoder::new(bytes_max), path: Path::default() }
    }

    fn finish(mut self) -> Result<Vec<u8>, ValueError> {
        match self.cursor.expect_end() {
            Ok(()) => Ok(self.out.finish()),
            Err(Syntax(message)) => Err(self.path.error(message)),
        }
    }

    /// Text that is not JSON fails where it stands.
    fn token<T>(&self, token: Result<T, Syntax>) -> Result<T, ValueError> {
        token.map_err(|Syntax(message)| self.path.error(message))
    }

    fn wrote(&self, written: Result<(), WireError>) -> Result<(), ValueError> {
        written.map_err(|error| self.path.error(error.to_string()))
    }

    /// The error for the next value, which is not of type `ty`.
    fn mismatch(&mut self, ty: &Type) -> ValueError {
        let found = self.cursor.describe();
        self.path.mismatch(ty, found)
    }

    fn want(&mut self, kind: Kind, ty: &Type) -> Result<(), ValueError> {
        if self.cursor.kind() == kind { Ok(()) } else { Err(self.mismatch(ty)) }
    }

    /// One value. The recursion is as deep as the type, which is bounded.
    fn value(&mut self, ty: &'a Type) -> Result<(), ValueError> {
        match ty {
            Type::Bool => {
                self.want(Kind::Bool, ty)?;
                let value = self.cursor.bool();
                let value = self.token(value)?;
                let written = self.out.bool(value);
                self.wrote(written)
            }
            Type::U8 => self.integer(ty, Encoder::u8),
            Type::U16 => self.integer(ty, Encoder::u16),
            Type::U32 => self.integer(ty, Encoder::u32),
            Type::U64 => self.integer(ty, Encoder::u64),
            Type::S8 => self.integer(ty, Encoder::s8),
            Type::S16 => self.integer(ty, Encoder::s16),
            Type::S32 => self.integer(ty, Encoder::s32),
            Type::S64 => self.integer(ty, Encoder::s64),
            Type::F32 => self.float(ty, |value: f32| value.is_finite(), Encoder::f32),
            Type::F64 => self.float(ty, |value: f64| value.is_finite(), Encoder::f64),
            Type::Char => self.char(ty),
            Type::String => {
                let value = self.string(ty)?;
                let written = self.out.string(&value);
                self.wrote(written)
            }
            Type::List(item) => self.list(ty, item),
            Type::Option(some) => self.option(ty, some),
            Type::Result { ok, err } => self.result(ty, ok.as_deref(), err.as_deref()),
            Type::Tuple(items) => self.tuple(ty, items),
            Type::Record(fields) => {
                self.want(Kind::Object, ty)?;
                self.members(&**fields, "field")
            }
            Type::Variant(cases) => self.variant(ty, cases),
            Type::Enum(names) => {
                let name = self.string(ty)?;
                let index = names.iter().position(|known| **known == *name);
                let index = index.ok_or_else(|| self.unknown_case(ty, &name))?;
                let written = self.out.case(index);
                self.wrote(written)
            }
            Type::Flags(names) => self.flags(ty, names),
        }
    }

    fn string(&mut self, ty: &Type) -> Result<Cow<'a, str>, ValueError> {
        self.want(Kind::String, ty)?;
        let value = self.cursor.string();
        self.token(value)
    }

    fn integer<T: FromStr>(
        &mut self,
        ty: &Type,
        write: fn(&mut Encoder, T) -> Result<(), WireError>,
    ) -> Result<(), ValueError> {
        let mut ahead = self.cursor.clone();
        let number = match ahead.kind() {
            Kind::Number => Cow::Borrowed(self.token(ahead.number())?),
            Kind::String if matches!(ty, Type::U64 | Type::S64) => self.token(ahead.string())?,
            _ => return Err(self.mismatch(ty)),
        };
        // The parser of Rust takes a leading plus and zeros, which JSON does not.
        let digits = number.strip_prefix('-').unwrap_or(&number);
        let plain =
            digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        let value = if plain { number.parse().ok() } else { None };
        let value = value.ok_or_else(|| self.mismatch(ty))?;
        self.cursor = ahead;
        let written = write(&mut self.out, value);
        self.wrote(written)
    }

    fn float<T: FromStr + Copy>(
        &mut self,
        ty: &Type,
        is_finite: fn(T) -> bool,
        write: fn(&mut Encoder, T) -> Result<(), WireError>,
    ) -> Result<(), ValueError> {
        let mut ahead = self.cursor.clone();
        let value: Option<T> = match ahead.kind() {
            Kind::Number => self.token(ahead.number())?.parse().ok().filter(|value| is_finite(*value)),
            Kind::String => match self.token(ahead.string())?.as_ref() {
                name @ ("NaN" | "Infinity" | "-Infinity") => name.parse().ok(),
                _ => None,
            },
            _ => None,
        };
        let value = value.ok_or_else(|| self.mismatch(ty))?;
        self.cursor = ahead;
        let written = write(&mut self.out, value);
        self.wrote(written)
    }

    fn char(&mut self, ty: &Type) -> Result<(), ValueError> {
        let value = self.string(ty)?;
        let mut chars = value.chars();
        match (chars.next(), chars.next()) {
            (Some(only), None) => {
                let written = self.out.char(only);
                self.wrote(written)
            }
            _ => Err(self.path.mismatch(ty, format_args!("string \"{}\", not one character", shown(&value)))),
        }
    }

    /// The items of an array; `one` is called for each with its index.
    fn array(
        &mut self,
        mut one: impl FnMut(&mut Self, usize) -> Result<(), ValueError>,
    ) -> Result<usize, ValueError> {
        let opened = self.cursor.expect(b'[');
        self.token(opened)?;
        let mut count = 0;
        if self.cursor.eat(b']') {
            return Ok(count);
        }
        loop {
            self.path.index(count);
            one(self, count)?;
            self.path.pop();
            count += 1;
            let more = self.cursor.more(b']');
            if !self.token(more)? {
                return Ok(count);
            }
        }
    }

    fn list(&mut self, ty: &Type, item: &'a Type) -> Result<(), ValueError> {
        if *item == Type::U8 && self.cursor.kind() == Kind::String {
            let text = self.string(ty)?;
            let bytes = STANDARD.decode(text.as_bytes()).map_err(|error| {
                self.path.mismatch(ty, format_args!("a string that is not base64 with padding ({error})"))
            })?;
            let written = self.out.bytes(&bytes);
            return self.wrote(written);
        }
        self.want(Kind::Array, ty)?;
        let mark = self.out.begin_list();
        let mark = mark.map_err(|error| self.path.error(error.to_string()))?;
        let count = self.array(|reader, _| reader.value(item))?;
        let written = self.out.end_list(mark, count);
        self.wrote(written)
    }

    fn tuple(&mut self, ty: &Type, items: &'a [Type]) -> Result<(), ValueError> {
        self.want(Kind::Array, ty)?;
        let wrong =
            |count: usize| format!("expected {} with {} items, found {count}", Brief(ty), items.len());
        let count = self.array(|reader, index| match items.get(index) {
            Some(item) => reader.value(item),
            None => Err(reader.path.error(format!(
                "expected {} with {} items, found more",
                Brief(ty),
                items.len()
            ))),
        })?;
        if count == items.len() { Ok(()) } else { Err(self.path.error(wrong(count))) }
    }

    fn positional(&mut self, signature: &'a Signature) -> Result<(), ValueError> {
        let count = self.array(|reader, index| match signature.params.get(index) {
            Some((_, ty)) => reader.value(ty),
            None => Err(reader.path.surplus_argument(signature)),
        })?;
        if count < signature.params.len() {
            self.path.index(count);
            return Err(self.path.missing_argument(signature, count));
        }
        Ok(())
    }

    fn option(&mut self, ty: &Type, some: &'a Type) -> Result<(), ValueError> {
        let nested = matches!(some, Type::Option(_));
        if self.cursor.kind() == Kind::Null {
            let null = self.cursor.null();
            self.token(null)?;
            let written = self.out.case(0);
            return self.wrote(written);
        }
        let written = self.out.case(1);
        self.wrote(written)?;
        if !nested {
            return self.value(some);
        }
        // An option within an option is wrapped, since null could mean either.
        self.tagged(ty, |reader, tag| match tag {
            "some" => Ok(("some", Some(some))),
            _ => Err(reader
                .path
                .mismatch(ty, format_args!("a member \"{}\"; write null or {{\"some\": …}}", shown(tag)))),
        })
    }

    fn result(&mut self, ty: &Type, ok: Option<&'a Type>, err: Option<&'a Type>) -> Result<(), ValueError> {
        self.tagged(ty, |reader, tag| {
            let (index, tag, payload) = match tag {
                "ok" => (0, "ok", ok),
                "err" => (1, "err", err),
                _ => {
                    let found = format!("a member \"{}\"; write {{\"ok\": …}} or {{\"err\": …}}", shown(tag));
                    return Err(reader.path.mismatch(ty, found));
                }
            };
            let written = reader.out.case(index);
            reader.wrote(written)?;
            Ok((tag, payload))
        })
    }

    /// An object with one member. `choose` gets the member's name and gives its lasting name and the type of
    /// its value, which is null where there is none.
    fn tagged(
        &mut self,
        ty: &Type,
        choose: impl FnOnce(&mut Self, &str) -> Result<(&'a str, Option<&'a Type>), ValueError>,
    ) -> Result<(), ValueError> {
        self.want(Kind::Object, ty)?;
        let opened = self.cursor.expect(b'{');
        self.token(opened)?;
        if self.cursor.eat(b'}') {
            return Err(self.path.mismatch(ty, "an object without members"));
        }
        let tag = self.cursor.string();
        let tag = self.token(tag)?;
        let colon = self.cursor.expect(b':');
        self.token(colon)?;
        let (name, payload) = choose(self, &tag)?;
        self.path.name(name);
        match payload {
            Some(payload) => self.value(payload)?,
            None if self.cursor.kind() == Kind::Null => {
                let null = self.cursor.null();
                self.token(null)?;
            }
            None => {
                let found = self.cursor.describe();
                return Err(self.path.error(format!("expected null, found {found}")));
            }
        }
        self.path.pop();
        let more = self.cursor.more(b'}');
        if self.token(more)? {
            return Err(self.path.mismatch(ty, "an object with more than one member"));
        }
        Ok(())
    }

    fn unknown_case(&self, ty: &Type, name: &str) -> ValueError {
        self.path.error(format!("unknown case \"{}\" of {}", shown(name), Brief(ty)))
    }

    fn variant(&mut self, ty: &Type, cases: &'a [Case]) -> Result<(), ValueError> {
        let find = |name: &str| cases.iter().enumerate().find(|(_, case)| *case.name == *name);
        match self.cursor.kind() {
            Kind::String => {
                let name = self.string(ty)?;
                let (index, case) = find(&name).ok_or_else(|| self.unknown_case(ty, &name))?;
                if let Some(payload) = &case.ty {
                    let advice = format!("write {{\"{name}\": …}} with a payload of {}", Brief(payload));
                    return Err(self.path.error(format!("case `{name}` has a payload: {advice}")));
                }
                let written = self.out.case(index);
                self.wrote(written)
            }
            Kind::Object => self.tagged(ty, |reader, name| {
                let (index, case) = find(name).ok_or_else(|| reader.unknown_case(ty, name))?;
                let Some(payload) = &case.ty else {
                    return Err(reader.path.error(format!("case `{name}` has no payload: write \"{name}\"")));
                };
                let written = reader.out.case(index);
                reader.wrote(written)?;
                Ok((&case.name, Some(payload)))
            }),
            _ => Err(self.mismatch(ty)),
        }
    }

    fn flags(&mut self, ty: &Type, names: &[std::sync::Arc<str>]) -> Result<(), ValueError> {
        self.want(Kind::Array, ty)?;
        let mut set = vec![false; names.len()];
        self.array(|reader, _| {
            if reader.cursor.kind() != Kind::String {
                let found = reader.cursor.describe();
                return Err(reader.path.error(format!("expected a name of {}, found {found}", Brief(ty))));
            }
            let name = reader.string(ty)?;
            let index = names.iter().position(|known| **known == *name);
            match index.and_then(|index| set.get_mut(index)) {
                Some(flag) if !*flag => *flag = true,
                Some(_) => return Err(reader.path.error(format!("flag \"{name}\" is given twice"))),
                None => {
                    let message = format!("unknown flag \"{}\" of {}", shown(&name), Brief(ty));
                    return Err(reader.path.error(message));
                }
            }
            Ok(())
        })?;
        let set = set.iter().enumerate().filter_map(|(index, set)| set.then_some(index));
        let written = self.out.flags(names.len(), set);
        self.wrote(written)
    }
}
