//! Bytes to WAVE, by type.

use wasm_wave::lex::Keyword;
use wasm_wave::value::Value;
use wasm_wave::wasm::WasmValue as _;

use crate::path::Text;
use crate::types::{Field, Signature, Type};
use crate::value::{Decoder, ValueError};

/// An encoded result as WAVE; an empty text for a function that returns nothing.
///
/// # Errors
/// [`ValueError`] when the bytes are no such result, or the text would be longer than
/// [`TEXT_BYTES_MAX`](crate::TEXT_BYTES_MAX).
pub fn result_to_wave(signature: &Signature, bytes: &[u8]) -> Result<String, ValueError> {
    write_all(signature.result.iter(), bytes)
}

/// Encoded arguments as WAVE, separated by commas.
///
/// # Errors
/// As [`result_to_wave`].
pub fn args_to_wave(signature: &Signature, bytes: &[u8]) -> Result<String, ValueError> {
    write_all(signature.params.iter().map(|(_, ty)| ty), bytes)
}

fn write_all<'t>(types: impl Iterator<Item = &'t Type>, bytes: &[u8]) -> Result<String, ValueError> {
    let (mut decoder, mut text) = (Decoder::new(bytes), Text::default());
    text.separated(", ", types, |text, ty| write(text, &mut decoder, ty))?;
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
        Type::F32 => leaf(text, &Value::make_f32(decoder.f32()?)),
        Type::F64 => leaf(text, &Value::make_f64(decoder.f64()?)),
        Type::Char => leaf(text, &Value::make_char(decoder.char()?)),
        Type::String => leaf(text, &Value::make_string(decoder.string()?.into())),
        Type::List(item) => {
            let count = decoder.count()?;
            text.str("[")?;
            text.separated(", ", 0..count, |text, _| write(text, decoder, item))?;
            text.str("]")
        }
        Type::Option(some) => match decoder.case(2)? {
            0 => text.str("none"),
            _ => tagged(text, decoder, "some", Some(some)),
        },
        Type::Result { ok, err } => match decoder.case(2)? {
            0 => tagged(text, decoder, "ok", ok.as_deref()),
            _ => tagged(text, decoder, "err", err.as_deref()),
        },
        Type::Tuple(items) => {
            text.str("(")?;
            text.separated(", ", items.iter(), |text, item| write(text, decoder, item))?;
            text.str(")")
        }
        Type::Record(fields) => write_record(text, decoder, fields),
        Type::Variant(cases) => {
            let index = decoder.case(cases.len())?;
            let Some(case) = cases.get(index) else { return Ok(()) };
            keyword_mark(text, &case.name)?;
            tagged(text, decoder, &case.name, case.ty.as_ref())
        }
        Type::Enum(names) => {
            let index = decoder.case(names.len())?;
            let name = names.get(index).map_or("", |name| &**name);
            keyword_mark(text, name)?;
            text.str(name)
        }
        Type::Flags(names) => {
            let set = decoder.flags(names.len())?.filter_map(|index| names.get(index));
            text.str("{")?;
            text.separated(", ", set, |text, name| text.str(name))?;
            text.str("}")
        }
    }
}

/// What is best left to the crate: how floats, characters and strings are spelt and escaped.
fn leaf(text: &mut Text, value: &Value) -> Result<(), ValueError> {
    let spelt = wasm_wave::to_string(value);
    text.str(&spelt.map_err(|error| ValueError { path: "$".to_owned(), message: error.to_string() })?)
}

/// A case that has the name of a WAVE keyword is told from it by a `%`.
fn keyword_mark(text: &mut Text, name: &str) -> Result<(), ValueError> {
    if Keyword::decode(name).is_some() { text.str("%") } else { Ok(()) }
}

fn tagged(
    text: &mut Text,
    decoder: &mut Decoder<'_>,
    tag: &str,
    payload: Option<&Type>,
) -> Result<(), ValueError> {
    text.str(tag)?;
    if let Some(ty) = payload {
        text.str("(")?;
        write(text, decoder, ty)?;
        text.str(")")?;
    }
    Ok(())
}

/// Fields that are none are left out, as is WAVE's custom.
fn write_record(text: &mut Text, decoder: &mut Decoder<'_>, fields: &[Field]) -> Result<(), ValueError> {
    text.str("{")?;
    let mut is_first = true;
    for field in fields {
        if matches!(field.ty, Type::Option(_)) {
            let mut ahead = decoder.clone();
            if ahead.case(2)? == 0 {
                *decoder = ahead;
                continue;
            }
        }
        if !is_first {
            text.str(", ")?;
        }
        is_first = false;
        text.str(&field.name)?;
        text.str(": ")?;
        write(text, decoder, &field.ty)?;
    }
    // An empty pair of braces would be flags.
    text.str(if is_first { ":}" } else { "}" })
}
