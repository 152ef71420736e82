//! `granary new` outside the repository: test, build, deploy, call.

use std::process::Command;

use granary_tests::{Cluster, binary, cli_in, root};

#[test]
fn a_new_project_goes_from_its_first_test_to_its_first_call() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter"]);
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| cli_in(folder.path(), &silo.admin, args, b"");
    assert_eq!(run(&["new", "parking-meter"]).code, 0);
    run(&["new", "parking-meter"]).fails(65, &["not empty"]);
    run(&["new", "Parking"]).fails(65, &["kebab-case"]);

    let project = folder.path().join("parking-meter");
    // The lock file of the repository pins the versions that are there already; a user gets the newest ones.
    std::fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let target = target.join("new-project");
    let tested = Command::new("cargo")
        .args(["test", "--quiet"])
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .unwrap();
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));

    let built = Command::new(binary())
        .arg("build")
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success(), "{stderr}");
    let component = String::from_utf8(built.stdout).unwrap().trim().to_owned();
    assert!(component.ends_with("parking_meter.wasm"), "{component}");
    let deployed = cli_in(&project, &silo.admin, &["deploy", &component], b"");
    assert!(deployed.ok().contains("parking-meter deployed"), "{deployed:?}");
    let called = cli_in(&project, &silo.admin, &["call", "parking-meter/a", "increment", "5"], b"");
    assert_eq!(called.ok(), "5");
    assert_eq!(silo.cli(&["call", "counter/alice", "increment", "1"]).ok(), "1");
}

#[test]
fn build_outside_a_project_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    cli_in(folder.path(), "127.0.0.1:1", &["build"], b"").fails(65, &["granary new"]);
}
