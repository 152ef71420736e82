//! `granary doctor`: findings with advice, and an exit code that says whether a silo could run.

use std::path::Path;

use granary_tests::cli_in;
use serde_json::Value;

const FREE: [&str; 6] = ["--listen", "127.0.0.1:0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

fn doctor(folder: &Path, more: &[&str]) -> (i32, Value, String) {
    let output = cli_in(folder, "127.0.0.1:1", &[&["doctor", "--output", "json"], more].concat(), b"");
    (output.code, serde_json::from_str(&output.stdout).unwrap(), output.stderr)
}

fn verdict<'a>(report: &'a Value, check: &str) -> &'a str {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("{check} is missing in {report}"))["verdict"].as_str().unwrap()
}

#[test]
fn the_doctor_finds_this_machine_fit_leaves_nothing_and_gives_reasons_for_what_a_silo_chooses() {
    let folder = tempfile::tempdir().unwrap();
    let (code, report, stderr) = doctor(folder.path(), &FREE);
    assert_eq!((code, &report["ok"]), (0, &Value::Bool(true)), "{report} {stderr}");
    for check in ["cores", "memory", "mappings", "open files", "overcommit", "threads", "clock"] {
        let _ = verdict(&report, check);
    }
    for check in ["data directory", "ports", "file system"] {
        assert_eq!(verdict(&report, check), "ok");
    }
    for choice in report["chosen"].as_array().unwrap() {
        assert!(choice["value"].as_str().is_some_and(|text| !text.is_empty()), "{choice}");
        assert!(choice["why"].as_str().is_some_and(|text| !text.is_empty()), "{choice}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let text = cli_in(folder.path(), "127.0.0.1:1", &[&["doctor"][..], &FREE].concat(), b"");
    assert!(text.ok().contains("what a silo makes of it"), "{text:?}");
}

#[test]
fn a_port_in_use_and_a_data_directory_that_is_a_file_fail_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, report, stderr) =
        doctor(folder.path(), &["--data", "file", "--gateway", &address, "--listen", "127.0.0.1:0"]);
    assert_eq!(code, 64, "{report}");
    assert!(stderr.contains("data directory, ports"), "{stderr}");
    for check in ["data directory", "ports"] {
        assert_eq!(verdict(&report, check), "failure", "{report}");
    }
}
