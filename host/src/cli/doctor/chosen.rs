//! What a silo decides by itself on this machine, and why. Figures come from the parts that decide.

use granary_core::hosting::Limits;
use granary_http::{EdgeKind, EdgeLimits};
use granary_wasm::EngineConfig;
use granary_wasm::artifact::{COMPILE_MEMORY_BYTES_MAX, COMPILE_TIME_BASE, COMPILE_TIME_PER_MIB};

use super::machine::Machine;
use super::{Choice, bytes};

/// Kernel mappings that one live activation takes: its memory with guards, its stack, and what is between. Measured:
/// 9 361 activations at the usual 65 530.
const MAPPINGS_PER_ACTIVATION: u64 = 7;

/// Memory of an activation with little state, in bytes. Measured.
const ACTIVATION_BYTES: u64 = 40 << 10;

/// How many activations the kernel's mappings allow.
pub(super) fn activations_by_mappings(mappings_max: u64) -> u64 {
    mappings_max / MAPPINGS_PER_ACTIVATION
}

/// A number, with spaces between thousands.
pub(super) fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// All choices.
pub(super) fn all(machine: &Machine) -> Vec<Choice> {
    vec![workers(machine), activations(machine), memory(machine), turn(), connections(machine), compiling()]
}

fn workers(machine: &Machine) -> Choice {
    let cores = machine.cores.unwrap_or(1);
    Choice {
        what: "worker threads",
        value: format!("{cores}, and one for membership"),
        why: "there is one for each core that affinity and the control group's quota leave; membership has its own, \
              so that computing grains delay no probe"
            .to_owned(),
    }
}

fn activations(machine: &Machine) -> Choice {
    let by_mappings = machine.mappings_max.map(activations_by_mappings);
    let by_memory = machine.memory().map(|memory| memory / ACTIVATION_BYTES);
    let (value, why) = match (by_mappings, by_memory) {
        (Some(mappings), Some(memory)) if memory < mappings => (
            format!("about {}", whole(memory)),
            format!("a small activation takes about {}, and memory ends first", bytes(ACTIVATION_BYTES)),
        ),
        (Some(mappings), _) => (
            format!("about {}", whole(mappings)),
            format!("each takes about {MAPPINGS_PER_ACTIVATION} kernel mappings, and those end first"),
        ),
        (None, Some(memory)) => (
            format!("about {}", whole(memory)),
            format!("a small activation takes about {}", bytes(ACTIVATION_BYTES)),
        ),
        (None, None) => ("unknown".to_owned(), "neither mappings nor memory are known".to_owned()),
    };
    let why = format!("{why}; the silo has no bound of its own, idle ones go after 15 minutes");
    Choice { what: "live activations", value, why }
}

fn memory(machine: &Machine) -> Choice {
    let each = Limits::default().memory_bytes_max;
    let full = machine.memory().map(|memory| whole(memory / each.max(1)));
    let why = match full {
        Some(full) => format!(
            "a grain may say otherwise by granary.memory-max; {full} activations that use all of theirs fill this \
             machine"
        ),
        None => "a grain may say otherwise by granary.memory-max".to_owned(),
    };
    Choice { what: "memory of an activation", value: format!("{} at most", bytes(each)), why }
}

fn turn() -> Choice {
    let (limits, engine) = (Limits::default(), EngineConfig::default());
    Choice {
        what: "CPU of a turn",
        value: format!("{:?}, in slices of {:?}", limits.turn_cpu_max, engine.tick),
        why:
            "a grain that loops delays its neighbours by a slice for each worker, until its budget is used up"
                .to_owned(),
    }
}

fn connections(machine: &Machine) -> Choice {
    let edges = EdgeLimits::of(EdgeKind::Gateway).connections_max;
    let files = match machine.files_hard {
        Some(files) => whole(files),
        None => "any number of".to_owned(),
    };
    Choice {
        what: "connections",
        value: format!("{} at each edge", whole(edges as u64)),
        why: format!("the limit of open files is raised to what is allowed, {files} files"),
    }
}

fn compiling() -> Choice {
    Choice {
        what: "compiling",
        value: format!(
            "one process at a time: {:?} and {:?} for each MiB, {} of addresses",
            COMPILE_TIME_BASE,
            COMPILE_TIME_PER_MIB,
            bytes(COMPILE_MEMORY_BYTES_MAX)
        ),
        why: "a component is untrusted input; the result is kept in the data directory's cache".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_of_mappings_and_memory_bounds_activations() {
        let mappings =
            Machine { mappings_max: Some(65_530), memory_total: Some(64 << 30), ..Machine::default() };
        assert_eq!(activations(&mappings).value, "about 9 361");
        let memory = Machine { memory_group_max: Some(40 << 20), ..mappings };
        assert_eq!(activations(&memory).value, "about 1 024");
    }

    #[test]
    fn numbers_have_spaces() {
        assert_eq!([1, 999, 1_000, 12_345_678].map(whole), ["1", "999", "1 000", "12 345 678"]);
    }
}
