//! The admin API's credential, and what a silo refuses to expose.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use granary_tests::{Cluster, cli};

const TOKEN: &str = "a-token-that-is-long-enough";

/// A token file beside the cluster's data.
fn token_file(cluster: &Cluster, name: &str, token: &str, mode: u32) -> String {
    let path: PathBuf = cluster.data().join(name);
    std::fs::write(&path, format!("{token}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Tries to start a silo that must refuse to.
fn refused(cluster: &Cluster, flags: &[&str], parts: &[&str]) {
    let mut args = vec!["silo", "--gateway", "127.0.0.1:0", "--data", cluster.data().to_str().unwrap()];
    args.extend(flags);
    let output = cli("127.0.0.1:1", &args);
    output.fails(64, parts);
    assert_eq!(output.stderr.trim().lines().count(), 1, "one line says how: {output:?}");
}

#[test]
fn a_silo_does_not_expose_itself_without_protection() {
    let cluster = Cluster::new();
    let local = "127.0.0.1:0";
    refused(
        &cluster,
        &["--listen", local, "--admin", "0.0.0.0:0"],
        &["--admin 0.0.0.0:0", "--admin-token-file FILE", "--insecure"],
    );
    refused(
        &cluster,
        &["--admin", local, "--listen", "192.0.2.1:0"],
        &["--listen 192.0.2.1:0", "--insecure"],
    );
    let exposed = token_file(&cluster, "exposed", "0123456789abcdef", 0o644);
    let short = token_file(&cluster, "short", "0123456789", 0o600);
    for (file, why) in [(&exposed, "chmod 600"), (&short, "10 bytes, 16 to 512")] {
        refused(&cluster, &["--listen", local, "--admin", local, "--admin-token-file", file], &[file, why]);
    }
}

#[test]
fn only_the_right_token_opens_the_admin_api() {
    let cluster = Cluster::new();
    let right = token_file(&cluster, "right", TOKEN, 0o600);
    let wrong = token_file(&cluster, "wrong", &TOKEN.to_uppercase(), 0o600);
    let silo = cluster.start_with("silo-1", &["--admin-token-file", &right]);

    for path in ["/v1/silos", "/metrics"] {
        let answer = silo.admin().get(path).unwrap();
        assert_eq!((answer.status, answer.code()), (401, "unauthorized"), "{path}");
    }
    assert_eq!(silo.admin().get("/readyz").unwrap().status, 200, "probes need no token");
    silo.cli(&["list", "silos"]).fails(77, &["--token-file", "GRANARY_TOKEN_FILE"]);
    silo.cli(&["list", "silos", "--token-file", &wrong]).fails(77, &["the token is not this silo's"]);
    assert!(silo.cli(&["list", "silos", "--token-file", &right]).ok().contains("silo-1"));
    assert!(!silo.log().contains(TOKEN) && !silo.log().contains(&TOKEN.to_uppercase()), "a token was logged");
}
