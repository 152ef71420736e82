//! `granary top` in its one-shot form.

use granary_tests::{Cluster, wait_until};
use serde_json::Value;

#[test]
fn top_adds_up_silos_and_types_and_bounds_its_rows() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.start("silo-1"), cluster.start("silo-2"));
    one.deploy(&["account", "counter"]);
    for number in 0..6 {
        let silo = if number % 2 == 0 { &one } else { &two };
        let _ = silo.cli(&["call", &format!("counter/c{number}"), "increment", "1"]).ok();
    }
    let _ = one.cli(&["call", "account/ann", "balance"]).ok();
    let look = |args: &[&str]| -> Value {
        let args = [&["top", "--once", "--output", "json"], args].concat();
        serde_json::from_str(one.cli(&args).ok()).unwrap()
    };
    let report = wait_until(std::time::Duration::from_secs(10), "both silos answer", || {
        let report = look(&[]);
        if report["silos"].as_array().unwrap().len() == 2 { Ok(report) } else { Err(report) }
    });
    let silos = report["silos"].as_array().unwrap();
    let sum = |key: &str| silos.iter().map(|silo| silo[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("activations"), sum("calls")), (7, 7), "{report}");
    for silo in silos {
        assert!(silo["memory_bytes"].as_u64().unwrap() > 1 << 20, "{silo}");
        assert!(silo["cpu_seconds"].as_f64().unwrap() > 0.0, "{silo}");
    }
    let first = &report["types"][0];
    assert_eq!(
        (&first["type"], &first["activations"], &first["calls"]),
        (&"counter".into(), &6.into(), &6.into())
    );

    let by_name = look(&["--sort", "name", "--rows", "1"]);
    assert_eq!(by_name["types"].as_array().unwrap().len(), 1);
    assert_eq!((&by_name["types"][0]["type"], &by_name["types_count"]), (&"account".into(), &2.into()));

    // Not on a terminal it is printed once, without control characters.
    let text = two.cli(&["top", "--rows", "1"]);
    assert!(text.ok().contains("… and 1 more") && !text.stdout.contains('\u{1b}'), "{text:?}");
    one.cli(&["top", "--rows", "0"]).fails(2, &["1 to 1000"]);
}
