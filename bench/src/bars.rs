//! The bars: what each figure has to reach, and why. The one place where they stand.

/// What a figure has to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bar {
    /// The ratio to what it is compared with, at most.
    RatioMax(f64),
    /// The ratio to what it is compared with, at least.
    RatioMin(f64),
    /// The value itself, at most.
    ValueMax(f64),
    /// The value itself, at least.
    ValueMin(f64),
}

/// The bar of one line.
#[derive(Debug)]
pub(crate) struct BarOf {
    pub(crate) line: &'static str,
    pub(crate) bar: Bar,
    pub(crate) reason: &'static str,
}

/// Every bar. A line that is not here is shown for comparison alone.
pub(crate) const BARS: &[BarOf] = &[
    BarOf {
        line: "local-u64",
        bar: Bar::RatioMax(4.0),
        reason: "a call between grains is two crossings of the sandbox and one turn; the prototype without chain, \
                 deadline and fence took three to four bare calls",
    },
    BarOf {
        line: "local-rate",
        bar: Bar::ValueMin(650_000.0),
        reason: "unsandboxed actor libraries in Rust do 0.8 to 1.2 million calls per second and core",
    },
    BarOf {
        line: "local-1k",
        bar: Bar::RatioMax(1.5),
        reason: "1 KiB is copied a few times at memory speed; nothing may be done for each byte",
    },
    BarOf {
        line: "cold",
        bar: Bar::RatioMax(3.0),
        reason: "placing and registering must not cost more than instantiating twice",
    },
    BarOf {
        line: "lookup-1",
        bar: Bar::ValueMax(150.0),
        reason: "one hash and one probe of a map under a lock that nobody holds",
    },
    BarOf { line: "lookup-100", bar: Bar::ValueMax(150.0), reason: "the number of silos must not matter" },
    BarOf {
        line: "manifest",
        bar: Bar::RatioMin(0.6),
        reason: "the layout in front of the hash is a walk over sorted maps",
    },
    BarOf { line: "start", bar: Bar::ValueMax(1.0), reason: "a restart that nobody notices" },
    BarOf {
        line: "remote-p50",
        bar: Bar::RatioMax(2.0),
        reason: "a remote call is one round trip; queues, frames and the turn may cost as much again",
    },
    BarOf {
        line: "remote-rate",
        bar: Bar::RatioMin(0.7),
        reason: "under load frames are batched, and the turns are cheap beside the system calls",
    },
    BarOf {
        line: "gateway-1",
        bar: Bar::RatioMin(0.6),
        reason: "HTTP is most of the work of a call through the gateway",
    },
    BarOf { line: "gateway-1000", bar: Bar::RatioMin(0.6), reason: "the number of grains must not matter" },
    BarOf {
        line: "gateway-1-actor",
        bar: Bar::RatioMin(0.6),
        reason: "a plain Rust actor behind the same HTTP server is what one would write without Granary",
    },
    BarOf {
        line: "gateway-1000-actor",
        bar: Bar::RatioMin(0.6),
        reason: "a plain Rust actor behind the same HTTP server is what one would write without Granary",
    },
    BarOf {
        line: "live-memory",
        bar: Bar::ValueMax(40.0),
        reason: "14 KB of the host's heap, a stack of 8 KB, and the pages that a small guest touches",
    },
    BarOf {
        line: "live-count",
        bar: Bar::ValueMin(100_000.0),
        reason: "what fits into 4 GB; the default allocator ends at the kernel's limit of mappings",
    },
    BarOf {
        line: "migration-pause-p50",
        bar: Bar::ValueMax(2.0),
        reason: "dehydrate, one transfer of 100 KB, rehydrate, one commit at the directory",
    },
    BarOf { line: "migration-pause-p99", bar: Bar::ValueMax(10.0), reason: "below what a person notices" },
    BarOf { line: "migration-failed", bar: Bar::ValueMax(0.0), reason: "a move fails no call" },
    BarOf { line: "migration-doubled", bar: Bar::ValueMax(0.0), reason: "a move runs no call twice" },
];

/// The bar of a line.
pub(crate) fn of(line: &str) -> Option<&'static BarOf> {
    BARS.iter().find(|bar| bar.line == line)
}

impl Bar {
    /// Whether a median reaches it.
    pub(crate) fn is_met(self, value: f64, ratio: Option<f64>) -> bool {
        match self {
            Self::RatioMax(max) => ratio.is_some_and(|ratio| ratio <= max),
            Self::RatioMin(min) => ratio.is_some_and(|ratio| ratio >= min),
            Self::ValueMax(max) => value <= max,
            Self::ValueMin(min) => value >= min,
        }
    }
}

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RatioMax(max) => write!(f, "≤ {max} ×"),
            Self::RatioMin(min) => write!(f, "≥ {min} ×"),
            Self::ValueMax(max) => write!(f, "≤ {max}"),
            Self::ValueMin(min) => write!(f, "≥ {min}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_at_most_one_bar_and_each_bar_a_reason() {
        for (index, bar) in BARS.iter().enumerate() {
            assert!(!bar.reason.is_empty());
            assert!(BARS.iter().skip(index + 1).all(|other| other.line != bar.line), "{}", bar.line);
        }
    }

    #[test]
    fn a_ratio_that_is_missing_meets_no_bar() {
        assert!(Bar::RatioMax(4.0).is_met(0.0, Some(4.0)) && !Bar::RatioMax(4.0).is_met(0.0, None));
        assert!(Bar::RatioMin(0.6).is_met(0.0, Some(0.6)) && !Bar::RatioMin(0.6).is_met(0.0, Some(0.5)));
        assert!(Bar::ValueMax(0.0).is_met(0.0, None) && !Bar::ValueMin(1.0).is_met(0.0, None));
    }
}
