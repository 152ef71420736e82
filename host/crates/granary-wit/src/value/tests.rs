use super::{Decoder, Encoder, WireError, validate, validate_args, validate_result};
use crate::Type;
use crate::testing::{param, signature};

const MAX: usize = 1 << 20;

fn check(ty: &Type, bytes: &[u8]) -> Result<(), WireError> {
    validate(ty, bytes, MAX)
}

#[test]
fn list_longer_than_its_bytes_is_refused_at_once() {
    let ty = param("", "list<u64>");
    let error = check(&ty, &[255, 255, 255, 255, 0]).unwrap_err();
    assert_eq!(error, WireError::End { at: 4, wanted: 0xffff_ffff, left: 1 });
    assert_eq!(error.to_string(), "encoded value: byte 4: 4294967295 more bytes expected, 1 left");
    check(&param("", "string"), &[5, 0, 0, 0, b'a']).unwrap_err();
    check(&param("", "list<u8>"), &[2, 0, 0, 0, 1]).unwrap_err();
}

#[test]
fn what_is_no_value_is_refused_with_its_place() {
    let types = "enum e { a, b } flags g { a, b, c } variant v { a, b(bool) }";
    let cases: [(&str, &[u8], WireError); 11] = [
        ("bool", &[2], WireError::Invalid { at: 0, what: "bool, 0 or 1" }),
        ("char", &[0, 0xd8, 0, 0], WireError::Invalid { at: 0, what: "Unicode scalar value" }),
        ("char", &[0, 0, 0x11, 0], WireError::Invalid { at: 0, what: "Unicode scalar value" }),
        ("string", &[1, 0, 0, 0, 0xff], WireError::Invalid { at: 0, what: "UTF-8 string" }),
        ("e", &[2, 0, 0, 0], WireError::Case { at: 0, index: 2, cases: 2 }),
        ("option<u8>", &[2, 0, 0, 0], WireError::Case { at: 0, index: 2, cases: 2 }),
        ("tuple<u8, result>", &[7, 9, 0, 0, 0], WireError::Case { at: 1, index: 9, cases: 2 }),
        ("v", &[1, 0, 0, 0, 3], WireError::Invalid { at: 4, what: "bool, 0 or 1" }),
        ("g", &[8, 0, 0, 0], WireError::Invalid { at: 0, what: "set of known flags" }),
        ("u8", &[1, 2], WireError::Trailing { at: 1, left: 1 }),
        ("u32", &[1, 2], WireError::End { at: 0, wanted: 4, left: 2 }),
    ];
    for (ty, bytes, expected) in cases {
        assert_eq!(check(&param(types, ty), bytes), Err(expected), "{ty}");
    }
}

#[test]
fn one_nan_only() {
    check(&Type::F32, &0x7fc0_0000u32.to_le_bytes()).unwrap();
    check(&Type::F32, &0x7fc0_0001u32.to_le_bytes()).unwrap_err();
    check(&Type::F64, &0x7ff8_0000_0000_0000u64.to_le_bytes()).unwrap();
    check(&Type::F64, &0xfff8_0000_0000_0000u64.to_le_bytes()).unwrap_err();
    let mut encoder = Encoder::new(MAX);
    encoder.f32(f32::from_bits(0xffff_ffff)).unwrap();
    encoder.f64(f64::from_bits(u64::MAX)).unwrap();
    let bytes = encoder.finish();
    validate_args(&signature("", "func(a: f32, b: f64)"), &bytes, MAX).unwrap();
}

#[test]
fn flags_fill_as_many_words_as_they_need() {
    for names in [1, 31, 32, 33, 64, 65] {
        let all: Vec<String> = (0..names).map(|index| format!("n{index}")).collect();
        let ty = param(&format!("flags g {{ {} }}", all.join(", ")), "g");
        let mut encoder = Encoder::new(MAX);
        let set: Vec<usize> = (0..names).filter(|index| index % 3 == 0 || index + 1 == names).collect();
        encoder.flags(names, set.iter().copied()).unwrap();
        let bytes = encoder.finish();
        assert_eq!(bytes.len(), names.div_ceil(32) * 4);
        check(&ty, &bytes).unwrap();
        assert_eq!(Decoder::new(&bytes).flags(names).unwrap().collect::<Vec<_>>(), set);
    }
}

#[test]
fn size_is_bounded_both_ways() {
    assert_eq!(validate(&Type::U64, &[0; 8], 7), Err(WireError::TooLarge { max: 7 }));
    let mut encoder = Encoder::new(7);
    encoder.u32(1).unwrap();
    assert_eq!(encoder.u32(1), Err(WireError::TooLarge { max: 7 }));
}

#[test]
fn arguments_and_results_are_whole() {
    let signature = signature("", "func(a: u8, b: u8)");
    validate_args(&signature, &[1, 2], MAX).unwrap();
    validate_args(&signature, &[1], MAX).unwrap_err();
    validate_args(&signature, &[1, 2, 3], MAX).unwrap_err();
    validate_result(&signature, &[], MAX).unwrap();
    validate_result(&signature, &[0], MAX).unwrap_err();
}

#[test]
fn list_of_unknown_length_gets_its_count_at_the_end() {
    let mut encoder = Encoder::new(MAX);
    let mark = encoder.begin_list().unwrap();
    encoder.bool(true).unwrap();
    encoder.bool(false).unwrap();
    encoder.end_list(mark, 2).unwrap();
    assert_eq!(encoder.finish(), [2, 0, 0, 0, 1, 0]);
}
