//! The types of a grain interface, resolved: aliases followed, names of types dropped, everything else kept.
//!
//! Two types are equal here exactly when they have the same structure, which is what the method hash
//! (decision A5), the wire encoding and the text forms depend on. A type built from WIT is never recursive
//! and never empty (no record, tuple, variant, enum or flags without members), so that each value takes at
//! least one byte on the wire. Subtrees are shared, yet every bound counts them as if they were not.

mod build;
mod display;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use build::TypeError;
pub use display::Brief;

/// How deep types may nest: `list<u8>` has depth 2.
pub const TYPE_DEPTH_MAX: usize = 64;

/// How many type nodes the parameters and result of one function may have together, with shared types
/// counted as often as they are used.
pub const TYPE_NODES_MAX: usize = 10_000;

/// How many functions one interface may have.
pub const FUNCTIONS_MAX: usize = 1_000;

/// A structural WIT type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// `bool`
    Bool,
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `s8`
    S8,
    /// `s16`
    S16,
    /// `s32`
    S32,
    /// `s64`
    S64,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `char`: a Unicode scalar value.
    Char,
    /// `string`
    String,
    /// `list<T>`
    List(Arc<Type>),
    /// `option<T>`
    Option(Arc<Type>),
    /// `result<T, E>`, each of which may be absent.
    Result {
        /// The payload of `ok`.
        ok: Option<Arc<Type>>,
        /// The payload of `err`.
        err: Option<Arc<Type>>,
    },
    /// `tuple<…>`
    Tuple(Arc<[Type]>),
    /// `record { … }`, in the order of the declaration.
    Record(Arc<[Field]>),
    /// `variant { … }`, in the order of the declaration.
    Variant(Arc<[Case]>),
    /// The case names of an `enum`, in the order of the declaration.
    Enum(Arc<[Arc<str>]>),
    /// The names of `flags`, in the order of the declaration.
    Flags(Arc<[Arc<str>]>),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// The field's name in WIT.
    pub name: Arc<str>,
    /// The field's type.
    pub ty: Type,
}

/// A case of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Case {
    /// The case's name in WIT.
    pub name: Arc<str>,
    /// The payload, if the case has one.
    pub ty: Option<Type>,
}

/// What a function takes and gives. `Display` is its WIT text, `func(by: u64) -> u64`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Names and types of the parameters.
    pub params: Vec<(String, Type)>,
    /// The result's type; `None` when the function returns nothing.
    pub result: Option<Type>,
    /// Declared as `async func`.
    pub is_async: bool,
}

/// A grain interface: named, and with functions that Granary can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Without a version (decision A6): `acme:bank/account`.
    pub id: String,
    /// The package's version as semver text; `0.0.0` when it has none.
    pub version: String,
    /// The functions by name.
    pub functions: BTreeMap<String, Signature>,
}

#[cfg(test)]
mod tests;
