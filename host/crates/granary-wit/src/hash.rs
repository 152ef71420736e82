//! The method hash (decision A5): SHA-256 over a canonical byte form of a signature.
//!
//! # Layout, version 1
//!
//! ```text
//! method  = "granary:method" 0x00 0x01 params result
//! params  = count type*                       one type for each parameter, names left out
//! result  = 0x00 | 0x01 type                  nothing | something
//! type    = tag members
//! count   = u32, little endian
//! text    = count byte*                       UTF-8
//! maybe   = 0x00 | 0x01 type
//!
//! 0x01 bool   0x02 u8    0x03 u16   0x04 u32   0x05 u64   0x06 s8    0x07 s16
//! 0x08 s32    0x09 s64   0x0a f32   0x0b f64   0x0c char  0x0d string
//! 0x20 list     type
//! 0x21 option   type
//! 0x22 result   maybe (ok) maybe (err)
//! 0x23 tuple    count type*
//! 0x24 record   count (text type)*            name and type of each field, in order
//! 0x25 variant  count (text maybe)*           name and payload of each case, in order
//! 0x26 enum     count text*
//! 0x27 flags    count text*
//! ```
//!
//! Names of types, aliases and parameters, documentation and `async` are left out: they do not change how
//! values travel. The hash of a one-way call covers the parameters only: the prefix is `granary:params`, and
//! `result` is left out. `wit/vectors/method-hash.json` in the repository holds golden vectors.

use sha2::{Digest as _, Sha256};

use crate::types::{Signature, Type};

/// The version byte of the layout above.
pub const HASH_VERSION: u8 = 1;

/// SHA-256 over a method's structure.
#[must_use]
pub fn method_hash(signature: &Signature) -> [u8; 32] {
    let mut hasher = start(b"granary:method\0");
    hash_params(&mut hasher, signature);
    hash_maybe(&mut hasher, signature.result.as_ref());
    hasher.finalize().into()
}

/// SHA-256 over the parameters only, which is all that a one-way call depends on. Never equal to a method
/// hash.
#[must_use]
pub fn params_hash(signature: &Signature) -> [u8; 32] {
    let mut hasher = start(b"granary:params\0");
    hash_params(&mut hasher, signature);
    hasher.finalize().into()
}

fn start(domain: &[u8]) -> Sha256 {
    let mut hasher = Sha256::new();
    hasher.update(domain);
    hasher.update([HASH_VERSION]);
    hasher
}

fn hash_params(hasher: &mut Sha256, signature: &Signature) {
    hash_count(hasher, signature.params.len());
    for (_, ty) in &signature.params {
        hash_type(hasher, ty);
    }
}

fn hash_count(hasher: &mut Sha256, count: usize) {
    // Counts are far below 2^32: types are bounded, and names come from a WIT file.
    hasher.update(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn hash_text(hasher: &mut Sha256, text: &str) {
    hash_count(hasher, text.len());
    hasher.update(text.as_bytes());
}

fn hash_maybe(hasher: &mut Sha256, ty: Option<&Type>) {
    match ty {
        Some(ty) => {
            hasher.update([1]);
            hash_type(hasher, ty);
        }
        None => hasher.update([0]),
    }
}

fn tag(ty: &Type) -> u8 {
    match ty {
        Type::Bool => 0x01,
        Type::U8 => 0x02,
        Type::U16 => 0x03,
        Type::U32 => 0x04,
        Type::U64 => 0x05,
        Type::S8 => 0x06,
        Type::S16 => 0x07,
        Type::S32 => 0x08,
        Type::S64 => 0x09,
        Type::F32 => 0x0a,
        Type::F64 => 0x0b,
        Type::Char => 0x0c,
        Type::String => 0x0d,
        Type::List(_) => 0x20,
        Type::Option(_) => 0x21,
        Type::Result { .. } => 0x22,
        Type::Tuple(_) => 0x23,
        Type::Record(_) => 0x24,
        Type::Variant(_) => 0x25,
        Type::Enum(_) => 0x26,
        Type::Flags(_) => 0x27,
    }
}

fn hash_type(hasher: &mut Sha256, ty: &Type) {
    hasher.update([tag(ty)]);
    match ty {
        Type::Bool
        | Type::U8
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::S8
        | Type::S16
        | Type::S32
        | Type::S64
        | Type::F32
        | Type::F64
        | Type::Char
        | Type::String => {}
        Type::List(item) | Type::Option(item) => hash_type(hasher, item),
        Type::Result { ok, err } => {
            hash_maybe(hasher, ok.as_deref());
            hash_maybe(hasher, err.as_deref());
        }
        Type::Tuple(items) => {
            hash_count(hasher, items.len());
            items.iter().for_each(|item| hash_type(hasher, item));
        }
        Type::Record(fields) => {
            hash_count(hasher, fields.len());
            for field in fields.iter() {
                hash_text(hasher, &field.name);
                hash_type(hasher, &field.ty);
            }
        }
        Type::Variant(cases) => {
            hash_count(hasher, cases.len());
            for case in cases.iter() {
                hash_text(hasher, &case.name);
                hash_maybe(hasher, case.ty.as_ref());
            }
        }
        Type::Enum(names) | Type::Flags(names) => {
            hash_count(hasher, names.len());
            names.iter().for_each(|name| hash_text(hasher, name));
        }
    }
}

#[cfg(test)]
mod tests;
