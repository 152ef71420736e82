use std::sync::Arc;

use granary_wit::{Case, Field};
use proptest::prelude::*;

use super::*;

const BYTES_MAX: usize = 1 << 20;

fn signature(ty: &Type) -> Signature {
    Signature { params: vec![("p".to_owned(), ty.clone())], result: Some(ty.clone()), is_async: false }
}

/// A type, and a value of it.
fn typed_value() -> impl Strategy<Value = (Type, Val)> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(|it| (Type::Bool, Val::Bool(it))),
        any::<u8>().prop_map(|it| (Type::U8, Val::U8(it))),
        any::<u16>().prop_map(|it| (Type::U16, Val::U16(it))),
        any::<u32>().prop_map(|it| (Type::U32, Val::U32(it))),
        any::<u64>().prop_map(|it| (Type::U64, Val::U64(it))),
        any::<i8>().prop_map(|it| (Type::S8, Val::S8(it))),
        any::<i16>().prop_map(|it| (Type::S16, Val::S16(it))),
        any::<i32>().prop_map(|it| (Type::S32, Val::S32(it))),
        any::<i64>().prop_map(|it| (Type::S64, Val::S64(it))),
        (-1e30_f32..1e30).prop_map(|it| (Type::F32, Val::Float32(it))),
        (-1e300_f64..1e300).prop_map(|it| (Type::F64, Val::Float64(it))),
        any::<char>().prop_map(|it| (Type::Char, Val::Char(it))),
        "\\PC{0,8}".prop_map(|it| (Type::String, Val::String(it))),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|it| (
            Type::List(Arc::new(Type::U8)),
            Val::List(it.into_iter().map(Val::U8).collect())
        )),
        (0_usize..3).prop_map(|it| {
            let names: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
            (Type::Enum(names.clone().into()), Val::Enum(names[it].to_string()))
        }),
        prop::collection::btree_set(0_usize..40, 0..40).prop_map(|set| {
            let names: Vec<Arc<str>> = (0..40).map(|it| Arc::from(format!("f{it}"))).collect();
            let set = set.into_iter().map(|it| names[it].to_string()).collect();
            (Type::Flags(names.into()), Val::Flags(set))
        }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = (inner.clone(), 0_usize..5)
            .prop_map(|((ty, value), count)| (Type::List(Arc::new(ty)), Val::List(vec![value; count])));
        let option = (inner.clone(), any::<bool>()).prop_map(|((ty, value), some)| {
            (Type::Option(Arc::new(ty)), Val::Option(some.then(|| Box::new(value))))
        });
        let result = (inner.clone(), any::<bool>(), any::<bool>()).prop_map(|((ty, value), is_ok, other)| {
            let ty = Some(Arc::new(ty));
            let other = other.then(|| Arc::new(Type::String));
            let payload = Some(Box::new(value));
            if is_ok {
                (Type::Result { ok: ty, err: other }, Val::Result(Ok(payload)))
            } else {
                (Type::Result { ok: other, err: ty }, Val::Result(Err(payload)))
            }
        });
        let tuple = prop::collection::vec(inner.clone(), 1..4).prop_map(|members| {
            let (types, values): (Vec<_>, Vec<_>) = members.into_iter().unzip();
            (Type::Tuple(types.into()), Val::Tuple(values))
        });
        let record = prop::collection::vec(inner.clone(), 1..4).prop_map(|members| {
            let named = members.into_iter().enumerate();
            let (fields, values): (Vec<_>, Vec<_>) = named
                .map(|(at, (ty, value))| {
                    (Field { name: format!("m{at}").into(), ty }, (format!("m{at}"), value))
                })
                .unzip();
            (Type::Record(fields.into()), Val::Record(values))
        });
        let variant = (inner, any::<bool>()).prop_map(|((ty, value), payload)| {
            let cases =
                vec![Case { name: "none".into(), ty: None }, Case { name: "some".into(), ty: Some(ty) }];
            let value = if payload {
                Val::Variant("some".to_owned(), Some(Box::new(value)))
            } else {
                Val::Variant("none".to_owned(), None)
            };
            (Type::Variant(cases.into()), value)
        });
        prop_oneof![list, option, result, tuple, record, variant]
    })
}

proptest! {
    #[test]
    fn values_survive_the_wire((ty, value) in typed_value()) {
        let signature = signature(&ty);
        let bytes = encode_params(&signature, std::slice::from_ref(&value), BYTES_MAX).unwrap();
        granary_wit::validate_args(&signature, &bytes, BYTES_MAX).unwrap();
        let values = decode_params(&signature, &bytes).unwrap();
        prop_assert_eq!(&values, &vec![value.clone()]);
        let again = encode_result(&signature, values.first(), BYTES_MAX).unwrap();
        prop_assert_eq!(&again, &bytes);
        prop_assert_eq!(decode_result(&signature, &again).unwrap(), Some(value));
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error((ty, _) in typed_value(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let signature = signature(&ty);
        if let Ok(values) = decode_params(&signature, &bytes) {
            // Each value has one encoding.
            prop_assert_eq!(encode_params(&signature, &values, BYTES_MAX).unwrap(), bytes);
        }
    }
}

#[test]
fn a_mebibyte_of_bytes_passes_and_more_than_the_limit_does_not() {
    let signature = signature(&Type::List(Arc::new(Type::U8)));
    let value = Val::List(vec![Val::U8(7); BYTES_MAX]);
    let bytes = encode_result(&signature, Some(&value), BYTES_MAX + 4).unwrap();
    assert_eq!(bytes.len(), BYTES_MAX + 4);
    assert_eq!(decode_result(&signature, &bytes).unwrap(), Some(value.clone()));
    assert!(encode_result(&signature, Some(&value), BYTES_MAX).unwrap_err().is_too_large());
}

#[test]
fn a_value_of_another_type_is_an_error() {
    let signature = signature(&Type::U8);
    assert_eq!(encode_params(&signature, &[Val::U16(1)], 10), Err(ValueError::Type("number")));
    assert_eq!(encode_params(&signature, &[], 10), Err(ValueError::Count));
    assert_eq!(encode_result(&signature, None, 10), Err(ValueError::Count));
}
