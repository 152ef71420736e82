//! What this process uses of its machine.

use rustix::time::{ClockId, clock_gettime};

/// Resident memory in bytes; 0 where the system does not say.
pub(crate) fn memory_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or_default().saturating_mul(rustix::param::page_size() as u64)
}

/// Processor time of all threads so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    #[allow(clippy::cast_precision_loss, reason = "precise to a microsecond for three hundred years")]
    let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_memory_and_time() {
        assert!(memory_bytes() > 1 << 20);
        let before = cpu_seconds();
        while cpu_seconds() <= before {
            std::hint::spin_loop();
        }
    }
}
