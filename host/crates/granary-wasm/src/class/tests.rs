use super::*;
use crate::testing::{class, dummy};

fn two_interfaces() -> Arc<Class> {
    let wit = "package acme:bank@1.0.0;
        interface account { deposit: func(amount: u64) -> u64; close: func(); }
        interface audit { close: func(); }
        world w { export account; export audit; }";
    let bytes =
        crate::testing::with_section(dummy(wit), "granary-manifest", br#"{"v":1,"grain-type":"bank"}"#);
    class(&bytes).0
}

#[test]
fn methods_are_found_by_short_and_by_full_names() {
    let class = two_interfaces();
    let full = class.method("acme:bank/account.deposit").unwrap();
    assert_eq!(class.method("deposit").unwrap(), full);
    assert_eq!(class.method("account.deposit").unwrap(), full);
    assert_eq!(class.method("acme:bank/account@1.0.0.deposit").unwrap(), full);
    assert_eq!(&*class.method("audit.close").unwrap().interface, "acme:bank/audit");
}

#[test]
fn unknown_and_ambiguous_names_list_what_there_is() {
    let class = two_interfaces();
    let error = class.method("close").unwrap_err().to_string();
    assert_eq!(
        error,
        "`close` is ambiguous in grain type bank: acme:bank/account.close, acme:bank/audit.close"
    );
    let error = class.method("withdraw").unwrap_err().to_string();
    assert!(
        error.starts_with("grain type bank has no method `withdraw`; it has acme:bank/account.close"),
        "{error}"
    );
    assert!(class.method("other.deposit").is_err());
    assert!(class.method("").is_err());
}

#[test]
fn arguments_that_do_not_fit_are_located() {
    let class = two_interfaces();
    let method = class.method("deposit").unwrap();
    let bytes = class.args_from_text(&method, TextFormat::Json, "[5]").unwrap();
    assert_eq!(bytes, 5_u64.to_le_bytes());
    assert_eq!(class.args_from_text(&method, TextFormat::Wave, "5").unwrap(), bytes);
    assert_eq!(class.result_to_text(&method, TextFormat::Wave, &bytes).unwrap(), "5");
    for (format, text) in [
        (TextFormat::Json, "[]"),
        (TextFormat::Json, "[1, 2]"),
        (TextFormat::Json, r#"["much"]"#),
        (TextFormat::Wave, "-1"),
        (TextFormat::Wave, "1, 2"),
    ] {
        let error = class.args_from_text(&method, format, text).unwrap_err();
        assert!(matches!(error, ClassError::Value { .. }), "{text}: {error}");
    }
}
