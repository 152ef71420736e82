//! Verdicts on the machine's limits.

use granary_wasm::MEMORY_RESERVATION_BYTES;

use super::chosen::{reserved_activations, whole};
use super::machine::Machine;
use super::{Finding, Verdict, bytes};

/// Below this much memory compiling a component of some size is likely to be killed.
const MEMORY_LOW_BYTES: u64 = 1 << 30;

/// Below this much memory a silo with a few grains does not fit.
const MEMORY_FAILURE_BYTES: u64 = 128 << 20;

/// What the kernel gives by default; less is somebody's setting.
const MAPPINGS_USUAL: u64 = 65_530;

/// Open files that both edges and the silo links may use together, with the databases.
const FILES_GOOD: u64 = 10_240;

/// Open files without which a silo does not come up.
const FILES_FAILURE: u64 = 128;

/// Threads and processes that a silo and one compiling process use, with room.
const TASKS_GOOD: u64 = 512;

/// The largest file that a database, or compiled code, may need to be.
const FILE_BYTES_GOOD: u64 = 1 << 30;

/// 2022-01-01 UTC in seconds: a silo's generations count from there.
const WALL_SECONDS_MIN: u64 = 1_640_995_200;

/// Clock sources that cost a system call, or a trip out of the virtual machine, for each reading.
const SLOW_CLOCKS: [&str; 3] = ["hpet", "acpi_pm", "jiffies"];

/// All of them, in the order in which they are shown.
pub(super) fn all(machine: &Machine) -> Vec<Finding> {
    vec![
        processor(machine),
        cores(machine),
        memory(machine),
        overcommit(machine),
        address_space(machine),
        mappings(machine),
        files(machine),
        tasks(machine),
        file_size(machine),
        clock(machine),
    ]
}

/// A finding where more is better: what is unknown or unlimited is well.
fn at_least(
    check: &'static str,
    value: Option<u64>,
    (good, failure): (u64, u64),
    found: impl FnOnce() -> String,
    advice: &str,
) -> Finding {
    let verdict = match value {
        Some(value) if value < failure => Verdict::Failure,
        Some(value) if value < good => Verdict::Warning,
        _ => Verdict::Ok,
    };
    Finding::new(check, verdict, found(), advice)
}

fn or_none(value: Option<u64>, show: impl FnOnce(u64) -> String) -> String {
    value.map_or_else(|| "no limit".to_owned(), show)
}

fn processor(machine: &Machine) -> Finding {
    let verdict = if machine.architecture == "x86_64" { Verdict::Ok } else { Verdict::Warning };
    Finding::new(
        "processor",
        verdict,
        machine.architecture,
        "Granary is tested on x86_64 alone; engine defects have been found elsewhere more often",
    )
}

fn cores(machine: &Machine) -> Finding {
    let quota = machine.cpu_quota.map(|quota| format!(", quota of the control group {quota:.2}"));
    let found = match machine.cores {
        Some(cores) => format!("{cores} usable{}", quota.unwrap_or_default()),
        None => "unknown".to_owned(),
    };
    let tight = machine.cores == Some(1) || machine.cpu_quota.is_some_and(|quota| quota < 1.5);
    let verdict = if tight { Verdict::Warning } else { Verdict::Ok };
    Finding::new(
        "cores",
        verdict,
        found,
        "with one core a computing grain delays all others by its time slice: give the silo two or more",
    )
}

fn memory(machine: &Machine) -> Finding {
    let found = match (machine.memory_total, machine.memory_group_max, machine.memory_available) {
        (None, None, _) => "unknown".to_owned(),
        (total, group, available) => {
            let part = |name: &str, value: Option<u64>| value.map(|it| format!("{name} {}", bytes(it)));
            let parts = [
                part("machine", total),
                part("available", available),
                part("limit of the control group", group),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
    };
    at_least(
        "memory",
        machine.memory(),
        (MEMORY_LOW_BYTES, MEMORY_FAILURE_BYTES),
        || found,
        "below 1 GiB compiling a large component may be killed: raise the limit, or compile on another silo that \
         shares the data directory",
    )
}

fn overcommit(machine: &Machine) -> Finding {
    let (verdict, found) = match machine.overcommit {
        Some(2) => (Verdict::Warning, "2: the kernel counts every promise of memory"),
        Some(1) => (Verdict::Ok, "1: the kernel promises everything"),
        Some(_) => (Verdict::Ok, "0: the kernel estimates"),
        None => (Verdict::Ok, "unknown"),
    };
    Finding::new(
        "overcommit",
        verdict,
        found,
        "with vm.overcommit_memory=2 memories of grains may fail to grow although there is memory: use 0 (sysctl -w \
         vm.overcommit_memory=0)",
    )
}

fn address_space(machine: &Machine) -> Finding {
    at_least(
        "address space",
        machine.address_space,
        (MEMORY_RESERVATION_BYTES.saturating_mul(1_000), MEMORY_RESERVATION_BYTES.saturating_mul(2)),
        || or_none(machine.address_space, bytes),
        "activations of types with granary.memory-layout = reserved take 4 GiB of addresses (not of memory) each: \
         start the silo without a limit (ulimit -v unlimited)",
    )
}

fn mappings(machine: &Machine) -> Finding {
    at_least(
        "mappings",
        machine.mappings_max,
        (MAPPINGS_USUAL, 1_000),
        || match machine.mappings_max {
            Some(max) => {
                format!("{max}: about {} activations with reserved memory", whole(reserved_activations(max)))
            }
            None => "unknown".to_owned(),
        },
        "beyond that activations with reserved memory fail to start; for more raise it: sysctl -w vm.max_map_count=1048576",
    )
}

fn files(machine: &Machine) -> Finding {
    at_least(
        "open files",
        machine.files_hard,
        (FILES_GOOD, FILES_FAILURE),
        || or_none(machine.files_hard, |max| format!("{max} at most")),
        "each connection is one, and beyond the limit new ones wait: raise the hard limit (ulimit -Hn 65536, or \
         LimitNOFILE= of the service)",
    )
}

fn tasks(machine: &Machine) -> Finding {
    let least = match (machine.tasks, machine.tasks_group_max) {
        (Some(user), Some(group)) => Some(user.min(group)),
        (user, group) => user.or(group),
    };
    at_least(
        "threads",
        least,
        (TASKS_GOOD, 32),
        || or_none(least, |max| format!("{max} at most")),
        "a silo and its compiling process start some dozens: raise ulimit -u, or pids.max of the control group",
    )
}

fn file_size(machine: &Machine) -> Finding {
    at_least(
        "file size",
        machine.file_bytes,
        (FILE_BYTES_GOOD, 16 << 20),
        || or_none(machine.file_bytes, bytes),
        "databases and compiled code are files: start the silo without a limit (ulimit -f unlimited)",
    )
}

fn clock(machine: &Machine) -> Finding {
    let source = machine.clock_source.as_deref().unwrap_or("unknown");
    if machine.wall_seconds < WALL_SECONDS_MIN {
        let found = format!("the wall clock says {} s after 1970", whole(machine.wall_seconds));
        return Finding::new(
            "clock",
            Verdict::Warning,
            found,
            "set the clock: nothing is decided by it, but logs and records would be dated wrongly",
        );
    }
    let verdict = if SLOW_CLOCKS.contains(&source) { Verdict::Warning } else { Verdict::Ok };
    Finding::new(
        "clock",
        verdict,
        format!("source {source}"),
        "a slow clock source makes each call dearer: prefer tsc or the hypervisor's own",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Machine {
        Machine {
            architecture: "x86_64",
            cores: Some(4),
            memory_total: Some(8 << 30),
            mappings_max: Some(65_530),
            overcommit: Some(0),
            files_hard: Some(1 << 20),
            clock_source: Some("tsc".to_owned()),
            wall_seconds: WALL_SECONDS_MIN + 1,
            ..Machine::default()
        }
    }

    fn verdict(machine: &Machine, check: &str) -> Verdict {
        all(machine).into_iter().find(|finding| finding.check == check).unwrap().verdict
    }

    #[test]
    fn a_usual_machine_has_nothing_to_complain_about() {
        let bad: Vec<Finding> =
            all(&good()).into_iter().filter(|finding| finding.verdict != Verdict::Ok).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }

    #[test]
    fn only_what_stops_a_silo_is_a_failure() {
        let failing: [(&str, Machine); 4] = [
            ("open files", Machine { files_hard: Some(64), ..good() }),
            ("address space", Machine { address_space: Some(4 << 30), ..good() }),
            ("memory", Machine { memory_group_max: Some(64 << 20), ..good() }),
            ("threads", Machine { tasks: Some(8), ..good() }),
        ];
        for (check, machine) in &failing {
            assert_eq!(verdict(machine, check), Verdict::Failure, "{check}");
        }
        let warned: [(&str, Machine); 6] = [
            ("cores", Machine { cores: Some(1), ..good() }),
            ("cores", Machine { cpu_quota: Some(0.5), ..good() }),
            ("open files", Machine { files_hard: Some(1_024), ..good() }),
            ("overcommit", Machine { overcommit: Some(2), ..good() }),
            ("mappings", Machine { mappings_max: Some(30_000), ..good() }),
            ("clock", Machine { clock_source: Some("hpet".to_owned()), ..good() }),
        ];
        for (check, machine) in &warned {
            assert_eq!(verdict(machine, check), Verdict::Warning, "{check}");
        }
    }
}
