//! The wire encoding: values as positional bytes, laid out by their type.
//!
//! | type | bytes |
//! |---|---|
//! | `bool` | one byte, 0 or 1 |
//! | `u8` … `s64` | 1, 2, 4 or 8 bytes, little endian |
//! | `f32`, `f64` | 4 or 8 bytes, little endian; every NaN is `7fc00000` or `7ff8000000000000` |
//! | `char` | the scalar value as a `u32` |
//! | `string` | its length in bytes as a `u32`, then UTF-8 |
//! | `list<T>` | the number of items as a `u32`, then the items |
//! | `tuple`, `record` | the members in order |
//! | `variant`, `enum` | the case's index as a `u32`, then its payload if it has one |
//! | `option` | as a variant: 0 is none, 1 is some |
//! | `result` | as a variant: 0 is ok, 1 is err |
//! | `flags` | one `u32` for every 32 names or part of that, lowest bit first; unused bits are 0 |
//!
//! Arguments are the values of the parameters, one after the other; a result is one value, or no bytes.
//! Every value has exactly one encoding. The bytes mean nothing without their type, so the method's hash
//! travels with them. Nothing here allocates more than its input justifies: a count is believed only when
//! that many bytes are left, since each item of a type read from WIT takes at least one.

mod decode;
mod encode;

pub use decode::Decoder;
pub use encode::{Encoder, ListMark};

use crate::types::{Signature, Type};

/// The one NaN of `f32` on the wire.
pub const NAN_F32: u32 = 0x7fc0_0000;

/// The one NaN of `f64` on the wire.
pub const NAN_F64: u64 = 0x7ff8_0000_0000_0000;

/// Bytes that do not encode a value of the type, or a value too large to encode. Offsets are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The encoding would be, or is, larger than allowed.
    #[error("the value takes more than {max} bytes, the limit")]
    TooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// The bytes end within a value.
    #[error("encoded value: byte {at}: {wanted} more bytes expected, {left} left")]
    End {
        /// Where the missing bytes would start.
        at: usize,
        /// How many the value needs at least.
        wanted: usize,
        /// How many there are.
        left: usize,
    },
    /// Bytes are left over after the value.
    #[error("encoded value: byte {at}: {left} bytes too many")]
    Trailing {
        /// Where the value ended.
        at: usize,
        /// How many bytes follow.
        left: usize,
    },
    /// A byte sequence that is no value of the type.
    #[error("encoded value: byte {at}: not a {what}")]
    Invalid {
        /// Where the value starts.
        at: usize,
        /// What it should have been.
        what: &'static str,
    },
    /// The index of a case that the type does not have.
    #[error("encoded value: byte {at}: case {index} of a type with {cases} cases")]
    Case {
        /// Where the index stands.
        at: usize,
        /// The index, from 0.
        index: u32,
        /// How many cases there are.
        cases: usize,
    },
}

/// Text that does not fit a type, and where in it. `Display` is `path: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ValueError {
    /// As `$[0].items[3].price`; `$` is the whole text.
    pub path: String,
    /// The type expected there, and what was found; bounded.
    pub message: String,
}

impl From<WireError> for ValueError {
    fn from(error: WireError) -> Self {
        Self { path: "$".to_owned(), message: error.to_string() }
    }
}

/// Checks that `bytes` are one encoded value of type `ty`, all of it and nothing more.
///
/// # Errors
/// [`WireError`] for the first byte that is wrong, or when there are more than `bytes_max` bytes.
pub fn validate(ty: &Type, bytes: &[u8], bytes_max: usize) -> Result<(), WireError> {
    let mut decoder = bounded(bytes, bytes_max)?;
    skip(&mut decoder, ty)?;
    decoder.finish()
}

/// Checks encoded arguments.
///
/// # Errors
/// As [`validate`].
pub fn validate_args(signature: &Signature, bytes: &[u8], bytes_max: usize) -> Result<(), WireError> {
    let mut decoder = bounded(bytes, bytes_max)?;
    for (_, ty) in &signature.params {
        skip(&mut decoder, ty)?;
    }
    decoder.finish()
}

/// Checks an encoded result, which is no bytes for a function that returns nothing.
///
/// # Errors
/// As [`validate`].
pub fn validate_result(signature: &Signature, bytes: &[u8], bytes_max: usize) -> Result<(), WireError> {
    let mut decoder = bounded(bytes, bytes_max)?;
    if let Some(ty) = &signature.result {
        skip(&mut decoder, ty)?;
    }
    decoder.finish()
}

fn bounded(bytes: &[u8], bytes_max: usize) -> Result<Decoder<'_>, WireError> {
    if bytes.len() > bytes_max {
        Err(WireError::TooLarge { max: bytes_max })
    } else {
        Ok(Decoder::new(bytes))
    }
}

/// Reads over one value. The recursion is as deep as the type, which is bounded.
fn skip(decoder: &mut Decoder<'_>, ty: &Type) -> Result<(), WireError> {
    match ty {
        Type::Bool => decoder.bool().map(drop),
        Type::U8 => decoder.u8().map(drop),
        Type::U16 => decoder.u16().map(drop),
        Type::U32 => decoder.u32().map(drop),
        Type::U64 => decoder.u64().map(drop),
        Type::S8 => decoder.s8().map(drop),
        Type::S16 => decoder.s16().map(drop),
        Type::S32 => decoder.s32().map(drop),
        Type::S64 => decoder.s64().map(drop),
        Type::F32 => decoder.f32().map(drop),
        Type::F64 => decoder.f64().map(drop),
        Type::Char => decoder.char().map(drop),
        Type::String => decoder.string().map(drop),
        Type::List(item) if **item == Type::U8 => decoder.bytes().map(drop),
        Type::List(item) => {
            for _ in 0..decoder.count()? {
                skip(decoder, item)?;
            }
            Ok(())
        }
        Type::Option(some) => match decoder.case(2)? {
            0 => Ok(()),
            _ => skip(decoder, some),
        },
        Type::Result { ok, err } => {
            let payload = if decoder.case(2)? == 0 { ok } else { err };
            payload.as_ref().map_or(Ok(()), |ty| skip(decoder, ty))
        }
        Type::Tuple(items) => items.iter().try_for_each(|item| skip(decoder, item)),
        Type::Record(fields) => fields.iter().try_for_each(|field| skip(decoder, &field.ty)),
        Type::Variant(cases) => {
            let index = decoder.case(cases.len())?;
            let payload = cases.get(index).and_then(|case| case.ty.as_ref());
            payload.map_or(Ok(()), |ty| skip(decoder, ty))
        }
        Type::Enum(names) => decoder.case(names.len()).map(drop),
        Type::Flags(names) => decoder.flags(names.len()).map(drop),
    }
}

#[cfg(test)]
mod tests;
