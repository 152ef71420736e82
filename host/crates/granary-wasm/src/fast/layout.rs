//! What the canonical ABI says of types: members, cases, sizes and flat values.

use granary_wit::Type;
use wasmtime::component::__internal::{ComponentTypes, InterfaceType as I};

/// The cases of an option, result, variant or enum.
pub(super) struct Cases {
    pub(super) count: usize,
    /// Where the payload lies, from the discriminant on.
    pub(super) payload_offset: usize,
}

impl Cases {
    pub(super) fn of(types: &ComponentTypes, ty: &I) -> Option<Self> {
        let (count, info) = match ty {
            I::Option(at) => (2, &types[*at].info),
            I::Result(at) => (2, &types[*at].info),
            I::Variant(at) => (types[*at].cases.len(), &types[*at].info),
            I::Enum(at) => (types[*at].names.len(), &types[*at].info),
            _ => return None,
        };
        Some(Self { count, payload_offset: usize::try_from(info.payload_offset32).ok()? })
    }

    /// Bytes of the discriminant in memory.
    pub(super) fn discriminant_bytes(&self) -> usize {
        match self.count {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        }
    }
}

/// The payload of a case that exists.
pub(super) fn payload(types: &ComponentTypes, ty: &I, index: usize) -> Option<I> {
    match ty {
        I::Option(at) => (index == 1).then(|| types[*at].ty),
        I::Result(at) if index == 0 => types[*at].ok,
        I::Result(at) => types[*at].err,
        I::Variant(at) => types[*at].cases.get_index(index).and_then(|(_, ty)| *ty),
        _ => None,
    }
}

/// One member of a record or tuple.
pub(super) fn member(types: &ComponentTypes, ty: &I, index: usize) -> Option<I> {
    match ty {
        I::Record(at) => types[*at].fields.get(index).map(|field| field.ty),
        I::Tuple(at) => types[*at].types.get(index).copied(),
        _ => None,
    }
}

/// The members of a record or tuple, in order.
pub(super) fn members<'t>(types: &'t ComponentTypes, ty: &'t I) -> impl Iterator<Item = I> + 't {
    (0..).map_while(move |index| member(types, ty, index))
}

/// The size and alignment of a value in memory.
pub(super) fn size_and_align(types: &ComponentTypes, ty: &I) -> Option<(usize, u32)> {
    let abi = types.canonical_abi(ty);
    Some((usize::try_from(abi.size32).ok()?, abi.align32))
}

/// How many names a flags type has.
pub(super) fn flags(types: &ComponentTypes, ty: &I) -> Option<usize> {
    match ty {
        I::Flags(at) => Some(types[*at].names.len()),
        _ => None,
    }
}

/// Bytes of flags in memory.
pub(super) fn flags_bytes(names: usize) -> usize {
    match names {
        0..=8 => 1,
        9..=16 => 2,
        _ => names.div_ceil(32).saturating_mul(4),
    }
}

/// Bytes of an integer, the same in memory and on the wire.
pub(super) fn integer_bytes(ty: &I) -> Option<usize> {
    match ty {
        I::U8 | I::S8 => Some(1),
        I::U16 | I::S16 => Some(2),
        I::U32 | I::S32 => Some(4),
        I::U64 | I::S64 => Some(8),
        _ => None,
    }
}

/// Whether the wire encoding knows the type and everything in it.
pub(super) fn is_supported(types: &ComponentTypes, ty: &I) -> bool {
    match ty {
        I::Bool | I::Float32 | I::Float64 | I::Char | I::String | I::Enum(_) | I::Flags(_) => true,
        I::List(at) => is_supported(types, &types[*at].element),
        I::Record(_) | I::Tuple(_) => members(types, ty).all(|member| is_supported(types, &member)),
        I::Option(_) | I::Result(_) | I::Variant(_) => {
            let count = Cases::of(types, ty).map_or(0, |cases| cases.count);
            (0..count).filter_map(|index| payload(types, ty, index)).all(|ty| is_supported(types, &ty))
        }
        _ => integer_bytes(ty).is_some(),
    }
}

/// How many flat values the canonical ABI makes of a type. Only a proposal: wasmtime's own count is what counts.
pub(super) fn flat_count(ty: &Type) -> usize {
    let most = |payloads: &mut dyn Iterator<Item = &Type>| 1 + payloads.map(flat_count).max().unwrap_or(0);
    match ty {
        Type::String | Type::List(_) => 2,
        Type::Option(some) => 1 + flat_count(some),
        Type::Result { ok, err } => most(&mut [ok, err].into_iter().flatten().map(|ty| &**ty)),
        Type::Tuple(items) => items.iter().map(flat_count).sum(),
        Type::Record(fields) => fields.iter().map(|field| flat_count(&field.ty)).sum(),
        Type::Variant(cases) => most(&mut cases.iter().filter_map(|case| case.ty.as_ref())),
        Type::Flags(names) => names.len().div_ceil(32),
        _ => 1,
    }
}
