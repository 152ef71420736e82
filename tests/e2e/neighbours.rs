//! What a well-behaved grain's callers feel while other grains misbehave, are overloaded, or are compiled.
//!
//! The figures are printed. The gates are wide, since the machine may be busy with other tests: they tell a
//! neighbour that is slowed from one that is starved.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use granary_tests::{Answer, Cluster, Http, Silo, fixture, guest};
use serde_json::{Value, json};

/// How long each kind of misbehaviour goes on, at least.
const MEASURED: Duration = Duration::from_millis(1_500);

/// Grains that misbehave at once.
const OFFENDERS: usize = 8;

/// The CPU time of a turn of those, shorter than the default so that the test is short.
const BUDGET: &str = "granary.turn-cpu-max=300ms";

/// A neighbour of whose calls more than one in a hundred take longer is starved.
const NEIGHBOUR_P99_MAX: Duration = Duration::from_secs(10);

/// Times of calls, sorted.
struct Times(Vec<Duration>);

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "nothing was measured");
        times.sort_unstable();
        Self(times)
    }

    fn percentile(&self, percent: usize) -> Duration {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }

    fn line(&self) -> String {
        let [p50, p99, max] = [50, 99, 100].map(|percent| self.percentile(percent));
        format!("{} calls, p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}", self.0.len())
    }
}

/// Calls a neighbour while `offend` runs on each of `offenders` threads, again and again for [`MEASURED`].
fn neighbour(silo: &Silo, offenders: usize, offend: impl Fn(usize, &Http) + Sync) -> Times {
    let (done, offend) = (AtomicBool::new(false), &offend);
    std::thread::scope(|scope| {
        let done = &done;
        let until = Instant::now() + MEASURED;
        let calls = scope.spawn(move || {
            let gateway = Http::keeping(&silo.gateway);
            let mut times = Vec::new();
            while Instant::now() < until || !done.load(Ordering::Relaxed) {
                let started = Instant::now();
                let answer = gateway.call("counter/neighbour", "increment", &json!([1])).unwrap();
                assert_eq!(answer.status, 200, "{answer:?}");
                times.push(started.elapsed());
            }
            times
        });
        let threads: Vec<_> = (0..offenders)
            .map(|number| {
                scope.spawn(move || {
                    let gateway = Http::keeping(&silo.gateway);
                    while Instant::now() < until {
                        offend(number, &gateway);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        Times::of(calls.join().unwrap())
    })
}

/// What a grain may answer when it misbehaves: a result, or one line of a typed failure.
fn assert_typed(answer: &Answer, what: &str) {
    assert!(matches!((answer.status, answer.code()), (200, _) | (500, "failed")), "{what}: {answer:?}");
    let detail = answer.detail();
    assert!(detail.len() <= 1_024 && !detail.contains('\n'), "{what}: {} bytes: {detail:?}", detail.len());
}

fn deploy_liar(cluster: &Cluster, silo: &Silo) {
    let path = cluster.data().join("liar.wasm");
    std::fs::write(&path, fixture("liar")).unwrap();
    let _ = silo.cli(&["deploy", path.to_str().unwrap(), "--property", BUDGET]).ok();
}

#[test]
fn a_neighbour_is_answered_beside_each_kind_of_misbehaviour() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter"]);
    let _ = silo.cli(&["deploy", guest("evil").to_str().unwrap(), "--property", BUDGET]).ok();
    deploy_liar(&cluster, &silo);
    let kinds: [(&str, &str, &str, Value); 14] = [
        ("loops", "evil", "spin", json!([])),
        ("grows", "evil", "allocate", json!([4_000])),
        ("recurses", "evil", "recurse", json!([100_000_000_u64])),
        ("panics at length", "evil", "panic", json!(["x\u{1b}".repeat(50_000)])),
        ("grows a table", "liar", "tables", json!([])),
        ("asks the host 1 000 000 times", "evil", "ask", json!([1_000_000])),
        ("floods the log", "evil", "flood", json!([20_000])),
        ("returns too much", "evil", "oversize", json!([16 << 20])),
        ("calls in a storm", "evil", "storm", json!(["quiet", 500])),
        ("calls itself", "evil", "call-me-back", json!(["calls itself"])),
        ("lies about a length", "liar", "longest", json!([])),
        ("repeats one list", "liar", "repeated", json!([])),
        ("loops in realloc", "liar", "realloc-spin", json!(["text"])),
        ("loops after its return", "liar", "post-spin", json!([])),
    ];
    let quiet = neighbour(&silo, 0, |_, _| {});
    println!("quiet: {}", quiet.line());
    for (what, grain_type, method, arguments) in kinds {
        let (rss, started) = (silo.rss(), Instant::now());
        let times = neighbour(&silo, OFFENDERS, |number, gateway| {
            let key = what.replace(' ', "%20");
            let grain = format!("{grain_type}/{key}{number}");
            let answer = gateway.call(&grain, method, &arguments).unwrap();
            assert_typed(&answer, what);
        });
        let grown = silo.rss().saturating_sub(rss) >> 20;
        println!("{what}: {}, memory +{grown} MiB, {:.1?} in all", times.line(), started.elapsed());
        assert!(times.percentile(99) <= NEIGHBOUR_P99_MAX, "{what}: {}", times.line());
    }
    println!("quiet again: {}", neighbour(&silo, 0, |_, _| {}).line());
    let started = Instant::now();
    let answer = silo.gateway().call("evil/alone", "spin", &json!([])).unwrap();
    println!(
        "a loop alone ended after {:.1?}, its budget is 300 ms of CPU: {}",
        started.elapsed(),
        answer.detail()
    );
    assert!(!silo.log().contains("panicked at host"), "the host panicked");
}

/// Callers of one slow grain, and its mailbox.
const CALLERS: usize = 40;
const MAILBOX: usize = 10;
const TURN_MS: u32 = 20;

#[test]
fn an_overloaded_grain_refuses_at_once_goes_on_at_its_pace_and_recovers() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter"]);
    let bound = format!("granary.mailbox-max={MAILBOX}");
    let _ = silo.cli(&["deploy", guest("evil").to_str().unwrap(), "--property", &bound]).ok();
    let turn = |gateway: &Http| {
        let started = Instant::now();
        let answer = gateway.call("evil/slow", "sleep-ms", &json!([TURN_MS])).unwrap();
        (answer, started.elapsed())
    };
    let alone = Http::keeping(&silo.gateway);
    let (started, mut peak) = (Instant::now(), 0_u32);
    while started.elapsed() < MEASURED {
        assert_eq!(turn(&alone).0.status, 200);
        peak += 1;
    }
    let peak = f64::from(peak) / started.elapsed().as_secs_f64();
    let rss = silo.rss();
    let (refused, served) = (std::sync::Mutex::new(Vec::new()), std::sync::Mutex::new(Vec::new()));
    let started = Instant::now();
    let times = neighbour(&silo, CALLERS, |_, gateway| {
        let (answer, took) = turn(gateway);
        match (answer.status, answer.code()) {
            (200, _) => served.lock().unwrap().push(took),
            (503, "overloaded") => refused.lock().unwrap().push(took),
            _ => panic!("{answer:?}"),
        }
    });
    let goodput = served.lock().unwrap().len() as f64 / started.elapsed().as_secs_f64();
    let grown = silo.rss().saturating_sub(rss);
    let recovered = Instant::now();
    assert_eq!(turn(&alone).0.status, 200, "it does not recover");
    let recovered = recovered.elapsed();
    let refused = Times::of(refused.into_inner().unwrap());
    println!("refused: {}", refused.line());
    println!("served: {}", Times::of(served.into_inner().unwrap()).line());
    println!("{goodput:.0} of {peak:.0} turns/s, memory +{} KiB, recovered in {recovered:.1?}", grown >> 10);
    println!("neighbour: {}", times.line());
    assert!(refused.percentile(99) <= NEIGHBOUR_P99_MAX, "{}", refused.line());
    assert!(goodput >= peak * 0.1, "{goodput} of {peak} turns/s: it did not go on");
    assert!(grown <= 64 << 20, "memory grew by {grown} bytes");
}

#[test]
fn a_neighbour_is_answered_while_components_are_compiled() {
    let cluster = Cluster::new();
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter"]);
    let quiet = neighbour(&silo, 0, |_, _| {});
    let (component, number) = (std::fs::read(guest("evil")).unwrap(), AtomicU32::new(0));
    let times = neighbour(&silo, 1, |_, _| {
        // An empty custom section with another name: other bytes, so that no cache knows them.
        let name = format!("{:08}", number.fetch_add(1, Ordering::Relaxed));
        let unique = [&component[..], &[0, 9, 8], name.as_bytes()].concat();
        let path = cluster.data().join("compiled.wasm");
        std::fs::write(&path, unique).unwrap();
        let _ = silo.cli(&["deploy", path.to_str().unwrap()]).ok();
    });
    println!("quiet: {}", quiet.line());
    println!("while a component is compiled: {}", times.line());
    assert!(times.percentile(99) <= NEIGHBOUR_P99_MAX, "{}", times.line());
}
