//! Money: transfers between grains on different silos, persistence, typed errors.

use std::time::Duration;

use granary_tests::{Cluster, Silo, wait_until};
use serde_json::{Value, json};

const ACCOUNTS: usize = 8;
const START: u64 = 1_000;

fn balance(silo: &Silo, account: usize) -> u64 {
    let answer = silo.gateway().call(&format!("account/a{account}"), "balance", &json!([])).unwrap();
    answer.ok().as_u64().unwrap()
}

#[test]
fn transfers_between_silos_keep_the_total_and_survive_the_death_of_all_silos() {
    let cluster = Cluster::new();
    let silos = [cluster.start("silo-1"), cluster.start("silo-2")];
    silos[0].deploy(&["account", "transfer"]);
    for account in 0..ACCOUNTS {
        let grain = format!("account/a{account}");
        let deposited = silos[account % 2].gateway().call(&grain, "deposit", &json!([START])).unwrap();
        assert_eq!(deposited.ok(), json!({ "ok": START }));
    }
    std::thread::scope(|scope| {
        for client in 0..16 {
            let silo = &silos[client % 2];
            scope.spawn(move || {
                for round in 0..10 {
                    let (from, to) = (client % ACCOUNTS, (client + round + 1) % ACCOUNTS);
                    let arguments = json!([format!("a{from}"), format!("a{to}"), 1 + round]);
                    let done = silo.gateway().call(&format!("transfer/t{client}"), "transfer", &arguments);
                    assert!(done.as_ref().unwrap().status == 200, "{done:?}");
                }
            });
        }
    });
    let before: Vec<u64> = (0..ACCOUNTS).map(|account| balance(&silos[0], account)).collect();
    assert_eq!(before.iter().sum::<u64>(), START * ACCOUNTS as u64);

    for silo in silos {
        silo.kill();
    }
    let silo = cluster.start("silo-1");
    let after: Vec<u64> = (0..ACCOUNTS).map(|account| balance(&silo, account)).collect();
    assert_eq!(after, before);
}

#[test]
fn too_little_money_is_a_typed_error_with_its_numbers() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["account"]);
    let _ = silo.cli(&["call", "account/ann", "deposit", "5"]).ok();
    let refused = silo.gateway().call("account/ann", "withdraw", &json!([7])).unwrap().ok();
    let error = &refused["err"]["insufficient-funds"];
    assert_eq!((&error["balance"], &error["needed"]), (&json!(5), &json!(7)), "{refused}");
    assert!(silo.cli(&["call", "account/ann", "withdraw", "7"]).ok().starts_with("err(insufficient-funds"));
    assert_eq!(silo.cli(&["call", "account/ann", "balance"]).ok(), "5");
}

/// Two clusters' worth of silos cannot share a grain, so the second writer is made by hand: the row changes behind
/// the activation's back, as it would if another activation wrote it.
#[test]
fn a_concurrent_writer_is_an_etag_conflict_and_the_next_call_reads_again() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["account"]);
    let _ = silo.cli(&["call", "account/ann", "deposit", "5"]).ok();
    let database = cluster.data().join("cluster/state.db");
    let database = rusqlite::Connection::open(database).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    let changed = database.execute("UPDATE state SET etag = etag || 'x' WHERE grain_key = 'ann'", []);
    assert_eq!(changed.unwrap(), 1);
    let conflict = silo.gateway().call("account/ann", "deposit", &json!([1])).unwrap().ok();
    assert_eq!(conflict, json!({ "err": "conflict" }));
    let answer: Value = wait_until(Duration::from_secs(10), "the account reads its state again", || {
        let answer = silo.gateway().call("account/ann", "deposit", &json!([1])).unwrap().ok();
        if answer.get("ok").is_some() { Ok(answer) } else { Err(answer) }
    });
    assert_eq!(answer, json!({ "ok": 6 }));
}
