use super::*;

fn round_trip<T: WitValue + PartialEq + std::fmt::Debug>(value: T, text: &str) {
    assert_eq!(value.to_json().to_string(), text);
    let read = T::from_json(parse(text).unwrap(), &Place::root()).unwrap();
    assert_eq!(read, value);
}

#[test]
fn values_are_written_as_the_table_says() {
    round_trip(u64::MAX, "18446744073709551615");
    round_trip(i64::MIN, "-9223372036854775808");
    round_trip(0.1_f32, "0.1");
    round_trip(5.0_f64, "5.0");
    round_trip(1e300_f64, "1e300");
    round_trip(f64::NEG_INFINITY, "\"-Infinity\"");
    round_trip('é', "\"é\"");
    round_trip("two\n\"lines\"\u{1}".to_owned(), "\"two\\n\\\"lines\\\"\\u0001\"");
    round_trip(b"hello".to_vec(), "\"aGVsbG8=\"");
    round_trip(vec!["a".to_owned()], "[\"a\"]");
    round_trip(None::<u32>, "null");
    round_trip(Some(None::<u32>), "{\"some\":null}");
    round_trip(Some(Some(Some(7_u32))), "{\"some\":{\"some\":7}}");
    round_trip(Ok::<u32, String>(7), "{\"ok\":7}");
    round_trip(Err::<(), ()>(()), "{\"err\":null}");
    round_trip((1_u8, "a".to_owned()), "[1,\"a\"]");
    assert!(f64::from_json(Json::text("NaN"), &Place::root()).unwrap().is_nan());
    assert_eq!((-0.0_f64).to_json().to_string(), "-0.0");
}

#[test]
fn errors_name_the_place() {
    let read = |text: &str| <Vec<(u8, String)>>::from_json(parse(text).unwrap(), &Place::root());
    assert_eq!(read("[[1,2]]").unwrap_err().to_string(), "$[0][1]: expected a string, found a number");
    assert_eq!(read("[[256,\"\"]]").unwrap_err().to_string(), "$[0][0]: 256 is no u8");
    assert_eq!(read("[[1]]").unwrap_err().to_string(), "$[0]: expected 2 items, found 1");
}

#[test]
fn what_is_no_json_is_refused() {
    for text in [
        "",
        "nul",
        "01",
        "1.",
        "1e",
        "-",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"a",
        "\"\n\"",
        "[1] 2",
        "\"\\u12\"",
        "\"\\é\"",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    assert!(parse(&"[".repeat(100_000)).is_err());
    assert_eq!(parse(" [1, \"\\ud83c\\udf3e\"] ").unwrap().to_string(), "[1,\"🌾\"]");
}

#[test]
fn floats_keep_their_last_bit() {
    use proptest::prelude::*;

    proptest!(|(bits in any::<u64>())| {
        let number = f64::from_bits(bits);
        if !number.is_nan() {
            let text = number.to_json().to_string();
            let read = f64::from_json(parse(&text).unwrap(), &Place::root()).unwrap();
            prop_assert_eq!(read.to_bits(), bits, "{}", text);
        }
    });
}
