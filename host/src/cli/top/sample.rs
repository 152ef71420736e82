//! One look at a cluster: what each silo reports, added up by grain type.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::Sort;

/// What one silo reported.
#[derive(Debug, Clone, Default, PartialEq)]
struct Silo {
    name: String,
    activations: u64,
    /// Calls that its callers made, since its start.
    calls: u64,
    failed: u64,
    turns: u64,
    memory_bytes: u64,
    cpu_seconds: f64,
}

/// One grain type in the whole cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct GrainType {
    name: String,
    silos: u64,
    activations: u64,
    calls: u64,
    waiting: u64,
    running: u64,
}

/// All silos that answered, at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    at: Instant,
    silos: Vec<Silo>,
    types: Vec<GrainType>,
}

impl Sample {
    /// Reads the rows of `/v1/load`.
    pub(super) fn read(rows: &Value) -> Self {
        let mut silos = Vec::new();
        let mut types: BTreeMap<String, GrainType> = BTreeMap::new();
        for row in array(Some(rows)) {
            silos.push(Silo {
                name: text(row, "silo"),
                activations: number(row, "activations"),
                calls: number(row, "calls"),
                failed: number(row, "calls_failed"),
                turns: number(row, "turns"),
                memory_bytes: number(row, "memory_bytes"),
                cpu_seconds: row.get("cpu_seconds").and_then(Value::as_f64).unwrap_or_default(),
            });
            for of_type in array(row.get("types")) {
                let name = text(of_type, "type");
                let sum =
                    types.entry(name.clone()).or_insert_with(|| GrainType { name, ..Default::default() });
                sum.silos += u64::from(number(of_type, "activations") > 0);
                sum.activations += number(of_type, "activations");
                sum.calls += number(of_type, "calls");
                sum.waiting += number(of_type, "waiting");
                sum.running += number(of_type, "running");
            }
        }
        silos.sort_by(|a, b| a.name.cmp(&b.name));
        Self { at: Instant::now(), silos, types: types.into_values().collect() }
    }

    /// The types in the order that was asked for; equal ones by name.
    fn sorted(&self, sort: Sort) -> Vec<&GrainType> {
        let mut types: Vec<&GrainType> = self.types.iter().collect();
        types.sort_by_key(|it| match sort {
            Sort::Calls => std::cmp::Reverse(it.calls),
            Sort::Activations => std::cmp::Reverse(it.activations),
            Sort::Waiting => std::cmp::Reverse(it.waiting),
            Sort::Name => std::cmp::Reverse(0),
        });
        types
    }

    /// For programs.
    pub(super) fn json(&self, sort: Sort, rows: usize) -> Value {
        let silos: Vec<Value> = self
            .silos
            .iter()
            .take(rows)
            .map(|it| {
                json!({
                    "silo": it.name,
                    "activations": it.activations,
                    "calls": it.calls,
                    "calls_failed": it.failed,
                    "turns": it.turns,
                    "memory_bytes": it.memory_bytes,
                    "cpu_seconds": it.cpu_seconds,
                })
            })
            .collect();
        let types: Vec<Value> = self
            .sorted(sort)
            .into_iter()
            .take(rows)
            .map(|it| {
                json!({
                    "type": it.name,
                    "silos": it.silos,
                    "activations": it.activations,
                    "calls": it.calls,
                    "waiting": it.waiting,
                    "running": it.running,
                })
            })
            .collect();
        json!({
            "silos": silos,
            "silos_count": self.silos.len(),
            "types": types,
            "types_count": self.types.len(),
        })
    }

    /// For people; with rates when there is an earlier look to compare with.
    pub(super) fn text(&self, earlier: Option<&Self>, sort: Sort, rows: usize) -> String {
        let mut lines = vec![format!(
            "{:16} {:>11} {:>12} {:>9} {:>8} {:>10} {:>6}",
            "SILO", "ACTIVATIONS", "CALLS", "CALLS/S", "FAILED", "MEMORY", "CPU %"
        )];
        for silo in self.silos.iter().take(rows) {
            let (calls, cpu) = self.rates(silo, earlier);
            lines.push(format!(
                "{:16} {:>11} {:>12} {:>9} {:>8} {:>10} {:>6}",
                cut(&silo.name),
                silo.activations,
                silo.calls,
                calls,
                silo.failed,
                format!("{} MiB", silo.memory_bytes >> 20),
                cpu
            ));
        }
        lines.extend(more(self.silos.len(), rows));
        lines.push(String::new());
        lines.push(format!(
            "{:16} {:>11} {:>12} {:>9} {:>8} {:>10}",
            "TYPE", "ACTIVATIONS", "CALLS", "WAITING", "RUNNING", "ON SILOS"
        ));
        for it in self.sorted(sort).into_iter().take(rows) {
            lines.push(format!(
                "{:16} {:>11} {:>12} {:>9} {:>8} {:>10}",
                cut(&it.name),
                it.activations,
                it.calls,
                it.waiting,
                it.running,
                it.silos
            ));
        }
        lines.extend(more(self.types.len(), rows));
        lines.join("\n")
    }

    /// Calls in a second and processors in percent since the earlier look.
    fn rates(&self, silo: &Silo, earlier: Option<&Self>) -> (String, String) {
        let before = earlier.and_then(|earlier| {
            let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
            let before = earlier.silos.iter().find(|before| before.name == silo.name)?;
            // A smaller count is that of a silo that was started again.
            (seconds > 0.0 && before.calls <= silo.calls).then_some((seconds, before))
        });
        match before {
            Some((seconds, before)) => {
                #[allow(clippy::cast_precision_loss, reason = "for people")]
                let calls = (silo.calls - before.calls) as f64 / seconds;
                let cpu = (silo.cpu_seconds - before.cpu_seconds) / seconds * 100.0;
                (format!("{calls:.0}"), format!("{:.0}", cpu.max(0.0)))
            }
            None => ("-".to_owned(), "-".to_owned()),
        }
    }
}

fn more(count: usize, rows: usize) -> Option<String> {
    (count > rows).then(|| format!("… and {} more", count - rows))
}

fn cut(name: &str) -> String {
    if name.chars().count() <= 16 {
        return name.to_owned();
    }
    name.chars().take(15).chain(['…']).collect()
}

fn array(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text(row: &Value, key: &str) -> String {
    row.get(key).and_then(Value::as_str).unwrap_or("?").to_owned()
}

fn number(row: &Value, key: &str) -> u64 {
    row.get(key).and_then(Value::as_u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample(calls: u64) -> Sample {
        let of_type = |name: &str, activations: u64, calls: u64| json!({ "type": name, "activations": activations, "calls": calls, "waiting": 1, "running": 0 });
        Sample::read(&json!([
            { "silo": "silo-2", "activations": 3, "calls": calls, "memory_bytes": 64 << 20, "cpu_seconds": 1.5,
              "types": [of_type("a", 1, 9), of_type("b", 2, 5)] },
            { "silo": "silo-1", "activations": 1, "calls": 7, "types": [of_type("a", 0, 0), of_type("b", 1, 5)] },
        ]))
    }

    #[test]
    fn types_are_added_up_over_silos_and_sorted() {
        let sample = sample(10);
        let names = |sort| sample.sorted(sort).iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(Sort::Calls), ["b", "a"]);
        assert_eq!(names(Sort::Name), ["a", "b"]);
        let b = sample.sorted(Sort::Activations)[0];
        assert_eq!((b.activations, b.calls, b.waiting, b.silos), (3, 10, 2, 2));
        assert_eq!(sample.sorted(Sort::Name)[0].silos, 1);
    }

    #[test]
    fn rates_need_two_looks_and_a_restarted_silo_has_none() {
        let earlier = sample(10);
        let mut later = sample(30);
        later.at = earlier.at + Duration::from_secs(2);
        let silo = later.silos.iter().find(|silo| silo.name == "silo-2").unwrap();
        assert_eq!(later.rates(silo, Some(&earlier)).0, "10");
        assert_eq!(later.rates(silo, None).0, "-");
        let again = sample(3);
        assert_eq!(again.rates(&again.silos[1], Some(&earlier)).0, "-");
    }

    #[test]
    fn tables_are_bounded_and_say_what_is_missing() {
        let text = sample(10).text(None, Sort::Calls, 1);
        assert_eq!(text.matches("… and 1 more").count(), 2, "{text}");
        assert_eq!(sample(10).json(Sort::Calls, 1)["types"].as_array().unwrap().len(), 1);
    }
}
