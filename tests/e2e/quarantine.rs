//! P13: a panic of the host fails one call, a crash costs one silo, and a component that two silos died of runs nowhere.

use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use granary_tests::{Cluster, Silo, guest, wait_until};
use serde_json::json;

/// The grain whose turn aborts the process.
const BOOM: &str = "evil/boom";
const ABORTS: &str = "abort:evil/boom";

/// SIGABRT on Linux.
const SIGABRT: i32 = 6;

/// How long something that takes seconds may take on a busy machine.
const WITHIN: Duration = Duration::from_secs(90);

#[test]
fn a_panic_of_the_host_fails_one_call() {
    let cluster = Cluster::new();
    let silo = cluster.start_with_failpoint("silo-1", "panic:evil/boom");
    silo.deploy(&["evil", "counter"]);
    let call =
        |grain: &str, argument: &str| silo.gateway().call(grain, "call-me-back", &json!([argument])).unwrap();
    for _ in 0..2 {
        let answer = call(BOOM, "other");
        assert_eq!((answer.status, answer.code()), (500, "failed"), "{answer:?}");
        assert!(answer.detail().contains("the host panicked in this turn"), "{answer:?}");
    }
    // A grain that called it gets the error as a value, and goes on.
    let caller = call("evil/caller", "boom").ok();
    assert!(caller["err"].as_str().unwrap().contains("the host panicked in this turn"), "{caller}");
    let echo = |grain: &str| silo.gateway().call(grain, "echo", &json!(["x"])).unwrap().ok();
    assert_eq!((echo(BOOM), echo("evil/caller")), (json!("x"), json!("x")), "both answer again");
    assert_eq!(silo.cli(&["call", "counter/a", "increment", "1"]).ok(), "1");
    let metrics = silo.admin().text("/metrics").unwrap();
    assert!(metrics.contains("granary_host_turn_panics_total 3"), "{metrics}");
    assert!(silo.log().contains("a planted panic of the host"), "its place is in the log");
}

/// Five silos in which the grain is planted.
struct Five {
    cluster: Cluster,
    silos: Vec<Silo>,
    deaths: usize,
}

impl Five {
    fn start() -> Self {
        let cluster = Cluster::new();
        let silos: Vec<Silo> =
            (1..=5).map(|number| cluster.start_with_failpoint(&format!("silo-{number}"), ABORTS)).collect();
        silos[0].deploy(&["evil", "counter"]);
        Self { cluster, silos, deaths: 0 }
    }

    /// Counts silos that ended; each is started again if `restart` says so, as a supervisor would.
    fn bury(&mut self, restart: bool) {
        let mut position = 0;
        while position < self.silos.len() {
            match self.silos[position].ended() {
                None => position += 1,
                Some(status) => {
                    assert_eq!(status.signal(), Some(SIGABRT), "{status}");
                    self.deaths += 1;
                    let name = self.silos.remove(position).name.clone();
                    if restart {
                        self.silos.insert(position, self.cluster.start_with_failpoint(&name, ABORTS));
                        position += 1;
                    }
                }
            }
        }
    }

    /// Calls the grain again and again until every silo that lives says that its component is in quarantine.
    fn provoke(&mut self, restart: bool) {
        let (started, mut refusals) = (Instant::now(), 0);
        while refusals < self.silos.len() {
            assert!(started.elapsed() < WITHIN, "no quarantine after {} deaths", self.deaths);
            refusals = 0;
            for position in 0..self.silos.len() {
                let Some(silo) = self.silos.get(position) else { break };
                let answer = silo.gateway().call(BOOM, "echo", &json!(["x"]));
                refusals += usize::from(answer.is_ok_and(|answer| answer.code() == "quarantined"));
                self.bury(restart);
            }
        }
        eprintln!("{} deaths, then quarantine, after {:.1?}", self.deaths, started.elapsed());
        assert_eq!(self.deaths, 2, "the third silo died of it");
    }

    /// Nobody runs the component, and everything else goes on.
    fn assert_contained(&mut self) {
        for silo in &self.silos {
            for grain in [BOOM, "evil/another"] {
                let answer = silo.gateway().call(grain, "echo", &json!(["x"])).unwrap();
                assert_eq!((answer.status, answer.code()), (503, "quarantined"), "{}: {answer:?}", silo.name);
                assert!(answer.detail().contains("SIGABRT"), "{answer:?}");
                assert!(answer.detail().contains("granary release"), "{answer:?}");
            }
            let counter = silo.gateway().call("counter/a", "increment", &json!([1])).unwrap();
            assert_eq!(counter.status, 200, "{}: {counter:?}", silo.name);
        }
        self.bury(false);
        assert_eq!(self.deaths, 2);
    }
}

#[test]
fn a_component_that_two_silos_died_of_runs_nowhere_until_it_is_released() {
    let mut five = Five::start();
    five.provoke(true);
    assert_eq!(five.silos.len(), 5);
    five.assert_contained();

    // A silo that starts now has read the list before it serves.
    let last = five.silos.pop().unwrap();
    let name = last.name.clone();
    let _ = last.terminate();
    five.silos.push(five.cluster.start_with_failpoint(&name, ABORTS));
    five.assert_contained();

    let silo = &five.silos[4];
    silo.cli(&["call", BOOM, "echo", "\"x\""]).fails(1, &["quarantine", "granary release"]);
    silo.cli(&["describe", BOOM]).fails(1, &["quarantine"]);
    assert!(silo.cli(&["list", "deployments"]).ok().contains("in quarantine since"));
    silo.cli(&["deploy", guest("evil").to_str().unwrap()]).fails(65, &["in quarantine since"]);
    let metrics = silo.admin().text("/metrics").unwrap();
    assert!(metrics.contains("granary_catalog_quarantined_components 1"), "{metrics}");

    assert_eq!(silo.cli(&["release", "evil"]).ok(), "evil released");
    silo.cli(&["release", "evil"]).fails(65, &["evil"]);
    for silo in &five.silos {
        wait_until(WITHIN, "it is served again", || {
            let answer = silo.gateway().call("evil/another", "echo", &json!(["x"])).unwrap();
            if answer.status == 200 { Ok(()) } else { Err(answer) }
        });
    }
}

#[test]
fn survivors_alone_are_enough_for_a_quarantine() {
    let mut five = Five::start();
    five.provoke(false);
    assert_eq!(five.silos.len(), 3);
    five.assert_contained();
}
