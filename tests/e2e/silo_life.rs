//! Starting, stopping and dying.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use granary_tests::{Cluster, Http, binary, wait_until};
use serde_json::json;

#[test]
fn a_lone_silo_is_back_soon_after_a_kill_with_its_persisted_state() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["account", "counter"]);
    let _ = silo.cli(&["call", "account/ann", "deposit", "5"]).ok();
    let _ = silo.cli(&["call", "counter/c", "increment", "5"]).ok();
    silo.kill();
    let started = Instant::now();
    let silo = cluster.start("silo-1");
    let back = started.elapsed();
    println!("ready {back:?} after the restart");
    assert_eq!(silo.cli(&["call", "account/ann", "balance"]).ok(), "5");
    assert_eq!(silo.cli(&["call", "counter/c", "get"]).ok(), "0");
    let silos = silo.admin().get("/v1/silos").unwrap().ok();
    let active = silos.as_array().unwrap().iter().filter(|row| row["status"] == "active").count();
    assert_eq!(active, 1, "{silos}");
}

#[test]
fn calls_go_on_after_one_of_two_silos_is_killed() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["account"]);
    let accounts: Vec<String> = (0..20).map(|n| format!("account/k{n}")).collect();
    for account in &accounts {
        let _ = one.gateway().call(account, "deposit", &json!([3])).unwrap().ok();
    }
    two.kill();
    let killed = Instant::now();
    for account in &accounts {
        let balance = wait_until(Duration::from_secs(30), "the account answers again", || {
            let answer = one.gateway().call(account, "balance", &json!([]))?;
            if answer.status == 200 { Ok(answer.body) } else { Err(format!("{answer:?}")) }
        });
        assert_eq!(balance, json!(3));
    }
    println!("all accounts answered {:?} after the kill", killed.elapsed());
}

#[test]
fn sigterm_moves_what_can_move_and_no_call_through_the_other_gateway_fails() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["counter", "account"]);
    let grains: Vec<String> = (0..16).map(|n| format!("counter/m{n}")).collect();
    for grain in &grains {
        let _ = one.gateway().call(grain, "increment", &json!([100])).unwrap().ok();
    }
    let stop = AtomicBool::new(false);
    let (stop, grains) = (&stop, &grains);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let gateway = Http::keeping(&one.gateway);
                scope.spawn(move || {
                    let mut calls = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        for grain in grains.iter().skip(client).step_by(4) {
                            let answer = gateway.call(grain, "increment", &json!([1])).unwrap();
                            assert_eq!(answer.status, 200, "{grain}: {answer:?}");
                            calls += 1;
                        }
                    }
                    calls
                })
            })
            .collect();
        let (status, took) = two.terminate();
        assert!(status.success(), "{status}");
        println!("stopped in {took:?}");
        stop.store(true, Ordering::Relaxed);
        let calls: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        let mut total = 0;
        for grain in grains {
            total += one.gateway().call(grain, "get", &json!([])).unwrap().ok().as_u64().unwrap();
        }
        assert_eq!(total, calls + 100 * grains.len() as u64, "state was lost on the way");
    });
    wait_until_dead(&one, "silo-2");
}

fn wait_until_dead(witness: &granary_tests::Silo, name: &str) {
    wait_until(Duration::from_secs(30), &format!("{name} is gone"), || {
        let silos = witness.admin().get("/v1/silos")?.ok();
        let dead = |row: &serde_json::Value| row["name"] != name || row["status"] == "dead";
        if silos.as_array().unwrap().iter().all(dead) { Ok(()) } else { Err(silos.to_string()) }
    });
}

#[test]
fn a_drain_asked_for_by_command_line_stops_the_silo() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["counter"]);
    one.cli(&["drain", "silo-9"]).fails(65, &["silo-9"]);
    let _ = one.cli(&["drain", "silo-2"]).ok();
    wait_until_dead(&one, "silo-2");
    assert_eq!(one.cli(&["call", "counter/x", "increment", "1"]).ok(), "1");
    drop(two);
}

fn try_start(args: &[&str]) -> (i32, String) {
    let output = std::process::Command::new(binary()).arg("silo").args(args).output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_silo_that_cannot_start_says_why_with_exit_code_64() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    let data = cluster.data().to_str().unwrap();
    let zero = "127.0.0.1:0";
    let ports = ["--gateway", zero, "--admin", zero];
    let (code, error) =
        try_start(&[&["--data", data, "--name", "silo-1", "--listen", zero], &ports[..]].concat());
    assert_eq!(code, 64, "{error}");
    assert!(error.contains("silo-1") && error.contains("already running"), "{error}");

    let (code, error) =
        try_start(&[&["--data", data, "--name", "silo-2", "--listen", &silo.listen], &ports[..]].concat());
    assert_eq!(code, 64, "{error}");
    assert!(error.contains(&silo.listen) && error.contains("in use"), "{error}");

    let file = cluster.data().join("a-file");
    std::fs::write(&file, "x").unwrap();
    let (code, error) =
        try_start(&[&["--data", file.to_str().unwrap(), "--listen", zero], &ports[..]].concat());
    assert_eq!(code, 64, "{error}");
    assert!(error.contains("a-file"), "{error}");

    let newer = tempfile::tempdir().unwrap();
    let first = Cluster::new();
    drop(first.start("silo-1"));
    let format = std::fs::read_dir(first.data()).unwrap().map(|entry| entry.unwrap().path());
    let format = format.filter(|path| path.file_name().is_some_and(|name| name == "format")).last().unwrap();
    let text = std::fs::read_to_string(format).unwrap();
    let number = text.trim().rsplit(' ').next().unwrap();
    std::fs::write(newer.path().join("format"), text.replace(number, "999")).unwrap();
    let (code, error) =
        try_start(&[&["--data", newer.path().to_str().unwrap(), "--listen", zero], &ports[..]].concat());
    assert_eq!(code, 64, "{error}");
    assert!(error.contains("999"), "{error}");

    let read_only = tempfile::tempdir().unwrap();
    let set_mode = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(read_only.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o555);
    let path = read_only.path().to_str().unwrap();
    let (code, error) = try_start(&[&["--data", path, "--listen", zero], &ports[..]].concat());
    set_mode(0o755);
    assert_eq!(code, 64, "{error}");
    assert!(error.contains(path), "{error}");

    let (code, error) = try_start(&["--data", data, "--listen", "0.0.0.0:0"]);
    assert_eq!(code, 64, "{error}");
    assert!(error.contains("--listen"), "{error}");
}
