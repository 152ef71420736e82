//! Clusters whose store is a server: silos with data directories of their own, as on hosts of their own.

use std::time::{Duration, Instant};

use granary_engines::{Nats, NatsRelease, PASSWORD, Postgres};
use granary_tests::{Answer, Cluster, Silo, binary, wait_until};
use serde_json::{Value, json};

/// A server that holds a store.
trait Server {
    fn url(&self) -> String;
    fn address(&self) -> String;
    fn pause(&self);
    fn resume(&self);
    fn restart(&mut self);
    fn stop(&mut self);
}

macro_rules! server {
    ($name:ty) => {
        impl Server for $name {
            fn url(&self) -> String {
                <$name>::url(self)
            }
            fn address(&self) -> String {
                <$name>::address(self)
            }
            fn pause(&self) {
                <$name>::pause(self);
            }
            fn resume(&self) {
                <$name>::resume(self);
            }
            fn restart(&mut self) {
                <$name>::restart(self);
            }
            fn stop(&mut self) {
                <$name>::stop(self);
            }
        }
    };
}

server!(Postgres);
server!(Nats);

#[test]
fn a_cluster_on_postgresql_survives_its_silos_and_its_server() {
    survives(Postgres::start());
}

#[test]
fn a_cluster_on_nats_survives_its_silos_and_its_server() {
    survives(Nats::start(NatsRelease::Newer));
}

fn survives(mut server: impl Server) {
    let cluster = Cluster::with_store(&server.url());
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    // The second silo has the components from the store alone.
    one.deploy(&["account", "counter"]);
    let accounts: Vec<String> = (0..20).map(|n| format!("account/k{n}")).collect();
    for account in &accounts {
        let _ = one.gateway().call(account, "deposit", &json!([3])).unwrap().ok();
    }
    all_hold(&two, &accounts, 3);
    agree(&[&one, &two], 2);

    server.restart();
    for account in &accounts {
        deposit_once(&two, account, 3, 4);
    }

    two.kill();
    let killed = Instant::now();
    all_hold(&one, &accounts, 7);
    eprintln!("all accounts answered {:?} after the kill", killed.elapsed());

    let three = cluster.start("silo-3");
    agree(&[&one, &three], 2);
    all_hold(&three, &accounts, 7);

    // Nobody is left; the cluster comes back from its store.
    one.kill();
    three.kill();
    let started = Instant::now();
    let one = cluster.start("silo-1");
    eprintln!("the first silo of a dead cluster is ready after {:?}", started.elapsed());
    all_hold(&one, &accounts, 7);
    agree(&[&one], 1);
}

#[test]
fn calls_that_need_no_store_go_on_while_postgresql_stands_still() {
    go_on(&Postgres::start());
}

#[test]
fn calls_that_need_no_store_go_on_while_nats_stands_still() {
    go_on(&Nats::start(NatsRelease::Newer));
}

fn go_on(server: &impl Server) {
    let cluster = Cluster::with_store(&server.url());
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["account", "counter"]);
    for gateway in [one.gateway(), two.gateway()] {
        let _ = gateway.call("counter/live", "increment", &json!([1])).unwrap().ok();
    }
    let _ = one.gateway().call("account/live", "deposit", &json!([1])).unwrap().ok();
    server.pause();
    let paused = Instant::now();
    // Longer than a renewal lasts: from then on the silos stand by each other's promises.
    while paused.elapsed() < Duration::from_secs(6) {
        for silo in [&one, &two] {
            let answer = silo.gateway().call("counter/live", "increment", &json!([1])).unwrap();
            assert_eq!(answer.status, 200, "{:?} after the pause began: {answer:?}", paused.elapsed());
        }
    }
    let asked = Instant::now();
    let refused = one.gateway().call("account/live", "deposit", &json!([1])).unwrap();
    eprintln!("a deposit was answered after {:?}: {refused:?}", asked.elapsed());
    assert!(!is_made(&refused), "a deposit needs the store: {refused:?}");
    assert!(!refused.body.to_string().contains(PASSWORD));
    server.resume();
    // Whether the write of the refused deposit was applied is not known; one more is.
    wait_until(Duration::from_secs(30), "deposits work again", || {
        let answer = one.gateway().call("account/live", "deposit", &json!([10]))?;
        if is_made(&answer) { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    let balance = one.gateway().call("account/live", "balance", &json!([])).unwrap().ok();
    assert!(balance == json!(11) || balance == json!(12), "{balance}");
    agree(&[&one, &two], 2);
}

#[test]
fn a_store_that_cannot_be_used_is_one_line_that_says_what_and_where() {
    let mut postgres = Postgres::start();
    let mut nats = Nats::start(NatsRelease::Newer);
    refused(&mut postgres, "password authentication failed");
    refused(&mut nats, "authorization violation");
    let (code, said) = start("mysql://granary:p4ssw0rd-of-the-tests@localhost/x");
    assert_eq!(code, 64, "{said}");
    assert!(said.contains(r#"--store: "mysql" is no kind of store"#), "{said}");
}

fn refused(server: &mut impl Server, wrong_password: &str) {
    let (url, address) = (server.url(), server.address());
    let (code, said) = start(&url.replace(PASSWORD, "wr0ng"));
    assert_eq!(code, 64, "{said}");
    assert!(said.contains(&address) && said.contains(wrong_password) && !said.contains("wr0ng"), "{said}");
    server.stop();
    let (code, said) = start(&url);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&address) && said.contains("Connection refused"), "{said}");
}

/// Starts a silo that must not start; its exit code and the one line that it said.
fn start(store: &str) -> (i32, String) {
    let data = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(binary())
        .args([
            "silo",
            "--listen",
            "127.0.0.1:0",
            "--gateway",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(data.path())
        .env("GRANARY__SILO__STORE", store)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
    (output.status.code().unwrap_or(-1), said)
}

/// Whether a deposit went well, by the account's own word.
fn is_made(answer: &Answer) -> bool {
    answer.status == 200 && answer.body.get("err").is_none()
}

/// Deposits, and finds out after a failure whether the deposit was made: never blindly again.
fn deposit_once(silo: &Silo, account: &str, before: u64, amount: u64) {
    wait_until(Duration::from_secs(30), "the deposit is made", || {
        let answer = silo.gateway().call(account, "deposit", &json!([amount]))?;
        if is_made(&answer) {
            return Ok(());
        }
        let balance = silo.gateway().call(account, "balance", &json!([]))?;
        if balance.status == 200 && balance.body == json!(before + amount) {
            return Ok(());
        }
        Err(format!("{answer:?}, {balance:?}"))
    });
}

fn all_hold(silo: &Silo, accounts: &[String], balance: u64) {
    for account in accounts {
        wait_until(Duration::from_secs(30), &format!("{account} holds {balance}"), || {
            let answer = silo.gateway().call(account, "balance", &json!([]))?;
            if answer.status == 200 && answer.body == json!(balance) {
                Ok(())
            } else {
                Err(format!("{answer:?}"))
            }
        });
    }
}

/// All silos list the same silos, of which so many are active.
fn agree(silos: &[&Silo], active: usize) {
    wait_until(Duration::from_secs(30), "all silos list the same silos", || {
        let mut lists = Vec::new();
        for silo in silos {
            lists.push(active_silos(&silo.admin().get("/v1/silos")?.ok()));
        }
        if lists.iter().all(|list| *list == lists[0] && list.len() == active) { Ok(()) } else { Err(lists) }
            .map_err(|lists| format!("{lists:?}"))
    });
}

fn active_silos(rows: &Value) -> Vec<String> {
    let rows = rows.as_array().unwrap().iter().filter(|row| row["status"] == "active");
    let mut names: Vec<String> = rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}
