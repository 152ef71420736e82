//! Bytes to JSON, by type.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::path::Text;
use crate::types::{Case, Signature, Type};
use crate::value::{Decoder, ValueError};

/// An encoded result as JSON; `null` for a function that returns nothing.
///
/// # Errors
/// [`ValueError`] when the bytes are no such result, or the text would be longer than
/// [`TEXT_BYTES_MAX`](crate::TEXT_BYTES_MAX).
pub fn result_to_json(signature: &Signature, bytes: &[u8]) -> Result<String, ValueError> {
    let Some(ty) = &signature.result else {
        Decoder::new(bytes).finish()?;
        return Ok("null".to_owned());
    };
    value_to_json(ty, bytes)
}

/// Encoded arguments as a JSON array.
///
/// # Errors
/// As [`result_to_json`].
pub fn args_to_json(signature: &Signature, bytes: &[u8]) -> Result<String, ValueError> {
    let (mut decoder, mut text) = (Decoder::new(bytes), Text::default());
    text.str("[")?;
    text.separated(",", signature.params.iter(), |text, (_, ty)| write(text, &mut decoder, ty))?;
    text.str("]")?;
    decoder.finish()?;
    Ok(text.finish())
}

/// One encoded value as JSON.
///
/// # Errors
/// As [`result_to_json`].
pub fn value_to_json(ty: &Type, bytes: &[u8]) -> Result<String, ValueError> {
    let (mut decoder, mut text) = (Decoder::new(bytes), Text::default());
    write(&mut text, &mut decoder, ty)?;
    decoder.finish()?;
    Ok(text.finish())
}

/// One value. The recursion is as deep as the type, which is bounded.
fn write(text: &mut Text, decoder: &mut Decoder<'_>, ty: &Type) -> Result<(), ValueError> {
    match ty {
        Type::Bool => text.display(decoder.bool()?),
        Type::U8 => text.display(decoder.u8()?),
        Type::U16 => text.display(decoder.u16()?),
        Type::U32 => text.display(decoder.u32()?),
        Type::U64 => text.display(decoder.u64()?),
        Type::S8 => text.display(decoder.s8()?),
        Type::S16 => text.display(decoder.s16()?),
        Type::S32 => text.display(decoder.s32()?),
        Type::S64 => text.display(decoder.s64()?),
        Type::F32 => {
            let value = decoder.f32()?;
            // Debug gives the shortest digits that read back as the same float, with an exponent where short.
            if value.is_finite() {
                text.str(&format!("{value:?}"))
            } else {
                text.str(not_finite(value.into()))
            }
        }
        Type::F64 => {
            let value = decoder.f64()?;
            if value.is_finite() { text.str(&format!("{value:?}")) } else { text.str(not_finite(value)) }
        }
        Type::Char => write_string(text, decoder.char()?.encode_utf8(&mut [0; 4])),
        Type::String => write_string(text, decoder.string()?),
        Type::List(item) if **item == Type::U8 => {
            text.str("\"")?;
            text.str(&STANDARD.encode(decoder.bytes()?))?;
            text.str("\"")
        }
        Type::List(item) => {
            let count = decoder.count()?;
            text.str("[")?;
            text.separated(",", 0..count, |text, _| write(text, decoder, item))?;
            text.str("]")
        }
        Type::Option(some) => match decoder.case(2)? {
            0 => text.str("null"),
            _ if matches!(**some, Type::Option(_)) => tagged(text, decoder, "some", Some(some)),
            _ => write(text, decoder, some),
        },
        Type::Result { ok, err } => match decoder.case(2)? {
            0 => tagged(text, decoder, "ok", ok.as_deref()),
            _ => tagged(text, decoder, "err", err.as_deref()),
        },
        Type::Tuple(items) => {
            text.str("[")?;
            text.separated(",", items.iter(), |text, item| write(text, decoder, item))?;
            text.str("]")
        }
        Type::Record(fields) => {
            text.str("{")?;
            text.separated(",", fields.iter(), |text, field| {
                write_string(text, &field.name)?;
                text.str(":")?;
                write(text, decoder, &field.ty)
            })?;
            text.str("}")
        }
        Type::Variant(cases) => write_variant(text, decoder, cases),
        Type::Enum(names) => {
            let index = decoder.case(names.len())?;
            write_string(text, names.get(index).map_or("", |name| &**name))
        }
        Type::Flags(names) => write_flags(text, decoder, names),
    }
}

fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "\"NaN\""
    } else if value > 0.0 {
        "\"Infinity\""
    } else {
        "\"-Infinity\""
    }
}

fn write_variant(text: &mut Text, decoder: &mut Decoder<'_>, cases: &[Case]) -> Result<(), ValueError> {
    let index = decoder.case(cases.len())?;
    match cases.get(index) {
        Some(Case { name, ty: Some(ty) }) => tagged(text, decoder, name, Some(ty)),
        case => write_string(text, case.map_or("", |case| &*case.name)),
    }
}

fn write_flags(text: &mut Text, decoder: &mut Decoder<'_>, names: &[Arc<str>]) -> Result<(), ValueError> {
    let set = decoder.flags(names.len())?;
    text.str("[")?;
    text.separated(",", set.filter_map(|index| names.get(index)), |text, name| write_string(text, name))?;
    text.str("]")
}

fn tagged(
    text: &mut Text,
    decoder: &mut Decoder<'_>,
    tag: &str,
    payload: Option<&Type>,
) -> Result<(), ValueError> {
    text.str("{")?;
    write_string(text, tag)?;
    text.str(":")?;
    match payload {
        Some(ty) => write(text, decoder, ty)?,
        None => text.str("null")?,
    }
    text.str("}")
}

fn write_string(text: &mut Text, value: &str) -> Result<(), ValueError> {
    text.str("\"")?;
    let mut rest = value;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..='\u{1f}')) {
        let (plain, from) = rest.split_at(at);
        text.str(plain)?;
        let mut chars = from.chars();
        match chars.next() {
            Some('"') => text.str("\\\"")?,
            Some('\\') => text.str("\\\\")?,
            Some('\n') => text.str("\\n")?,
            Some('\r') => text.str("\\r")?,
            Some('\t') => text.str("\\t")?,
            Some(control) => text.str(&format!("\\u{:04x}", u32::from(control)))?,
            None => {}
        }
        rest = chars.as_str();
    }
    text.str(rest)?;
    text.str("\"")
}
