use super::*;
use crate::engine::EngineConfig;
use crate::inspect::inspect;
use crate::testing::{WASI, class, dummy, dummy_async};

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

/// `wasi:http` as far as it makes requests, in the shape of version 0.2.
const HTTP: &str = r#"
package wasi:http@0.2.6 {
    interface types {
        use wasi:io/streams@0.2.6.{output-stream};
        use wasi:io/poll@0.2.6.{pollable};
        use wasi:io/error@0.2.6.{error as io-error};
        variant method { get, head, post, put, delete, connect, options, trace, patch, other(string) }
        variant header-error { invalid-syntax, forbidden, immutable }
        record DNS-error-payload { rcode: option<string>, info-code: option<u16> }
        record TLS-alert-received-payload { alert-id: option<u8>, alert-message: option<string> }
        record field-size-payload { field-name: option<string>, field-size: option<u32> }
        variant error-code {
            DNS-timeout, DNS-error(DNS-error-payload), destination-not-found, destination-unavailable,
            destination-IP-prohibited, destination-IP-unroutable, connection-refused, connection-terminated,
            connection-timeout, connection-read-timeout, connection-write-timeout, connection-limit-reached,
            TLS-protocol-error, TLS-certificate-error, TLS-alert-received(TLS-alert-received-payload),
            HTTP-request-denied, HTTP-request-length-required, HTTP-request-body-size(option<u64>),
            HTTP-request-method-invalid, HTTP-request-URI-invalid, HTTP-request-URI-too-long,
            HTTP-request-header-section-size(option<u32>), HTTP-request-header-size(option<field-size-payload>),
            HTTP-request-trailer-section-size(option<u32>), HTTP-request-trailer-size(field-size-payload),
            HTTP-response-incomplete, HTTP-response-header-section-size(option<u32>),
            HTTP-response-header-size(field-size-payload), HTTP-response-body-size(option<u64>),
            HTTP-response-trailer-section-size(option<u32>), HTTP-response-trailer-size(field-size-payload),
            HTTP-response-transfer-coding(option<string>), HTTP-response-content-coding(option<string>),
            HTTP-response-timeout, HTTP-upgrade-failed, HTTP-protocol-error, loop-detected, configuration-error,
            internal-error(option<string>),
        }
        resource fields {
            constructor();
            from-list: static func(entries: list<tuple<string, list<u8>>>) -> result<fields, header-error>;
            get: func(name: string) -> list<list<u8>>;
            set: func(name: string, value: list<list<u8>>) -> result<_, header-error>;
            append: func(name: string, value: list<u8>) -> result<_, header-error>;
            clone: func() -> fields;
        }
        type headers = fields;
        type trailers = fields;
        resource incoming-request { method: func() -> method; headers: func() -> headers; }
        resource response-outparam {
            set: static func(param: response-outparam, response: result<outgoing-response, error-code>);
        }
        resource outgoing-response { constructor(headers: headers); }
        resource outgoing-request {
            constructor(headers: headers);
            body: func() -> result<outgoing-body>;
            set-method: func(method: method) -> result;
            set-authority: func(authority: option<string>) -> result;
        }
        resource request-options {
            constructor();
            connect-timeout: func() -> option<u64>;
            set-first-byte-timeout: func(duration: option<u64>) -> result;
        }
        resource incoming-response {
            status: func() -> u16; headers: func() -> headers; consume: func() -> result<incoming-body>;
        }
        resource incoming-body { finish: static func(this: incoming-body) -> future-trailers; }
        resource future-trailers {
            subscribe: func() -> pollable;
            get: func() -> option<result<result<option<trailers>, error-code>>>;
        }
        resource outgoing-body {
            write: func() -> result<output-stream>;
            finish: static func(this: outgoing-body, trailers: option<trailers>) -> result<_, error-code>;
        }
        resource future-incoming-response {
            subscribe: func() -> pollable;
            get: func() -> option<result<result<incoming-response, error-code>>>;
        }
        http-error-code: func(err: borrow<io-error>) -> option<error-code>;
    }
    interface outgoing-handler {
        use types.{outgoing-request, request-options, future-incoming-response, error-code};
        handle: func(request: outgoing-request, options: option<request-options>)
            -> result<future-incoming-response, error-code>;
    }
}
"#;

fn sender(method: &str) -> String {
    format!(
        "package acme:x; {WASI} {HTTP}
         interface a {{ f: {method}; }}
         world w {{ import wasi:http/types@0.2.6; import wasi:http/outgoing-handler@0.2.6; export a; }}"
    )
}

#[test]
fn requests_are_linked_in_both_engines_where_they_are_granted() {
    for bytes in [dummy(&sender("func()")), dummy_async(&sender("async func()"))] {
        let inspection = inspect(&bytes).unwrap();
        let nothing = BTreeMap::new();
        let engine = WasmEngine::new(&EngineConfig::default()).unwrap();
        let component = Component::new(engine.of(inspection.engine(&nothing)), &bytes).unwrap();
        let class = |grants: &Grants| Class::new(engine.clone(), &inspection, &component, &nothing, grants);
        let refused = class(&Grants::default()).unwrap_err().to_string();
        for part in ["wasi:http/types@0.2.6", "wasi:http/outgoing-handler@0.2.6", "--allow-http HOST"] {
            assert!(refused.contains(part), "{refused}");
        }
        let granted = Grants::new([], ["example.org".parse().unwrap()], false).unwrap();
        assert_eq!(class(&granted).unwrap().info().asynchronous, inspection.asynchronous);
    }
}
