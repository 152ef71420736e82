//! What a silo decides by itself on this machine, and why. Figures come from the parts that decide.

use granary_core::hosting::Limits;
use granary_http::{EdgeKind, EdgeLimits};
use granary_wasm::EngineConfig;
use granary_wasm::artifact::{COMPILE_MEMORY_BYTES_MAX, COMPILE_TIME_BASE, COMPILE_TIME_PER_MIB};

use super::machine::Machine;
use super::{Choice, bytes};

/// Kernel mappings that one live activation takes where its type asks for reserved memory; a compact one is a slot of
/// a large mapping.
const MAPPINGS_PER_RESERVED_ACTIVATION: u64 = 2;

/// Memory of an activation with little state, in bytes. Measured.
const ACTIVATION_BYTES: u64 = 40 << 10;

/// How many activations with reserved memory the kernel's mappings allow.
pub(super) fn reserved_activations(mappings_max: u64) -> u64 {
    mappings_max / MAPPINGS_PER_RESERVED_ACTIVATION
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
    let value = machine
        .memory()
        .map_or_else(|| "unknown".to_owned(), |memory| format!("about {}", whole(memory / ACTIVATION_BYTES)));
    let reserved = machine.mappings_max.map_or_else(String::new, |max| {
        format!("; of types with granary.memory-layout = reserved about {}", whole(reserved_activations(max)))
    });
    let why = format!(
        "a small activation takes about {}{reserved}; the silo has no bound of its own, idle ones go after 15 minutes",
        bytes(ACTIVATION_BYTES)
    );
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
    fn memory_bounds_activations_and_mappings_those_with_reserved_memory() {
        let machine =
            Machine { mappings_max: Some(65_530), memory_group_max: Some(40 << 20), ..Machine::default() };
        let Choice { value, why, .. } = activations(&machine);
        assert_eq!(value, "about 1 024");
        assert!(why.contains("= reserved about 32 765"), "{why}");
        assert_eq!(activations(&Machine::default()).value, "unknown");
    }

    #[test]
    fn numbers_have_spaces() {
        assert_eq!([1, 999, 1_000, 12_345_678].map(whole), ["1", "999", "1 000", "12 345 678"]);
    }
}
