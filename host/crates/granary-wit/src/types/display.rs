//! Types as WIT text, with named types written out in place.

use std::fmt::{self, Display, Formatter, Write};

use super::{Signature, Type};

/// How many bytes of a type's text a message shows.
const BRIEF_BYTES_MAX: usize = 240;

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plain = match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Char => "char",
            Self::String => "string",
            Self::List(item) => return write!(f, "list<{item}>"),
            Self::Option(some) => return write!(f, "option<{some}>"),
            Self::Result { ok: None, err: None } => "result",
            Self::Result { ok: Some(ok), err: None } => return write!(f, "result<{ok}>"),
            Self::Result { ok: None, err: Some(err) } => return write!(f, "result<_, {err}>"),
            Self::Result { ok: Some(ok), err: Some(err) } => return write!(f, "result<{ok}, {err}>"),
            Self::Tuple(items) => {
                f.write_str("tuple<")?;
                separated(f, items.iter(), |f, item| write!(f, "{item}"))?;
                return f.write_char('>');
            }
            Self::Record(fields) => {
                return braced(f, "record", fields.iter(), |f, field| {
                    write!(f, "{}: {}", field.name, field.ty)
                });
            }
            Self::Variant(cases) => {
                return braced(f, "variant", cases.iter(), |f, case| match &case.ty {
                    Some(ty) => write!(f, "{}({ty})", case.name),
                    None => f.write_str(&case.name),
                });
            }
            Self::Enum(names) => return braced(f, "enum", names.iter(), |f, name| f.write_str(name)),
            Self::Flags(names) => return braced(f, "flags", names.iter(), |f, name| f.write_str(name)),
        };
        f.write_str(plain)
    }
}

impl Display for Signature {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_async { "async func(" } else { "func(" })?;
        separated(f, self.params.iter(), |f, (name, ty)| write!(f, "{name}: {ty}"))?;
        match &self.result {
            Some(ty) => write!(f, ") -> {ty}"),
            None => f.write_char(')'),
        }
    }
}

fn separated<T>(
    f: &mut Formatter<'_>,
    items: impl Iterator<Item = T>,
    mut one: impl FnMut(&mut Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        one(f, item)?;
    }
    Ok(())
}

fn braced<T>(
    f: &mut Formatter<'_>,
    keyword: &str,
    items: impl Iterator<Item = T>,
    one: impl FnMut(&mut Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{keyword} {{ ")?;
    separated(f, items, one)?;
    f.write_str(" }")
}

/// Anything displayed, cut at 240 bytes: for messages, which must stay readable whatever the type.
#[derive(Debug, Clone, Copy)]
pub struct Brief<'a, T: Display>(pub &'a T);

impl<T: Display> Display for Brief<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut cut = Cut { out: f, left: BRIEF_BYTES_MAX, full: false };
        match write!(cut, "{}", self.0) {
            // The only error that is ours says that enough was written.
            Err(_) if cut.full => f.write_char('…'),
            other => other,
        }
    }
}

/// Writes until its bytes are used up, then fails.
struct Cut<'a, 'b> {
    out: &'a mut Formatter<'b>,
    left: usize,
    full: bool,
}

impl Write for Cut<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(self.left);
        self.out.write_str(text.get(..fits).unwrap_or_default())?;
        self.left = self.left.saturating_sub(fits);
        if fits < text.len() {
            self.full = true;
            return Err(fmt::Error);
        }
        Ok(())
    }
}
