//! Whatever the type and the value: bytes to text and back are the same bytes, and no bytes or text panic.

use std::sync::Arc;

use crate::{
    Case, Encoder, Field, Signature, Type, args_from_json, args_from_wave, args_to_json, args_to_wave,
    method_hash, result_to_json, result_to_wave, validate, validate_args, value_from_json, value_to_json,
};
use proptest::collection::vec;
use proptest::prelude::*;

const MAX: usize = 1 << 20;

/// Words of WAVE and WIT are among the names.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9]{0,3}(-[a-z][a-z0-9]{0,2})?",
        prop_oneof!["none", "some", "ok", "err", "true", "inf", "nan", "type"],
    ]
}

fn names() -> impl Strategy<Value = Vec<String>> {
    vec(name(), 1..40).prop_map(|mut names| {
        names.sort();
        names.dedup();
        names
    })
}

fn leaf() -> impl Strategy<Value = Type> {
    prop_oneof![
        prop::sample::select(vec![
            Type::Bool,
            Type::U8,
            Type::U16,
            Type::U32,
            Type::U64,
            Type::S8,
            Type::S16,
            Type::S32,
            Type::S64,
            Type::F32,
            Type::F64,
            Type::Char,
            Type::String,
        ]),
        names().prop_map(|names| Type::Enum(names.into_iter().map(Arc::from).collect())),
        names().prop_map(|names| Type::Flags(names.into_iter().map(Arc::from).collect())),
    ]
}

fn ty() -> impl Strategy<Value = Type> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let maybe = prop::option::of(inner.clone());
        prop_oneof![
            inner.clone().prop_map(|item| Type::List(Arc::new(item))),
            inner.clone().prop_map(|some| Type::Option(Arc::new(some))),
            (maybe.clone(), maybe.clone())
                .prop_map(|(ok, err)| Type::Result { ok: ok.map(Arc::new), err: err.map(Arc::new) }),
            vec(inner.clone(), 1..4).prop_map(|items| Type::Tuple(items.into())),
            (names(), vec(inner, 1..4)).prop_map(|(names, types)| {
                let fields = names.into_iter().zip(types);
                Type::Record(fields.map(|(name, ty)| Field { name: name.into(), ty }).collect())
            }),
            (names(), vec(maybe, 1..4)).prop_map(|(names, types)| {
                let cases = names.into_iter().zip(types);
                Type::Variant(cases.map(|(name, ty)| Case { name: name.into(), ty }).collect())
            }),
        ]
    })
}

/// Writes a value that is chosen by `choices`, which are used up from the end.
fn encode(ty: &Type, choices: &mut Vec<u64>, out: &mut Encoder) {
    let chosen = choices.pop().unwrap_or(0);
    let below = |count: usize| usize::try_from(chosen % u64::try_from(count).unwrap()).unwrap();
    let small = chosen.to_le_bytes();
    match ty {
        Type::Bool => out.bool(chosen % 2 == 1).unwrap(),
        Type::U8 => out.u8(small[0]).unwrap(),
        Type::U16 => out.u16(u16::from_le_bytes([small[0], small[1]])).unwrap(),
        Type::U32 => out.u32(u32::from_le_bytes([small[0], small[1], small[2], small[3]])).unwrap(),
        Type::U64 => out.u64(chosen).unwrap(),
        Type::S8 => out.s8(i8::from_le_bytes([small[0]])).unwrap(),
        Type::S16 => out.s16(i16::from_le_bytes([small[0], small[1]])).unwrap(),
        Type::S32 => out.s32(i32::from_le_bytes([small[0], small[1], small[2], small[3]])).unwrap(),
        Type::S64 => out.s64(i64::from_le_bytes(small)).unwrap(),
        Type::F32 => out.f32(f32::from_le_bytes([small[0], small[1], small[2], small[3]])).unwrap(),
        Type::F64 => out.f64(f64::from_bits(chosen)).unwrap(),
        Type::Char => out.char(character(chosen)).unwrap(),
        Type::String => {
            let length = below(6);
            let text: String = (0..length).map(|_| character(choices.pop().unwrap_or(0))).collect();
            out.string(&text).unwrap();
        }
        Type::List(item) => {
            let length = below(4);
            out.count(length).unwrap();
            (0..length).for_each(|_| encode(item, choices, out));
        }
        Type::Option(some) => {
            out.case(below(2)).unwrap();
            if below(2) == 1 {
                encode(some, choices, out);
            }
        }
        Type::Result { ok, err } => {
            out.case(below(2)).unwrap();
            if let Some(ty) = [ok, err][below(2)] {
                encode(ty, choices, out);
            }
        }
        Type::Tuple(items) => items.iter().for_each(|item| encode(item, choices, out)),
        Type::Record(fields) => fields.iter().for_each(|field| encode(&field.ty, choices, out)),
        Type::Variant(cases) => {
            out.case(below(cases.len())).unwrap();
            if let Some(ty) = &cases[below(cases.len())].ty {
                encode(ty, choices, out);
            }
        }
        Type::Enum(names) => out.case(below(names.len())).unwrap(),
        Type::Flags(names) => {
            out.flags(names.len(), (0..names.len()).filter(|at| chosen >> (at % 64) & 1 == 1)).unwrap()
        }
    }
}

/// Often one that texts must escape.
fn character(chosen: u64) -> char {
    const ODD: [char; 12] =
        ['"', '\\', '\'', '\n', '\r', '\t', '\0', '\u{7f}', '\u{301}', '\u{2028}', '🌾', '`'];
    let [low, high, ..] = chosen.to_le_bytes();
    match low % 4 {
        0 => ODD[usize::from(high) % ODD.len()],
        1 => char::from_u32(u32::try_from(chosen >> 20 & 0x1f_ffff).unwrap()).unwrap_or('x'),
        _ => char::from(high % 95 + 32),
    }
}

/// Types, and a value of each; the last one is the result.
fn values() -> impl Strategy<Value = (Signature, Vec<u8>, Vec<u8>)> {
    (vec(ty(), 1..4), vec(any::<u64>(), 0..200)).prop_map(|(types, mut choices)| {
        let (mut args, mut result) = (Encoder::new(MAX), Encoder::new(MAX));
        types.iter().for_each(|ty| encode(ty, &mut choices, &mut args));
        encode(&types[0], &mut choices, &mut result);
        let result_type = types[0].clone();
        let params = types.into_iter().enumerate().map(|(index, ty)| (format!("p{index}"), ty)).collect();
        (Signature { params, result: Some(result_type), is_async: false }, args.finish(), result.finish())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_round_trips((signature, args, result) in values()) {
        validate_args(&signature, &args, MAX).unwrap();
        let text = args_to_json(&signature, &args).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(args_from_json(&signature, &text, MAX).unwrap(), args.as_slice());
        // A pretty-printed object by name, in another order, is the same.
        let by_name: serde_json::Map<String, serde_json::Value> = signature.params.iter().map(|(name, _)| name.clone())
            .zip(parsed.as_array().unwrap().iter().cloned()).rev().collect();
        if !text.contains('.') {
            // serde_json rounds floats; all else comes back.
            let pretty = serde_json::to_string_pretty(&by_name).unwrap();
            prop_assert_eq!(args_from_json(&signature, &pretty, MAX).unwrap(), args);
        }
        let text = result_to_json(&signature, &result).unwrap();
        prop_assert_eq!(value_from_json(&signature.params[0].1, &text, MAX).unwrap(), result);
    }

    #[test]
    fn wave_round_trips((signature, args, _) in values()) {
        let text = args_to_wave(&signature, &args).unwrap();
        prop_assert_eq!(args_from_wave(&signature, &text, MAX).map_err(|error| format!("{error} in {text}")), Ok(args));
    }

    #[test]
    fn random_bytes_never_panic(ty in ty(), bytes in vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..80)) {
        let valid = validate(&ty, &bytes, MAX);
        let text = value_to_json(&ty, &bytes);
        prop_assert_eq!(valid.is_ok(), text.is_ok());
        let signature = Signature { params: Vec::new(), result: Some(ty.clone()), is_async: false };
        prop_assert_eq!(valid.is_ok(), result_to_wave(&signature, &bytes).is_ok());
        if let Ok(text) = text {
            // One value, one encoding.
            prop_assert_eq!(value_from_json(&ty, &text, MAX).unwrap(), bytes);
        }
    }

    #[test]
    fn damaged_text_never_panics_and_is_json_when_it_is_read(
        (signature, args, _) in values(),
        at in any::<prop::sample::Index>(),
        with in "[\\[\\]{}\",:\\\\u0-9a-z.\\-+é ]{0,3}",
        cut in 0usize..3,
    ) {
        let damage = |text: String| {
            let mut chars: Vec<char> = text.chars().collect();
            let at = at.index(chars.len() + 1).min(chars.len());
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, with.chars());
            chars.into_iter().collect::<String>()
        };
        let json = damage(args_to_json(&signature, &args).unwrap());
        if args_from_json(&signature, &json, MAX).is_ok() && !json.trim().is_empty() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{}", json);
        }
        let _ = args_from_wave(&signature, &damage(args_to_wave(&signature, &args).unwrap()), MAX);
    }

    #[test]
    fn equal_hashes_mean_equal_structures((one, _, _) in values(), (other, _, _) in values()) {
        let same = one.params.iter().map(|param| &param.1).eq(other.params.iter().map(|param| &param.1))
            && one.result == other.result;
        prop_assert_eq!(same, method_hash(&one) == method_hash(&other));
    }
}
