//! The table of `docs/json.md` as JSON Schema (2020-12, which OpenAPI 3.1 takes as it is). What a silo reads is wider
//! than what it writes.

use granary_wit::{Signature, Type};
use serde_json::{Map, Value, json};

/// Who writes the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// A caller: everything that the silo reads.
    Read,
    /// The silo: the one form that it writes.
    Written,
}

/// A value of a type.
pub(super) fn schema(ty: &Type, direction: Direction) -> Value {
    let of = |ty: &Type| schema(ty, direction);
    match ty {
        Type::Bool => json!({ "type": "boolean" }),
        Type::U8 => integer(0, i128::from(u8::MAX)),
        Type::U16 => integer(0, i128::from(u16::MAX)),
        Type::U32 => integer(0, i128::from(u32::MAX)),
        Type::S8 => integer(i128::from(i8::MIN), i128::from(i8::MAX)),
        Type::S16 => integer(i128::from(i16::MIN), i128::from(i16::MAX)),
        Type::S32 => integer(i128::from(i32::MIN), i128::from(i32::MAX)),
        Type::U64 => wide(json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }), direction),
        Type::S64 => wide(json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX }), direction),
        Type::F32 | Type::F64 => {
            json!({ "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }] })
        }
        Type::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        Type::String => json!({ "type": "string" }),
        Type::List(item) if **item == Type::U8 => bytes(direction),
        Type::List(item) => json!({ "type": "array", "items": of(item) }),
        Type::Option(some) => option(some, direction),
        Type::Result { ok, err } => {
            let part = |name: &str, ty: &Option<std::sync::Arc<Type>>| {
                let payload = ty.as_deref().map_or_else(|| json!({ "type": "null" }), of);
                member(name, payload)
            };
            json!({ "oneOf": [part("ok", ok), part("err", err)] })
        }
        Type::Tuple(items) => tuple(items.iter(), direction),
        Type::Record(fields) => {
            record(fields.iter().map(|field| (field.name.as_ref(), &field.ty)), direction)
        }
        Type::Variant(cases) => {
            let cases: Vec<Value> = cases
                .iter()
                .map(|case| match &case.ty {
                    Some(ty) => member(&case.name, of(ty)),
                    None => json!({ "const": case.name.as_ref() }),
                })
                .collect();
            json!({ "oneOf": cases })
        }
        Type::Enum(names) => json!({ "type": "string", "enum": texts(names) }),
        Type::Flags(names) => {
            json!({ "type": "array", "uniqueItems": true, "items": { "enum": texts(names) } })
        }
    }
}

/// All arguments of a method.
pub(super) fn arguments(signature: &Signature) -> Value {
    let by_position = tuple(signature.params.iter().map(|(_, ty)| ty), Direction::Read);
    let by_name = record(signature.params.iter().map(|(name, ty)| (name.as_str(), ty)), Direction::Read);
    json!({ "anyOf": [by_position, by_name] })
}

/// How large the schemas of a method are: its type nodes, arguments twice.
pub(super) fn nodes(signature: &Signature) -> usize {
    let parameters: usize = signature.params.iter().map(|(_, ty)| nodes_of(ty)).sum();
    1 + 2 * parameters + signature.result.as_ref().map_or(0, nodes_of)
}

fn nodes_of(ty: &Type) -> usize {
    let optional = |ty: &Option<std::sync::Arc<Type>>| ty.as_deref().map_or(0, nodes_of);
    let inner: usize = match ty {
        Type::List(inner) | Type::Option(inner) => nodes_of(inner),
        Type::Result { ok, err } => optional(ok) + optional(err),
        Type::Tuple(items) => items.iter().map(nodes_of).sum(),
        Type::Record(fields) => fields.iter().map(|field| nodes_of(&field.ty)).sum(),
        Type::Variant(cases) => cases.iter().map(|case| 1 + case.ty.as_ref().map_or(0, nodes_of)).sum(),
        Type::Enum(names) | Type::Flags(names) => names.len(),
        _ => 0,
    };
    1 + inner
}

/// Up to 32 bits.
fn integer(minimum: i128, maximum: i128) -> Value {
    // Both are exact in 64 bits.
    let number = |value: i128| i64::try_from(value).map_or(Value::Null, Value::from);
    json!({ "type": "integer", "minimum": number(minimum), "maximum": number(maximum) })
}

/// 64 bits are read from strings too, for languages whose numbers lose digits.
fn wide(number: Value, direction: Direction) -> Value {
    match direction {
        Direction::Written => number,
        Direction::Read => json!({ "anyOf": [number, { "type": "string", "pattern": "^-?[0-9]+$" }] }),
    }
}

fn bytes(direction: Direction) -> Value {
    let text = json!({ "type": "string", "contentEncoding": "base64" });
    match direction {
        Direction::Written => text,
        Direction::Read => {
            let numbers = json!({ "type": "array", "items": integer(0, i128::from(u8::MAX)) });
            json!({ "anyOf": [text, numbers] })
        }
    }
}

/// An option of an option wraps what is there.
fn option(some: &Type, direction: Direction) -> Value {
    let inner = schema(some, direction);
    let inner = if matches!(some, Type::Option(_)) { member("some", inner) } else { inner };
    json!({ "anyOf": [inner, { "type": "null" }] })
}

/// An object with this one member.
fn member(name: &str, payload: Value) -> Value {
    let mut properties = Map::new();
    properties.insert(name.to_owned(), payload);
    json!({
        "type": "object",
        "properties": properties,
        "required": [name],
        "additionalProperties": false,
    })
}

fn tuple<'a>(items: impl Iterator<Item = &'a Type>, direction: Direction) -> Value {
    let items: Vec<Value> = items.map(|ty| schema(ty, direction)).collect();
    let length = items.len();
    if items.is_empty() {
        return json!({ "type": "array", "maxItems": 0 });
    }
    json!({ "type": "array", "prefixItems": items, "items": false, "minItems": length, "maxItems": length })
}

/// Fields that are options may be left out by a caller; the silo writes them all.
fn record<'a>(fields: impl Iterator<Item = (&'a str, &'a Type)>, direction: Direction) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, ty) in fields {
        properties.insert(name.to_owned(), schema(ty, direction));
        if direction == Direction::Written || !matches!(ty, Type::Option(_)) {
            required.push(name);
        }
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn texts(names: &[std::sync::Arc<str>]) -> Vec<&str> {
    names.iter().map(AsRef::as_ref).collect()
}
