use std::fmt::Write as _;

use super::*;
use crate::testing::{WASI, component, dummy, dummy_async, with_section};

fn error(bytes: &[u8]) -> String {
    inspect(bytes).unwrap_err().to_string()
}

fn overrides(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn world(items: &str) -> String {
    format!("package acme:bank@1.2.0; {CONTRACT} world w {{ {items} }}")
}

const CONTRACT: &str = "
interface types { record money { cents: u64, currency: string } }
interface account {
    use types.{money};
    variant account-error { insufficient(money) }
    deposit: func(amount: money) -> result<u64, account-error>;
    touch: func();
}
interface audit { list-all: func() -> list<string>; }
";

#[test]
fn a_grain_is_described_completely() {
    let inspection = inspect(&dummy(&world(
        "export account; export granary:grain/lifecycle@0.1.0; export granary:grain/migration@0.1.0;
         import granary:grain/state@0.1.0;",
    )))
    .unwrap();
    assert_eq!(inspection.grain_type.as_str(), "account");
    let info = inspection.class_info(&BTreeMap::new()).unwrap();
    assert!(info.has_lifecycle && info.has_migration);
    assert_eq!(info.interfaces.len(), 1);
    assert_eq!(
        (info.interfaces[0].id.as_str(), info.interfaces[0].version.as_str()),
        ("acme:bank/account", "1.2.0")
    );
    let deposit = &info.interfaces[0].methods["deposit"];
    assert!(deposit.signature.contains("cents: u64"), "{}", deposit.signature);
    assert!(!deposit.no_result && info.interfaces[0].methods["touch"].no_result);
    assert!(deposit.accepts(&deposit.hash) && deposit.accepts(&deposit.params_hash));
    assert_eq!(inspection.imports, ["granary:grain/state@0.1.0"]);
    let json = serde_json::to_value(&inspection).unwrap();
    assert_eq!(json["interfaces"][0]["methods"]["deposit"]["hash"], deposit.hash.to_string());
    assert_eq!(json["digest"], info.digest.to_string());
}

#[test]
fn what_is_no_component_is_named() {
    let core = wat::parse_str("(module)").unwrap();
    for (bytes, expected) in [
        (&b""[..], "an empty file"),
        (&core[..], "a core module, not a component; build for wasm32-wasip2"),
        (b"\0asm", "ends after 4 bytes"),
        (b"\0asm\x02\0\0\0", "unknown format version"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"\x7fELF....", "ELF"),
        (b"(component)", "WebAssembly text"),
        ("hällo\n".as_bytes(), "a text file"),
        (b"\x01\x02\x03", "begins with byte 0x01"),
    ] {
        let error = error(bytes);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn damage_is_located() {
    let good = dummy(&world("export account;"));
    for cut in [9, good.len() / 2, good.len() - 1] {
        let error = inspect(&good[..cut]).unwrap_err();
        assert!(
            matches!(error, InspectError::Malformed { .. } | InspectError::Invalid { .. }),
            "{cut}: {error}"
        );
        assert!(error.to_string().contains("at byte"), "{error}");
    }
    let mut garbage = good[..8].to_vec();
    garbage.extend_from_slice(&[0xaa; 100]);
    assert!(error(&garbage).contains("at byte"), "{}", error(&garbage));
    assert!(matches!(inspect(&vec![0; (50 << 20) + 1]), Err(InspectError::TooLarge { .. })));
}

/// Every single changed byte gives a description or an error, and nothing else.
#[test]
fn no_single_byte_makes_it_fail_badly() {
    let good = dummy(&world("export account; import granary:grain/context@0.1.0;"));
    for position in (8..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[position] ^= 0x15;
        let _ = inspect(&bad);
    }
}

#[test]
fn a_component_without_a_grain_interface_says_what_it_exports() {
    assert!(error(&dummy(&world("export types;"))).contains("exports no grain interface"));
    let error = error(&dummy(&world("export granary:grain/lifecycle@0.1.0;")));
    assert!(error.contains("only granary:grain/lifecycle@0.1.0"), "{error}");
}

#[test]
fn an_export_written_inside_the_world_beside_a_grain_interface_is_left_alone() {
    let items = "interface a { f: func(); } world w { export a; export start: interface { init: func(); } }";
    let inspection = inspect(&dummy(&format!("package acme:x; {items}"))).unwrap();
    assert_eq!(inspection.interfaces.len(), 1);
    assert_eq!(inspection.other_exports, ["start"]);
}

#[test]
fn what_a_grain_interface_may_not_hold_is_named() {
    let cases = [
        ("interface a { resource r; f: func(); } world w { export a; }", "`r` is a resource"),
        ("world w { export f: func(); export g: func(); }", "functions `f`, `g` are exported by the world"),
        ("world w { export a: interface { f: func(); } }", "`a` is written inside the world"),
        ("interface a { f: func() -> stream<u8>; } world w { export a; }", "stream"),
        ("interface a { f: func() -> future<u8>; } world w { export a; }", "future"),
    ];
    for (items, expected) in cases {
        let error = error(&dummy(&format!("package acme:x; {items}")));
        assert!(error.contains(expected), "{items}: {error}");
    }
}

#[test]
fn several_interfaces_need_a_name() {
    let bytes = dummy(&world("export account; export audit;"));
    let error = error(&bytes);
    assert!(error.contains("account, audit"), "{error}");
    let named = with_section(bytes, "granary-manifest", br#"{"v":1,"grain-type":"ledger"}"#);
    assert_eq!(inspect(&named).unwrap().grain_type.as_str(), "ledger");
}

#[test]
fn all_unknown_imports_are_named_at_once() {
    let wit = format!(
        "package acme:x; {WASI}
         package wasi:http@0.2.6 {{ interface handler {{ handle: func(); }} }}
         package wasi:keyvalue@0.1.0 {{ interface store {{ get: func(); }} }}
         interface a {{ f: func(); }}
         world w {{
            import wasi:http/handler@0.2.6; import wasi:keyvalue/store@0.1.0; import wasi:cli/environment@0.2.6;
            export a;
         }}"
    );
    let error = error(&dummy(&wit));
    assert!(error.contains("wasi:http/handler@0.2.6 is not offered"), "{error}");
    assert!(error.contains("wasi:keyvalue/store@0.1.0 is not offered"), "{error}");
    assert!(!error.contains("environment"), "{error}");
}

#[test]
fn importing_a_grains_functions_is_answered_with_the_derived_package() {
    let error = error(&dummy(&world("import account; export audit;")));
    assert!(error.contains("import acme:bank-refs/account@1.2.0 instead"), "{error}");
}

fn derived(functions: &str, interface: &str) -> Vec<u8> {
    dummy(&format!(
        "package acme:x;
         package acme:bank-refs@1.2.0 {{
            interface {interface} {{ use granary:grain/types@0.1.0.{{grain-ref, call-error}}; {functions} }}
         }}
         interface a {{ f: func(); }}
         world w {{ import acme:bank-refs/{interface}@1.2.0; export a; }}"
    ))
}

#[test]
fn references_carry_the_hashes_of_the_methods_behind_them() {
    let target = inspect(&dummy(
        "package acme:bank@1.2.0; interface account { deposit: func(amount: u64) -> u64; } world w { export account; }",
    ))
    .unwrap();
    let target = target.class_info(&BTreeMap::new()).unwrap();
    let method = &target.interfaces[0].methods["deposit"];
    let waiting = derived("deposit: func(to: grain-ref, amount: u64) -> result<u64, call-error>;", "account");
    let info = inspect(&waiting).unwrap().class_info(&BTreeMap::new()).unwrap();
    assert_eq!(info.references[0].id, "acme:bank/account");
    assert_eq!(info.references[0].methods["deposit"].hash, method.hash);
    let one_way =
        derived("deposit: func(to: grain-ref, amount: u64) -> result<_, call-error>;", "account-send");
    let inspection = inspect(&one_way).unwrap();
    let info = inspection.class_info(&BTreeMap::new()).unwrap();
    assert_eq!(info.references[0].id, "acme:bank/account");
    assert_eq!(info.references[0].methods["deposit"].hash, method.params_hash);
    assert_eq!(serde_json::to_value(&inspection).unwrap()["references"][0]["one_way"], true);
}

#[test]
fn derived_imports_of_another_shape_are_refused() {
    let error1 = error(&derived("deposit: func(amount: u64) -> result<u64, call-error>;", "account"));
    assert!(error1.contains("deposit") && error1.contains("grain-ref"), "{error1}");
    let error2 = error(&derived("deposit: func(to: grain-ref) -> u64;", "account"));
    assert!(error2.contains("call-error"), "{error2}");
    let error3 =
        error(&derived("deposit: async func(to: grain-ref) -> result<u64, call-error>;", "account-async"));
    assert!(error3.contains("without `-async`"), "{error3}");
    let derived = "deposit: func(to: grain-ref) -> result<u64, call-error>;";
    let wit =
        asynchronous_wit(&["account-async"]).replace(&format!("deposit: async {}", &derived[9..]), derived);
    let error4 = error(&dummy_async(&wit));
    assert!(error4.contains("account-async") && error4.contains("must be an `async func`"), "{error4}");
}

#[test]
fn another_contract_is_refused_with_function_and_types() {
    // A package of the same name and version with another type, as an old SDK might have had it.
    let wit =
        "package acme:x; interface a { f: func(); } world w { import granary:grain/logging@0.1.0; export a; }
        package granary:grain@0.1.0 { interface logging { log: func(message: string); } }";
    let mut resolve = Resolve::default();
    let package = resolve.push_source("t.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let mut core = wit_component::dummy_module(&resolve, world, wit_parser::ManglingAndAbi::Standard32);
    wit_component::embed_component_metadata(&mut core, &resolve, world, wit_component::StringEncoding::UTF8)
        .unwrap();
    let bytes = wit_component::ComponentEncoder::default().module(&core).unwrap().encode().unwrap();
    let error = error(&bytes);
    assert!(error.contains("granary:grain/logging") && error.contains("`log`"), "{error}");
    assert!(error.contains("this host's contract 0.1.0"), "{error}");
}

#[test]
fn features_that_are_off_are_refused_with_their_place() {
    let bytes = component(
        "package acme:x; interface a { f: func(); } world w { export a; }",
        r#"(module (memory (export "memory") i64 1) (func (export "acme:x/a#f")))"#,
    );
    let error = error(&bytes);
    assert!(error.contains("memory64"), "{error}");
}

#[test]
fn a_component_that_starts_beyond_its_memory_limit_is_refused() {
    let bytes = component(
        "package acme:x; interface a { f: func(); } world w { export a; }",
        r#"(module (memory (export "memory") 2000) (func (export "acme:x/a#f")))"#,
    );
    assert!(error(&bytes).contains("131072000 bytes"), "{}", error(&bytes));
    let more = with_section(bytes, "granary-manifest", br#"{"v":1,"granary.memory-max":"256MiB"}"#);
    assert_eq!(inspect(&more).unwrap().limits.memory_bytes_max, 256 << 20);
}

#[test]
fn the_manifest_section_is_one_and_bounded() {
    let bytes = dummy(&world("export account;"));
    let section = |data: &[u8]| with_section(bytes.clone(), "granary-manifest", data);
    let ok = br#"{"v":1,"placement-strategy":"prefer-local","reentrant":false,"own-word":7}"#;
    let inspection = inspect(&section(ok)).unwrap();
    assert_eq!(inspection.properties["placement-strategy"], "prefer-local");
    assert_eq!(inspection.properties["reentrant"], "false");
    assert_eq!(inspection.properties["own-word"], "7");
    // The same twice is one statement.
    assert!(inspect(&with_section(section(ok), "granary-manifest", ok)).is_ok());
    let two = with_section(section(ok), "granary-manifest", br#"{"v":1}"#);
    assert!(error(&two).contains("2 sections"), "{}", error(&two));
    let mut long = String::from(r#"{"v":1"#);
    for index in 0..1_000 {
        write!(long, r#","property-{index}":"value""#).unwrap();
    }
    long.push('}');
    for (data, expected) in [
        (long.as_bytes(), "more than 16384 bytes"),
        (b"{}", "no version"),
        (br#"{"v":2}"#, "version 2"),
        (b"[1]", "not a JSON object"),
        (br#"{"v":1}{"v":1}"#, "cannot be read"),
        (br#"{"v":1,"placement-strategy":"everywhere"}"#, "`placement-strategy`"),
    ] {
        let error = error(&section(data));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_deployment_overrides_properties() {
    let inspection = inspect(&dummy(&world("export account;"))).unwrap();
    let info = inspection.class_info(&overrides("grain-type", "savings")).unwrap();
    assert_eq!(info.grain_type.as_str(), "savings");
    let info = inspection.class_info(&overrides("idle-duration", "90s")).unwrap();
    assert_eq!(info.limits.idle_age.unwrap().as_secs(), 90);
    assert!(inspection.class_info(&overrides("idle-duration", "soon")).is_err());
}

#[test]
fn a_synchronous_component_cannot_be_reentrant_by_its_own_word_or_the_deployments() {
    let bytes = dummy(&world("export account;"));
    for manifest in [&br#"{"v":1,"reentrant":true}"#[..], br#"{"v":1,"reentrant":"true"}"#] {
        let error = error(&with_section(bytes.clone(), "granary-manifest", manifest));
        assert!(error.contains("`reentrant`") && error.contains("remove the property"), "{error}");
    }
    let inspection = inspect(&bytes).unwrap();
    assert_eq!(inspection.class_info(&overrides("reentrant", "true")).unwrap_err(), PropertyError::Reentrant);
    let info = inspection.class_info(&overrides("reentrant", "false")).unwrap();
    assert!(!info.reentrant && !info.asynchronous);
}

/// A component with an `async func`, that calls accounts in these ways.
fn asynchronous(imports: &[&str]) -> Vec<u8> {
    dummy_async(&asynchronous_wit(imports))
}

fn asynchronous_wit(imports: &[&str]) -> String {
    let imports: String =
        imports.iter().map(|name| format!("import acme:bank-refs/{name}@1.0.0; ")).collect();
    format!(
        "package acme:x;
        package acme:bank-refs@1.0.0 {{
            interface account {{
                use granary:grain/types@0.1.0.{{grain-ref, call-error}};
                deposit: func(to: grain-ref) -> result<u64, call-error>;
            }}
            interface account-async {{
                use granary:grain/types@0.1.0.{{grain-ref, call-error}};
                deposit: async func(to: grain-ref) -> result<u64, call-error>;
            }}
        }}
        interface x {{ f: async func() -> u64; g: func(); }}
        world w {{ {imports} export x; }}"
    )
}

#[test]
fn a_component_with_an_async_func_needs_the_asynchronous_engine_and_may_be_reentrant() {
    let bytes = asynchronous(&["account-async"]);
    let inspection = inspect(&bytes).unwrap();
    assert!(inspection.engine(&BTreeMap::new()).asynchronous);
    let info = inspection.class_info(&BTreeMap::new()).unwrap();
    assert!(info.asynchronous && !info.reentrant, "overlapping turns are asked for");
    assert_eq!(info.references[0].id, "acme:bank/account");
    let inspection =
        inspect(&with_section(bytes, "granary-manifest", br#"{"v":1,"reentrant":true}"#)).unwrap();
    assert!(inspection.class_info(&BTreeMap::new()).unwrap().reentrant);
    assert!(!inspection.class_info(&overrides("reentrant", "false")).unwrap().reentrant);
    let report = serde_json::to_value(&inspection).unwrap();
    assert_eq!((&report["asynchronous"], &report["reentrant"]), (&true.into(), &true.into()));
}

#[test]
fn a_reentrant_component_that_waits_synchronously_is_warned() {
    let bytes = asynchronous(&["account", "account-async"]);
    let inspection = inspect(&bytes).unwrap();
    assert_eq!(inspection.notes, [""; 0], "its turns do not overlap");
    let info = inspection.class_info(&overrides("reentrant", "true")).unwrap();
    let note = &inspection.notes_of(&info)[0];
    assert!(note.contains("import acme:bank-refs/account-async@1.0.0 instead"), "{note}");
    let own = inspect(&with_section(bytes, "granary-manifest", br#"{"v":1,"reentrant":true}"#)).unwrap();
    assert_eq!(own.notes, std::slice::from_ref(note));
    assert_eq!(own.notes_of(&info), [""; 0], "said once");
}

#[test]
fn asynchronous_hooks_are_refused_by_name() {
    let wit = "package acme:x; interface x { f: async func(); }
        package granary:grain@0.1.0 { interface lifecycle {
            enum deactivation-reason { shutting-down, idle, application-requested, migrating, duplicate, runtime-requested }
            activate: async func() -> result<_, string>; deactivate: func(reason: deactivation-reason);
        } }
        world w { export x; export granary:grain/lifecycle@0.1.0; }";
    let mut resolve = Resolve::default();
    let package = resolve.push_source("t.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let error = error(&crate::testing::dummy_async_of(&resolve, world));
    assert!(error.contains("`activate` is") && error.contains("async func"), "{error}");
}
