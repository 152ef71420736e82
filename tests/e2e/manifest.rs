//! Manifests: the canonical hash from the command line, and what silos publish.

use std::path::Path;
use std::time::Duration;

use granary_tests::{Cluster, cli_in, guest, wait_until};
use serde_json::Value;

fn hash(text: &str) -> granary_tests::CliOutput {
    cli_in(Path::new("."), "127.0.0.1:1", &["manifest", "hash"], text.as_bytes())
}

#[test]
fn the_hash_agrees_with_the_published_vectors_in_any_order() {
    for (manifest, expected) in [
        (
            r#"{"grains": [], "interfaces": []}"#,
            "163E7F66D58036CCB1D0B0058D8F46E7CD639816F570E5EB32853EA73634E4CD",
        ),
        (
            r#"{"grains": [["counter", {"type-name": "CounterGrain", "placement-strategy": "RandomPlacement"}]], "interfaces": []}"#,
            "A08E36A5E1E2FFD894F70C1BBF26BEF9B93DA2D5A03B3CA4D4FBBC9080F8AE77",
        ),
        (
            r#"{"interfaces": [], "grains": [[null, {"c": "\ud800", "a": "", "b": null}]]}"#,
            "C1461666C6AEA9BD99C3BF81BB703919E16918C7892885B6774B5A222D0838D5",
        ),
        (
            r#"{"grains": [[{"hex": "8000"}, {"k": "\uD800"}]], "interfaces": []}"#,
            "DD34377AD1C69045F2B55D6DCAB099A7A36C0A6B6909DC2C54D5B6AC1FA9EBF9",
        ),
        (
            r#"{"grains": [["", {}], [null, {}]], "interfaces": []}"#,
            "F2588DFA7BEA09BEB8B2B230D22084726E9F193A38E19820475EFFE8CAC7CEF8",
        ),
        (
            r#"{"grains": [["g", {"\ue000": "p", "\ud800\udc00": "s"}]], "interfaces": []}"#,
            "ABC2D372DE1F93C1F798EBF57EF499ED05BB8AF46487986A1D76B5D09FE05731",
        ),
        (
            r#"{"grains": [["b", {}], ["a", {}], ["ab", {}]], "interfaces": []}"#,
            "7DB93DF674DCF7EF04055DA2D058547DB097ADF48F8FFE8515FDA6AE2ACF82E9",
        ),
    ] {
        assert_eq!(hash(manifest).ok(), expected, "{manifest}");
    }
}

#[test]
fn manifests_that_are_wrong_say_where() {
    for (manifest, part) in [
        (r#"{"grains": [["a", {}], [{"hex": "61"}, {}]], "interfaces": []}"#, "a"),
        (r#"{"grains": [["a", {"k": "1", "\u006b": "2"}]], "interfaces": []}"#, "k"),
        (r#"{"grains": [["a", {"k": 1}]], "interfaces": []}"#, ""),
        (r#"{"grains": [[{"hex": "8"}, {}]], "interfaces": []}"#, "hex"),
        (r#"{"grains": [["\ud800", {}]], "interfaces": []}"#, ""),
        ("", ""),
        (r#"{"grains": [], "interfaces": []} x"#, ""),
    ] {
        hash(manifest).fails(65, &[part]);
    }
}

#[test]
fn silos_publish_types_interfaces_versions_and_properties_as_inspect_shows_them() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["counter", "account"]);
    let shown = wait_until(Duration::from_secs(10), "silo-2 knows both manifests", || {
        let shown: Value =
            serde_json::from_str(two.cli(&["manifest", "show", "--output", "json"]).ok()).unwrap();
        let same = shown.as_array().unwrap().len() == 2 && shown[0]["hash"] == shown[1]["hash"];
        if same { Ok(shown) } else { Err(shown) }
    });
    let silos = shown.as_array().unwrap();
    let inspected = cli_in(
        Path::new("."),
        "127.0.0.1:1",
        &["inspect", guest("counter").to_str().unwrap(), "--output", "json"],
        b"",
    );
    let inspected: Value = serde_json::from_str(inspected.ok()).unwrap();
    let grain = &silos[0]["grains"]["counter"];
    assert_eq!(grain["granary.component-digest"], inspected["digest"], "{grain} {inspected}");
    let interface = grain["interface.0"].as_str().unwrap();
    assert!(silos[0]["interfaces"][interface]["version"].is_string(), "{shown}");
    assert!(silos[0]["interfaces"][interface]["granary.method.increment"].is_string(), "{shown}");
    assert!(one.cli(&["manifest", "show"]).ok().contains("grain type counter"));
}
