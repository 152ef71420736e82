//! Grains in JavaScript and Python: from `granary new` to the first answer, calls to a Rust grain, and every type of
//! value, equal to what the Rust grain of the same contract answers.
//!
//! The projects are built in a mirror of the repository under the target folder, again only when an input changed.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use granary_tests::{Cluster, Silo, binary, cli_in, root};
use serde_json::{Value, json};

use crate::values::{LINE, cases, key_on};

/// Every file under a folder of the repository, as paths in the repository; what tools write is left out.
fn files(folder: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{folder}/{name}");
        if [".venv", "node_modules", "__pycache__"].contains(&name.as_str()) || name.ends_with(".wasm") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The component of a project of the repository; `contracts` are the folders that it reads beside its own.
fn built(language: &str, project: &str, contracts: &str) -> PathBuf {
    let mirror = target().join("languages").join(language);
    std::fs::create_dir_all(&mirror).unwrap();
    // Tests are processes of their own, and share what is built.
    let lock = std::fs::File::create(mirror.join("lock")).unwrap();
    lock.lock().unwrap();
    let (mut inputs, mut builder) = (Vec::new(), Vec::new());
    files(project, &mut inputs);
    files(contracts, &mut inputs);
    files("host/src/cli/build", &mut builder);
    files("host/crates/granary-wit/src/derive", &mut builder);
    let mut digest = DefaultHasher::new();
    inputs.sort();
    builder.sort();
    for path in inputs.iter().chain(&builder) {
        (path, std::fs::read(root().join(path)).unwrap()).hash(&mut digest);
    }
    let digest = digest.finish().to_string();
    let folder = mirror.join(project);
    let stamp = folder.join("built-from");
    let component = |text: &str| folder.join(text.lines().last().unwrap());
    if let Ok(text) = std::fs::read_to_string(&stamp)
        && text.lines().next() == Some(&digest)
        && component(&text).is_file()
    {
        return component(&text);
    }
    for path in &inputs {
        let to = mirror.join(path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(root().join(path), to).unwrap();
    }
    let text = format!("{digest}\n{}", build(&folder));
    std::fs::write(&stamp, &text).unwrap();
    component(&text)
}

/// `granary build`; gives what it printed.
fn build(folder: &Path) -> String {
    let built = Command::new(binary()).arg("build").current_dir(folder).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    String::from_utf8(built.stdout).unwrap().trim().to_owned()
}

/// What a newcomer types, from nothing to the first answer.
fn newcomer(silo: &Silo, language: &str, lock: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let run = |folder: &Path, args: &[&str]| cli_in(folder, &silo.admin, args, b"");
    let name = format!("{language}-meter");
    let made = run(folder.path(), &["new", "--template", language, &name]);
    assert!(made.code == 0 && made.stderr.contains(&format!("next: cd {name} && granary build")), "{made:?}");
    let project = folder.path().join(&name);
    if let Some(lock) = lock {
        // The lock file of the example pins versions; a user gets what the package file names.
        std::fs::copy(root().join(lock), project.join("package-lock.json")).unwrap();
    }
    let component = build(&project);
    assert_eq!(component, format!("{name}.wasm"));
    let deployed = run(&project, &["deploy", &component]);
    assert!(deployed.ok().contains(&format!("{name} deployed")), "{deployed:?}");
    let grain = format!("{name}/alice");
    assert_eq!(run(&project, &["call", &grain, "increment", "5"]).ok(), "5");
    assert_eq!(
        run(&project, &["call", &grain, "increment", "18446744073709551610"]).ok(),
        u64::MAX.to_string()
    );
    assert_eq!(run(&project, &["call", &grain, "get"]).ok(), u64::MAX.to_string());
    assert_eq!(run(&project, &["call", &format!("{name}/bob"), "get"]).ok(), "0");
}

fn call(silo: &Silo, grain: &str, method: &str, arguments: &Value) -> Value {
    silo.gateway().call(grain, method, arguments).unwrap().ok()
}

/// Every type of value by HTTP and the command line, there and back, equal to what the grain in Rust answers.
fn values(silo: &Silo, grain: &str) {
    let oracle = "values/oracle";
    for value in cases() {
        let arguments = json!([value]);
        let whole = call(silo, grain, "whole", &arguments);
        assert_eq!(whole, value);
        assert_eq!(whole, call(silo, oracle, "whole", &arguments));
    }
    let flat = json!([u64::MAX, "é", { "err": 7 }, ["share"]]);
    assert_eq!(call(silo, grain, "flat", &flat), flat);
    let many = call(silo, oracle, "relay-many", &json!(["other", u64::MAX, "text"]));
    assert_eq!(call(silo, grain, "many", &many["ok"]), many["ok"]);
    assert_eq!(call(silo, grain, "nothing", &json!([])), Value::Null);

    let written = silo.cli(&["call", grain, "whole", LINE]);
    assert_eq!(written.ok(), silo.cli(&["call", oracle, "whole", LINE]).ok());
    // A function's own error: a call that comes back to its caller is a cycle.
    let refused = call(silo, grain, "relay-many", &json!([grain, 1, "text"]));
    assert!(refused["err"].as_str().is_some_and(|text| text.starts_with("no answer: ")), "{refused}");
}

/// Every type of value from `from` to `to`, as it comes back through two calls between grains.
fn relayed(silo: &Silo, from: &str, to: &str) {
    for value in cases() {
        assert_eq!(call(silo, from, "relay", &json!([to, value])), json!({ "ok": value }), "{from} to {to}");
    }
    let flat = json!([u64::MAX, "é", { "err": 7 }, ["share"]]);
    let given = call(silo, from, "relay-flat", &json!([to, u64::MAX, "é", { "err": 7 }, ["share"]]));
    assert_eq!(given, json!({ "ok": flat }), "{from} to {to}");
    let many = call(silo, "values/oracle", "relay-many", &json!(["other", u64::MAX, "text"]));
    assert_eq!(call(silo, from, "relay-many", &json!([to, u64::MAX, "text"])), many, "{from} to {to}");
}

/// A grain on each of two silos.
fn grains_on(silos: &[Silo; 2], grain_type: &str) -> [String; 2] {
    ["silo-1", "silo-2"].map(|name| format!("{grain_type}/{}", key_on(&silos[0], grain_type, name, "")))
}

/// Rust to the language, the language to Rust, and the language to itself, on one silo and between two.
fn relayed_in_a_cluster(component: &Path, grain_type: &str) {
    let cluster = Cluster::new();
    let silos = [cluster.start("silo-1"), cluster.start("silo-2")];
    silos[0].deploy(&["values"]);
    deploy(&silos[0], component, grain_type);
    let [rust_here, rust_there] = grains_on(&silos, "values");
    let [here, there] = grains_on(&silos, grain_type);
    for (from, to) in [
        (&rust_here, &here),
        (&rust_here, &there),
        (&here, &rust_here),
        (&here, &rust_there),
        (&here, &there),
    ] {
        relayed(&silos[0], from, to);
    }
}

fn deploy(silo: &Silo, component: &Path, grain_type: &str) {
    let deployed = silo.cli(&["deploy", component.to_str().unwrap()]);
    assert!(deployed.ok().contains(&format!("{grain_type} deployed")), "{deployed:?}");
}

/// The example's own count, and its calls to the counter in Rust.
fn tally(silo: &Silo, grain: &str) {
    silo.deploy(&["counter"]);
    assert_eq!(silo.cli(&["call", grain, "increment", "5"]).ok(), "5");
    assert_eq!(silo.cli(&["call", grain, "forward", "\"bob\"", "5"]).ok(), "ok(5)");
    assert_eq!(silo.cli(&["call", grain, "forward", "\"bob\"", "2"]).ok(), "ok(7)");
    assert_eq!(silo.cli(&["call", "counter/bob", "get"]).ok(), "7");
    assert_eq!(silo.cli(&["call", grain, "get"]).ok(), "5");
    let refused = silo.cli(&["call", grain, "forward", "\"\"", "1"]);
    assert!(refused.ok().starts_with("err(\"the counter did not answer"), "{refused:?}");
}

#[test]
fn javascript_gives_every_value_back_equal_to_rust() {
    let component = built("js", "tests/languages/js", "tests/guests/values/wit");
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["values"]);
    deploy(&silo, &component, "values-js");
    values(&silo, "values-js/a");
}

#[test]
fn javascript_and_rust_pass_every_value_to_each_other() {
    let component = built("js", "tests/languages/js", "tests/guests/values/wit");
    relayed_in_a_cluster(&component, "values-js");
}

#[test]
fn a_newcomer_gets_an_answer_from_javascript() {
    let cluster = Cluster::new();
    newcomer(&cluster.start("silo-1"), "js", Some("examples/js/package-lock.json"));
}

#[test]
#[ignore = "long: one more component of the same tools"]
fn the_javascript_example_calls_the_rust_counter() {
    let component = built("js", "examples/js", "examples/counter/wit");
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    deploy(&silo, &component, "tally-js");
    tally(&silo, "tally-js/a");
}

#[test]
fn python_gives_every_value_back_equal_to_rust() {
    let component = built("python", "tests/languages/python", "tests/guests/values/wit");
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["values"]);
    deploy(&silo, &component, "values-python");
    values(&silo, "values-python/a");
}

#[test]
fn python_and_rust_pass_every_value_to_each_other() {
    let component = built("python", "tests/languages/python", "tests/guests/values/wit");
    relayed_in_a_cluster(&component, "values-python");
}

#[test]
fn a_newcomer_gets_an_answer_from_python() {
    let cluster = Cluster::new();
    newcomer(&cluster.start("silo-1"), "python", None);
}

#[test]
#[ignore = "long: one more component of the same tools"]
fn the_python_example_calls_the_rust_counter() {
    let component = built("python", "examples/python", "examples/counter/wit");
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    deploy(&silo, &component, "tally-python");
    tally(&silo, "tally-python/a");
}
