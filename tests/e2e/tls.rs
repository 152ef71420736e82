//! TLS between silos and at their HTTP ports, with certificates of `granary tls init`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use granary_tests::{Cluster, Silo, cli, wait_until};

/// A cluster whose folder holds the certificates of silo-1 to silo-3.
fn cluster() -> (Cluster, String) {
    let cluster = Cluster::new();
    let dir = cluster.data().join("tls").to_str().unwrap().to_owned();
    let made = cli("127.0.0.1:1", &["tls", "init", &dir]);
    assert!(made.ok().contains("silo-3-key.pem"), "{made:?}");
    (cluster, dir)
}

/// The flags of one identity; `kind` is `tls` or `http-tls`.
fn identity(kind: &str, dir: &str, name: &str) -> Vec<String> {
    vec![
        format!("--{kind}-cert"),
        format!("{dir}/{name}.pem"),
        format!("--{kind}-key"),
        format!("{dir}/{name}-key.pem"),
    ]
}

fn link_flags(dir: &str, name: &str) -> Vec<String> {
    let mut flags = identity("tls", dir, name);
    flags.extend(["--tls-ca".to_owned(), format!("{dir}/ca.pem")]);
    flags
}

fn start(cluster: &Cluster, name: &str, flags: &[String]) -> Silo {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    cluster.start_with(name, &flags)
}

#[test]
fn calls_and_a_migration_cross_a_cluster_under_tls() {
    let (cluster, dir) = cluster();
    let silos = ["silo-1", "silo-2"].map(|name| start(&cluster, name, &link_flags(&dir, name)));
    silos[0].deploy(&["counter"]);
    for (count, silo) in silos.iter().cycle().take(6).enumerate() {
        let answer = silo.cli(&["call", "counter/alice", "increment", "1"]);
        assert_eq!(answer.ok(), (count + 1).to_string(), "one of the two silos is far from the grain");
    }
    let here = silos[0].describe("counter/alice")["silo"].as_str().unwrap().to_owned();
    let there = if here == "silo-1" { "silo-2" } else { "silo-1" };
    assert!(silos[1].cli(&["migrate", "counter/alice", "--to", there]).ok().contains("moved"));
    for silo in &silos {
        assert_eq!(silo.describe("counter/alice")["silo"], there);
        assert_eq!(silo.cli(&["call", "counter/alice", "get"]).ok(), "6");
    }

    // What comes in plain is closed and logged.
    let mut plain = TcpStream::connect(&silos[0].listen).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    plain.write_all(b"\x40\x00\x00\x00\x11GRNY a plain silo").unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest);
    assert!(!rest.windows(4).any(|part| part == b"GRNY"), "it is not greeted");
    wait_until(Duration::from_secs(10), "the log says so", || {
        let log = silos[0].log();
        log.contains("TLS failed: the other side does not speak TLS").then_some(()).ok_or(log)
    });
}

#[test]
fn the_command_line_speaks_https_with_a_token() {
    let (cluster, dir) = cluster();
    let token = cluster.data().join("token");
    std::fs::write(&token, "a-token-that-is-long-enough\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token = token.to_str().unwrap();
    let mut flags = identity("http-tls", &dir, "silo-1");
    flags.extend(["--admin-token-file".to_owned(), token.to_owned()]);
    let silo = start(&cluster, "silo-1", &flags);
    let (url, ca) = (format!("https://{}", silo.admin), format!("{dir}/ca.pem"));
    let run = |args: &[&str]| silo.cli(args);

    let secure = ["--admin", &url, "--ca-file", &ca, "--token-file", token];
    let listed = run(&[&["list", "silos"], &secure[..]].concat());
    assert!(listed.ok().contains("silo-1"), "{listed:?}");
    let guest = granary_tests::guest("counter");
    let deploy = ["deploy", guest.to_str().unwrap()];
    let _ = run(&[&deploy[..], &secure[..]].concat()).ok();
    let gateway = format!("https://{}", silo.gateway);
    let called = run(&["call", "counter/a", "increment", "5", "--admin", &gateway, "--ca-file", &ca]);
    assert_eq!(called.ok(), "5", "the gateway speaks HTTPS too, and asks for no token");

    run(&["list", "silos", "--admin", &url, "--ca-file", &ca]).fails(77, &["--token-file"]);
    run(&["list", "silos", "--admin", &url]).fails(64, &["--ca-file FILE"]);
    run(&["list", "silos"]).fails(65, &["this port speaks HTTPS"]);
    let other = cluster.data().join("other").to_str().unwrap().to_owned();
    let _ = run(&["tls", "init", &other]).ok();
    let other = format!("{other}/ca.pem");
    run(&["list", "silos", "--admin", &url, "--ca-file", &other]).fails(69, &["not signed by the CA"]);
}

#[test]
fn an_identity_that_cannot_be_used_keeps_a_silo_from_starting() {
    let (cluster, dir) = cluster();
    let _ = cli("127.0.0.1:1", &["tls", "init", &dir, "--silo", "far=192.0.2.1"]).ok();
    let local = "127.0.0.1:0";
    let data = cluster.data().to_str().unwrap();
    let refused = |flags: &[String], parts: &[&str]| {
        let mut args = vec!["silo", "--data", data, "--listen", local, "--gateway", local, "--admin", local];
        args.extend(flags.iter().map(String::as_str));
        let output = cli("127.0.0.1:1", &args);
        output.fails(64, parts);
        assert_eq!(output.stderr.trim().lines().count(), 1, "one line says how: {output:?}");
    };
    refused(&link_flags(&dir, "nobody"), &["nobody.pem cannot be read"]);
    refused(&link_flags(&dir, "far"), &["far.pem", "192.0.2.1", "not 127.0.0.1"]);
    let mut mixed = link_flags(&dir, "silo-1");
    mixed[3] = format!("{dir}/silo-2-key.pem");
    refused(&mixed, &["silo-2-key.pem does not belong to the certificate in"]);
    refused(&identity("http-tls", &dir, "nobody"), &["nobody.pem cannot be read"]);
}
