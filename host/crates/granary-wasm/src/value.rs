//! Between wasmtime's dynamic values and the wire encoding, directed by a method's type.
//!
//! This is the checked path, for what [`crate::fast`] does not cover (more than 16 flat parameters) and as the oracle
//! of its tests: it works for every type a grain interface may have, and each step checks that value and type agree,
//! although both come from the same component. A list of bytes costs 40 bytes an element while it
//! is a dynamic value, and nothing more.

use granary_core::hosting::{ClassError, TextFormat};
use granary_wit::{Decoder, Encoder, Signature, Type, WireError};
use wasmtime::component::Val;

/// A value that could not be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    /// The bytes are wrong, or too many.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A dynamic value that is not of the type; a defect of this host, never of a guest.
    #[error("the value is not of the declared type, which is a {0}")]
    Type(&'static str),
    /// More or fewer values than parameters.
    #[error("the number of values is not that of the parameters")]
    Count,
}

impl ValueError {
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self, Self::Wire(WireError::TooLarge { .. }))
    }
}

/// Encodes arguments.
pub(crate) fn encode_params(
    signature: &Signature,
    values: &[Val],
    bytes_max: usize,
) -> Result<Vec<u8>, ValueError> {
    if signature.params.len() != values.len() {
        return Err(ValueError::Count);
    }
    let mut encoder = Encoder::new(bytes_max);
    for ((_, ty), value) in signature.params.iter().zip(values) {
        encode(&mut encoder, ty, value)?;
    }
    Ok(encoder.finish())
}

/// Decodes arguments, all of the bytes.
pub(crate) fn decode_params(signature: &Signature, bytes: &[u8]) -> Result<Vec<Val>, ValueError> {
    let mut decoder = Decoder::new(bytes);
    let values =
        signature.params.iter().map(|(_, ty)| decode(&mut decoder, ty)).collect::<Result<Vec<_>, _>>()?;
    decoder.finish()?;
    Ok(values)
}

/// Encodes a result: no bytes for a method that returns nothing.
pub(crate) fn encode_result(
    signature: &Signature,
    value: Option<&Val>,
    bytes_max: usize,
) -> Result<Vec<u8>, ValueError> {
    let mut encoder = Encoder::new(bytes_max);
    match (&signature.result, value) {
        (Some(ty), Some(value)) => encode(&mut encoder, ty, value)?,
        (None, None) => {}
        _ => return Err(ValueError::Count),
    }
    Ok(encoder.finish())
}

/// Decodes a result, all of the bytes.
pub(crate) fn decode_result(signature: &Signature, bytes: &[u8]) -> Result<Option<Val>, ValueError> {
    let mut decoder = Decoder::new(bytes);
    let value = signature.result.as_ref().map(|ty| decode(&mut decoder, ty)).transpose()?;
    decoder.finish()?;
    Ok(value)
}

/// Encoded bytes, unless they are too many.
pub(crate) fn bounded(bytes: Vec<u8>, bytes_max: usize) -> Result<Vec<u8>, ValueError> {
    if bytes.len() > bytes_max { Err(WireError::TooLarge { max: bytes_max }.into()) } else { Ok(bytes) }
}

/// Encodes arguments that come as text.
pub(crate) fn args_from_text(
    signature: &Signature,
    format: TextFormat,
    text: &str,
    bytes_max: usize,
) -> Result<Vec<u8>, ClassError> {
    match format {
        TextFormat::Json => granary_wit::args_from_json(signature, text, bytes_max),
        TextFormat::Wave => granary_wit::args_from_wave(signature, text, bytes_max),
    }
    .map_err(class_error)
}

/// Renders a result as text.
pub(crate) fn result_to_text(
    signature: &Signature,
    format: TextFormat,
    bytes: &[u8],
) -> Result<String, ClassError> {
    match format {
        TextFormat::Json => granary_wit::result_to_json(signature, bytes),
        TextFormat::Wave => granary_wit::result_to_wave(signature, bytes),
    }
    .map_err(class_error)
}

fn class_error(error: granary_wit::ValueError) -> ClassError {
    ClassError::Value { path: error.path, message: error.message }
}

/// Appends one value. The recursion is as deep as the type, which is bounded.
fn encode(encoder: &mut Encoder, ty: &Type, value: &Val) -> Result<(), ValueError> {
    match (ty, value) {
        (Type::Bool, Val::Bool(it)) => encoder.bool(*it)?,
        (Type::U8, Val::U8(it)) => encoder.u8(*it)?,
        (Type::U16, Val::U16(it)) => encoder.u16(*it)?,
        (Type::U32, Val::U32(it)) => encoder.u32(*it)?,
        (Type::U64, Val::U64(it)) => encoder.u64(*it)?,
        (Type::S8, Val::S8(it)) => encoder.s8(*it)?,
        (Type::S16, Val::S16(it)) => encoder.s16(*it)?,
        (Type::S32, Val::S32(it)) => encoder.s32(*it)?,
        (Type::S64, Val::S64(it)) => encoder.s64(*it)?,
        (Type::F32, Val::Float32(it)) => encoder.f32(*it)?,
        (Type::F64, Val::Float64(it)) => encoder.f64(*it)?,
        (Type::Char, Val::Char(it)) => encoder.char(*it)?,
        (Type::String, Val::String(it)) => encoder.string(it)?,
        (Type::List(item), Val::List(items)) => {
            encoder.count(items.len())?;
            items.iter().try_for_each(|value| encode(encoder, item, value))?;
        }
        (Type::Option(some), Val::Option(value)) => {
            encoder.case(usize::from(value.is_some()))?;
            if let Some(value) = value {
                encode(encoder, some, value)?;
            }
        }
        (Type::Result { ok, err }, Val::Result(value)) => {
            encoder.case(usize::from(value.is_err()))?;
            let (ty, payload) = match value {
                Ok(payload) => (ok, payload),
                Err(payload) => (err, payload),
            };
            encode_payload(encoder, ty.as_deref(), payload.as_deref())?;
        }
        (Type::Tuple(types), Val::Tuple(values)) if types.len() == values.len() => {
            types.iter().zip(values).try_for_each(|(ty, value)| encode(encoder, ty, value))?;
        }
        (Type::Record(fields), Val::Record(values)) if fields.len() == values.len() => {
            // wasmtime gives the fields in the order of their declaration, which is checked by their names.
            for (field, (name, value)) in fields.iter().zip(values) {
                if *field.name != **name {
                    return Err(ValueError::Type("record"));
                }
                encode(encoder, &field.ty, value)?;
            }
        }
        (Type::Variant(cases), Val::Variant(name, payload)) => {
            let index = cases.iter().position(|case| *case.name == **name);
            let Some((index, case)) = index.and_then(|index| Some((index, cases.get(index)?))) else {
                return Err(ValueError::Type("variant"));
            };
            encoder.case(index)?;
            encode_payload(encoder, case.ty.as_ref(), payload.as_deref())?;
        }
        (Type::Enum(names), Val::Enum(name)) => {
            let index = names.iter().position(|known| **known == **name);
            encoder.case(index.ok_or(ValueError::Type("enum"))?)?;
        }
        (Type::Flags(names), Val::Flags(set)) => {
            let index = |name: &String| names.iter().position(|known| **known == **name);
            let set: Option<Vec<usize>> = set.iter().map(index).collect();
            encoder.flags(names.len(), set.ok_or(ValueError::Type("flags"))?)?;
        }
        _ => return Err(ValueError::Type(kind(ty))),
    }
    Ok(())
}

fn encode_payload(encoder: &mut Encoder, ty: Option<&Type>, value: Option<&Val>) -> Result<(), ValueError> {
    match (ty, value) {
        (Some(ty), Some(value)) => encode(encoder, ty, value),
        (None, None) => Ok(()),
        _ => Err(ValueError::Type("case with another payload")),
    }
}

/// Reads one value. The recursion is as deep as the type, which is bounded.
fn decode(decoder: &mut Decoder<'_>, ty: &Type) -> Result<Val, ValueError> {
    Ok(match ty {
        Type::Bool => Val::Bool(decoder.bool()?),
        Type::U8 => Val::U8(decoder.u8()?),
        Type::U16 => Val::U16(decoder.u16()?),
        Type::U32 => Val::U32(decoder.u32()?),
        Type::U64 => Val::U64(decoder.u64()?),
        Type::S8 => Val::S8(decoder.s8()?),
        Type::S16 => Val::S16(decoder.s16()?),
        Type::S32 => Val::S32(decoder.s32()?),
        Type::S64 => Val::S64(decoder.s64()?),
        Type::F32 => Val::Float32(decoder.f32()?),
        Type::F64 => Val::Float64(decoder.f64()?),
        Type::Char => Val::Char(decoder.char()?),
        Type::String => Val::String(decoder.string()?.to_owned()),
        Type::List(item) if **item == Type::U8 => {
            Val::List(decoder.bytes()?.iter().map(|byte| Val::U8(*byte)).collect())
        }
        Type::List(item) => {
            let count = decoder.count()?;
            Val::List((0..count).map(|_| decode(decoder, item)).collect::<Result<_, _>>()?)
        }
        Type::Option(some) => match decoder.case(2)? {
            0 => Val::Option(None),
            _ => Val::Option(Some(Box::new(decode(decoder, some)?))),
        },
        Type::Result { ok, err } => match decoder.case(2)? {
            0 => Val::Result(Ok(decode_payload(decoder, ok.as_deref())?)),
            _ => Val::Result(Err(decode_payload(decoder, err.as_deref())?)),
        },
        Type::Tuple(types) => {
            Val::Tuple(types.iter().map(|ty| decode(decoder, ty)).collect::<Result<_, _>>()?)
        }
        Type::Record(fields) => {
            let field = |field: &granary_wit::Field| {
                Ok::<_, ValueError>((field.name.to_string(), decode(decoder, &field.ty)?))
            };
            Val::Record(fields.iter().map(field).collect::<Result<_, _>>()?)
        }
        Type::Variant(cases) => {
            let index = decoder.case(cases.len())?;
            let case = cases.get(index).ok_or(ValueError::Type("variant"))?;
            Val::Variant(case.name.to_string(), decode_payload(decoder, case.ty.as_ref())?)
        }
        Type::Enum(names) => {
            let index = decoder.case(names.len())?;
            Val::Enum(names.get(index).ok_or(ValueError::Type("enum"))?.to_string())
        }
        Type::Flags(names) => {
            let set = decoder.flags(names.len())?;
            Val::Flags(set.filter_map(|index| names.get(index)).map(ToString::to_string).collect())
        }
    })
}

fn decode_payload(decoder: &mut Decoder<'_>, ty: Option<&Type>) -> Result<Option<Box<Val>>, ValueError> {
    ty.map(|ty| decode(decoder, ty).map(Box::new)).transpose()
}

fn kind(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::S8 | Type::S16 | Type::S32 | Type::S64 => {
            "number"
        }
        Type::F32 | Type::F64 => "float",
        Type::Char => "char",
        Type::String => "string",
        Type::List(_) => "list",
        Type::Option(_) => "option",
        Type::Result { .. } => "result",
        Type::Tuple(_) => "tuple",
        Type::Record(_) => "record",
        Type::Variant(_) => "variant",
        Type::Enum(_) => "enum",
        Type::Flags(_) => "flags",
    }
}

#[cfg(test)]
mod tests;
