use std::collections::BTreeMap;

use wit_parser::Resolve;

use super::generate::KEYWORDS;
use super::{ContractTypes, DerivedPackage, Flavour, derive_package, derived_of, is_grain_interface};
use crate::grain::push_grain_package;
use crate::testing::find;
use crate::{Interface, compare};

/// The derived packages of all contracts, by contract name.
fn derive_all(resolve: &Resolve, types: ContractTypes) -> Vec<DerivedPackage> {
    let derived = resolve.packages.iter().filter_map(|(id, _)| derive_package(resolve, id, types));
    let by_name: BTreeMap<String, DerivedPackage> =
        derived.map(|package| (package.contract.clone(), package)).collect();
    by_name.into_values().collect()
}

/// Derives with uses of the contracts' types, and reads everything together again.
fn derived(contracts: &[&str]) -> (Resolve, Vec<DerivedPackage>) {
    derived_with(contracts, ContractTypes::Used)
}

/// Derives from contracts, and reads everything together again.
fn derived_with(contracts: &[&str], types: ContractTypes) -> (Resolve, Vec<DerivedPackage>) {
    let mut resolve = Resolve::default();
    push_grain_package(&mut resolve).unwrap();
    for text in contracts {
        if let Err(error) = resolve.push_source("contract.wit", text) {
            panic!("{}", resolve.render_error(&error));
        }
    }
    let packages = derive_all(&resolve, types);
    for package in &packages {
        if let Err(error) = resolve.push_source(&package.file_name, &package.text) {
            panic!("{}\n{}", resolve.render_error(&error), package.text);
        }
    }
    (resolve, packages)
}

/// Derives with copies of the types and with uses of them, checks that each method is found again behind each flavour,
/// and gives the text with uses.
fn round_trip(contracts: &[&str], interface: &str) -> String {
    let copied = round_trip_of(contracts, interface, ContractTypes::Copied);
    for line in copied.lines().filter_map(|line| line.trim().strip_prefix("use ")) {
        assert!(line.starts_with("granary:grain/types@"), "{copied}");
    }
    round_trip_of(contracts, interface, ContractTypes::Used)
}

fn round_trip_of(contracts: &[&str], interface: &str, types: ContractTypes) -> String {
    let (resolve, packages) = derived_with(contracts, types);
    let methods = Interface::from_resolve(&resolve, find(&resolve, interface)).unwrap();
    let (package, name) = interface.split_once('/').unwrap();
    for flavour in Flavour::ALL {
        let import_name = format!("{package}-refs/{name}{}", flavour.suffix());
        let import = derived_of(&import_name).unwrap();
        assert_eq!((import.interface.as_str(), import.flavour), (interface, flavour));
        let functions = Interface::from_resolve(&resolve, find(&resolve, &import_name)).unwrap().functions;
        assert_eq!(functions.len(), methods.functions.len());
        for (function, signature) in &functions {
            assert_eq!(signature.is_async, flavour == Flavour::Async);
            let found = &methods.functions[function];
            let method = import.method(function, signature).unwrap();
            assert_eq!(flavour.compare(function, found, &method), None);
            assert_eq!(flavour.hash(found), flavour.hash(&method));
            let names =
                |params: &[(String, crate::Type)]| params.iter().map(|p| p.0.clone()).collect::<Vec<_>>();
            assert_eq!(names(&method.params), names(&found.params));
        }
    }
    packages.into_iter().map(|package| package.text).collect()
}

#[test]
fn bank_contract_gives_the_expected_package() {
    let text = round_trip(
        &["package acme:bank@1.0.0;
interface account {
    variant account-error { insufficient(u64) }
    /// Adds to the balance.
    ///
    /// Gives the new balance.
    deposit: func(amount: u64) -> result<u64, account-error>;
    close: func();
}"],
        "acme:bank/account",
    );
    let expected =
        "// Derived from acme:bank@1.0.0: how grains call the grains that implement its interfaces.
// Do not edit; `granary wit refs` writes it again.
package acme:bank-refs@1.0.0;

/// Calls to grains that implement `acme:bank/account`.
interface account {
    use acme:bank/account@1.0.0.{account-error};
    use granary:grain/types@0.1.0.{call-error, grain-ref};

    /// Adds to the balance.
    ///
    /// Gives the new balance.
    deposit: func(to: grain-ref, amount: u64) -> result<result<u64, account-error>, call-error>;

    close: func(to: grain-ref) -> result<_, call-error>;
}

/// One-way calls to grains that implement `acme:bank/account`.
interface account-send {
    use granary:grain/types@0.1.0.{call-error, grain-ref};

    deposit: func(to: grain-ref, amount: u64) -> result<_, call-error>;

    close: func(to: grain-ref) -> result<_, call-error>;
}

/// Asynchronous calls to grains that implement `acme:bank/account`.
interface account-async {
    use acme:bank/account@1.0.0.{account-error};
    use granary:grain/types@0.1.0.{call-error, grain-ref};

    deposit: async func(to: grain-ref, amount: u64) -> result<result<u64, account-error>, call-error>;

    close: async func(to: grain-ref) -> result<_, call-error>;
}
";
    assert_eq!(text, expected);
}

#[test]
fn a_package_with_copies_needs_no_contract() {
    let text = round_trip_of(
        &["package t:t;
interface shared { record point { x: s32, of: option<shape> } enum shape { dot, %list } type alias = point; }
interface i {
    use shared.{point as spot, alias};
    /// Kept.
    variant point { none, one(spot), named(string) }
    flags rights { read, write }
    type name = string;
    move: func(a: point, b: alias, c: list<rights>) -> result<name, spot>;
}"],
        "t:t/i",
        ContractTypes::Copied,
    );
    let start = text.find("interface i {").unwrap();
    let expected = "interface i {
    use granary:grain/types@0.1.0.{call-error, grain-ref};

    enum shape {
        dot,
        %list,
    }

    record spot {
        x: s32,
        of: option<shape>,
    }

    /// Kept.
    variant point {
        none,
        one(spot),
        named(string),
    }

    flags rights {
        read,
        write,
    }

    type name = string;

    move: func(to: grain-ref, a: point, b: spot, c: list<rights>) -> result<result<name, spot>, call-error>;
}
";
    assert_eq!(text[start..start + expected.len()], *expected);
}

#[test]
fn every_shape_of_type_survives() {
    round_trip(
        &["package t:t;
interface i {
    record r { a: u8, b: list<string> }
    variant v { none, one(r) }
    enum e { x, y }
    flags g { p, q }
    type text = string;
    type pair = tuple<r, v>;
    numbers: func(a: u8, b: u16, c: u32, d: u64, e: s8, f: s16, g: s32, h: s64, i: f32, j: f64) -> bool;
    texts: func(a: char, b: text) -> string;
    lists: func(a: list<list<r>>) -> list<u8>;
    options: func(a: option<option<v>>) -> option<e>;
    results: func(a: result, b: result<r>, c: result<_, v>) -> result<g, e>;
    tuples: func(a: tuple<u8>, b: tuple<r, pair>) -> tuple<e, g>;
    nothing: func();
    is-async: async func(a: r) -> result<option<result<_, v>>, list<tuple<e, result>>>;
}"],
        "t:t/i",
    );
}

#[test]
fn types_of_other_interfaces_and_packages_are_used_through_the_contract() {
    round_trip(
        &[
            "package o:other@0.2.1;\ninterface money { record amount { units: u64 } }",
            "package t:t@1.0.0-rc.1;
             interface words { enum e { x, y } type money2 = u8; }
             interface i {
                use o:other/money@0.2.1.{amount as sum};
                use words.{e};
                f: func(a: sum, b: e) -> list<sum>;
             }",
        ],
        "t:t/i",
    );
}

#[test]
fn references_in_a_contract_are_the_same_type() {
    let text = round_trip(
        &["package t:t@1.0.0;
           interface i {
             use granary:grain/types@0.1.0.{grain-ref, call-error as failure};
             hand-over: func(heir: grain-ref) -> result<_, failure>;
           }"],
        "t:t/i",
    );
    assert!(
        text.contains(
            "hand-over: func(to: grain-ref, heir: grain-ref) -> result<result<_, call-error>, call-error>;"
        ),
        "{text}"
    );
    assert!(!text.contains("use t:t/i"), "{text}");
}

#[test]
fn names_that_clash_get_another() {
    let text = round_trip(
        &["package t:t;
           interface i {
             record grain-ref { x: u8 }
             enum granary-call-error { a }
             to: func(to: grain-ref, to-grain: u8) -> granary-call-error;
             call-error: func();
           }"],
        "t:t/i",
    );
    assert!(
        text.contains("{call-error as granary-granary-call-error, grain-ref as granary-grain-ref}"),
        "{text}"
    );
    assert!(
        text.contains("to: func(to-grain-grain: granary-grain-ref, to: grain-ref, to-grain: u8)"),
        "{text}"
    );
}

#[test]
fn keywords_are_escaped_everywhere() {
    for keyword in KEYWORDS {
        let contract = format!(
            "package %{keyword}:%{keyword}@1.0.0;
             interface %{keyword} {{
                record k {{ %{keyword}: u8 }}
                %{keyword}: func(%{keyword}: k) -> result<k>;
             }}
             interface more {{
                record %{keyword} {{ a: u8 }}
                f: func(a: %{keyword}) -> option<%{keyword}>;
             }}"
        );
        round_trip(&[&contract], &format!("{keyword}:{keyword}/{keyword}"));
        round_trip(&[&contract], &format!("{keyword}:{keyword}/more"));
    }
}

#[test]
fn one_package_holds_all_grain_interfaces_of_its_contract() {
    let (_, packages) = derived(&[
        "package t:t; interface words { enum e { x } } interface a { f: func(); } interface b { g: func(); }",
        "package s:s; interface c { f: func(); }",
        "package q:q; interface only-types { enum e { x } }",
    ]);
    let names: Vec<_> =
        packages.iter().map(|package| (package.name.as_str(), package.interfaces.len())).collect();
    assert_eq!(names, [("s:s-refs", 1), ("t:t-refs", 2)]);
    assert_eq!(packages[0].file_name, "s-s-refs.wit");
}

#[test]
fn interfaces_that_cannot_be_called_are_skipped_with_the_reason() {
    let (_, packages) = derived(&["package t:t;
        interface a-send { f: func(); } interface files { resource file; open: func() -> file; }
        interface fine { f: func(); }"]);
    let [package] = packages.as_slice() else { panic!("{packages:?}") };
    assert_eq!(package.interfaces, ["fine"]);
    assert!(package.skipped[0].0 == "a-send" && package.skipped[0].1.contains("may not end in `-send`"));
    assert!(package.skipped[1].0 == "files" && package.skipped[1].1.contains("`file` is a resource"));
}

#[test]
fn derived_and_foreign_packages_are_not_derived_again() {
    let (resolve, _) =
        derived(&["package t:t; interface i { f: func(); }", "package wasi:x; interface i { f: func(); }"]);
    let again: Vec<String> =
        derive_all(&resolve, ContractTypes::Copied).into_iter().map(|package| package.name).collect();
    assert_eq!(again, ["t:t-refs"]);
}

#[test]
fn imports_are_recognised_by_name() {
    let import = derived_of("acme:bank-refs/account-send@1.0.0").unwrap();
    assert_eq!(import.import, "acme:bank-refs/account-send");
    assert_eq!(import.interface, "acme:bank/account");
    assert_eq!(import.version.as_deref(), Some("1.0.0"));
    assert_eq!(import.flavour, Flavour::Send);
    assert_eq!(derived_of("acme:bank-refs/account").unwrap().flavour, Flavour::Call);
    assert_eq!(derived_of("acme:bank-refs/account-async").unwrap().flavour, Flavour::Async);
    for name in
        ["acme:bank/account", "account", "acme:-refs/a", "wasi:x-refs/i", "granary:x-refs/i@1.0.0", ""]
    {
        assert_eq!(derived_of(name), None, "{name}");
    }
}

#[test]
fn grain_interfaces_are_those_of_users() {
    assert!(is_grain_interface("acme:bank/account@1.0.0"));
    for name in ["wasi:cli/run@0.2.0", "granary:grain/lifecycle@0.1.0", "account", "acme:bank"] {
        assert!(!is_grain_interface(name), "{name}");
    }
}

#[test]
fn functions_of_another_shape_are_refused_by_name() {
    let resolve = crate::testing::resolve(&["package t:t-refs;
        interface i {
            record grain-ref { grain-type: string, key: string }
            none: func();
            wrong-to: func(to: string) -> result;
            no-result: func(to: grain-ref);
            wrong-error: func(to: grain-ref) -> result<u8, string>;
        }"]);
    let functions = Interface::from_resolve(&resolve, find(&resolve, "t:t-refs/i")).unwrap().functions;
    let import = derived_of("t:t-refs/i").unwrap();
    let cases = [
        ("none", "the first parameter must be `to: grain-ref`, and there is none"),
        ("wrong-to", "it is `to: string`"),
        ("no-result", "the result must be `result<…, call-error>`; there is none"),
        ("wrong-error", "it is `result<u8, string>`"),
    ];
    for (function, expected) in cases {
        let message = import.method(function, &functions[function]).unwrap_err().to_string();
        assert!(message.contains(&format!("t:t-refs/i: function `{function}`: ")), "{message}");
        assert!(message.contains(expected) && message.contains("granary wit refs"), "{message}");
    }
}

#[test]
fn one_way_import_does_not_know_the_result() {
    let (resolve, _) = derived(&["package t:t; interface i { f: func(a: u8) -> u64; }"]);
    let functions = Interface::from_resolve(&resolve, find(&resolve, "t:t-refs/i-send")).unwrap().functions;
    let method = derived_of("t:t-refs/i-send").unwrap().method("f", &functions["f"]).unwrap();
    let grain = Interface::from_resolve(&resolve, find(&resolve, "t:t/i")).unwrap();
    assert!(compare("f", &grain.functions["f"], &method).is_some());
    assert_eq!(Flavour::Send.compare("f", &grain.functions["f"], &method), None);
}
