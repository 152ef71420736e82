//! Repetitions and their spread, and the clocks of threads and processes.
//!
//! What is compared is measured in turns, A B A B …, so that a neighbour on the machine disturbs both alike, and the
//! ratio is taken within each turn. Costs are CPU time wherever one thread or process does the work: on a shared
//! machine that repeats, and wall time does not.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::time::{ClockId, clock_gettime};

/// One figure, measured several times.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    pub(crate) fn new(values: Vec<f64>) -> Self {
        Self(values)
    }

    /// One value that is exact, such as a count.
    pub(crate) fn exact(value: f64) -> Self {
        Self(vec![value])
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> f64 {
        percentile(&self.0, 50.0)
    }

    pub(crate) fn min(&self) -> f64 {
        percentile(&self.0, 0.0)
    }

    pub(crate) fn max(&self) -> f64 {
        percentile(&self.0, 100.0)
    }

    /// This divided by that, turn by turn.
    pub(crate) fn ratio(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }

    pub(crate) fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|value| change(*value)).collect())
    }
}

/// The value below which `percent` of the values lie; zero when there are none.
pub(crate) fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a short list")]
    let index = ((sorted.len().saturating_sub(1)) as f64 * percent / 100.0).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

/// One thing to measure: gives its figure once.
pub(crate) type Probe<'a> = &'a mut dyn FnMut() -> Result<f64>;

/// Measures all probes in turns; one turn more goes first and is thrown away.
pub(crate) fn interleaved<const N: usize>(
    repetitions: usize,
    mut probes: [Probe<'_>; N],
) -> Result<[Series; N]> {
    let mut series = [const { Vec::new() }; N];
    for turn in 0..=repetitions {
        for (probe, values) in probes.iter_mut().zip(&mut series) {
            let value = probe()?;
            if turn > 0 {
                values.push(value);
            }
        }
    }
    Ok(series.map(Series))
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// CPU time of this process.
pub(crate) fn own_cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

fn clock(id: ClockId) -> Duration {
    Duration::try_from(clock_gettime(id)).unwrap_or_default()
}

/// CPU time of the threads that another process has now. Its threads must not end between two readings, which those
/// of a runtime do not while it serves.
pub(crate) fn cpu_of(pid: u32) -> Result<Duration> {
    let tasks = format!("/proc/{pid}/task");
    let mut all = 0;
    for task in fs::read_dir(&tasks).with_context(|| format!("cannot read {tasks}"))? {
        let path = task?.path().join("schedstat");
        // The first number: nanoseconds on a CPU. A thread that has ended meanwhile has none.
        let Ok(text) = fs::read_to_string(path) else { continue };
        all += text.split_whitespace().next().and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(Duration::from_nanos(all))
}

/// Resident memory of a process in bytes.
pub(crate) fn rss_of(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.split_whitespace().nth(1).context("VmRSS has no number")?.parse()?;
    Ok(kib * 1024)
}

/// The machine's load over the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_ends_are_of_the_values() {
        let series = Series::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((series.median(), series.min(), series.max()), (2.0, 1.0, 3.0));
        assert_eq!(Series::default().median(), 0.0);
    }

    #[test]
    fn a_ratio_is_taken_turn_by_turn() {
        let (one, other) = (Series::new(vec![4.0, 9.0]), Series::new(vec![2.0, 3.0]));
        assert_eq!(one.ratio(&other), Series::new(vec![2.0, 3.0]));
    }

    #[test]
    fn probes_are_measured_in_turns_and_the_first_turn_is_thrown_away() {
        let order = std::cell::RefCell::new(String::new());
        let mut n = 0.0;
        let [a, b] = interleaved(
            2,
            [
                &mut || {
                    order.borrow_mut().push('a');
                    n += 1.0;
                    Ok(n)
                },
                &mut || {
                    order.borrow_mut().push('b');
                    Ok(0.0)
                },
            ],
        )
        .unwrap();
        assert_eq!(order.into_inner(), "ababab");
        assert_eq!((a, b.len()), (Series::new(vec![2.0, 3.0]), 2));
    }

    #[test]
    fn the_clocks_of_threads_and_processes_go_forward() {
        let (thread, own) = (thread_cpu(), own_cpu());
        std::hint::black_box((0..1_000_000_u64).map(std::hint::black_box).sum::<u64>());
        assert!(thread_cpu() > thread && own_cpu() > own);
        assert!(cpu_of(std::process::id()).unwrap() > Duration::ZERO);
        assert!(rss_of(std::process::id()).unwrap() > 0);
    }
}
