//! What grains logged: the newest lines of each grain, in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use granary_core::hosting::LogLevel;
use granary_core::id::GrainId;
use serde::{Deserialize, Serialize};

/// Lines kept for each grain.
const LINES_PER_GRAIN_MAX: usize = 500;

/// Bytes of text kept for all grains together.
const BYTES_MAX: usize = 16 << 20;

/// What a line costs beside its text: its place in the queues.
const LINE_OVERHEAD_BYTES: usize = 96;

/// One line of a grain's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogLine {
    /// Unix time in microseconds.
    pub(crate) at_us: u64,
    pub(crate) level: LogLevel,
    pub(crate) text: String,
}

/// The lines of one silo.
#[derive(Debug, Default)]
pub(crate) struct GuestLogs {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    grains: BTreeMap<GrainId, VecDeque<(u64, LogLine)>>,
    /// Which grain wrote, in the order of writing: the oldest line goes first when memory is short. Lines that
    /// went already, because their grain wrote too many, are recognised by their number.
    order: VecDeque<(u64, GrainId)>,
    next: u64,
    bytes: usize,
}

impl GuestLogs {
    /// Keeps a line, and drops the oldest ones beyond the bounds.
    pub(crate) fn push(&self, grain: &GrainId, level: LogLevel, text: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let Ok(mut inner) = self.inner.lock() else { return };
        inner.push(grain, LogLine { at_us, level, text: text.to_owned() });
    }

    /// The newest lines of a grain, oldest first.
    pub(crate) fn tail(&self, grain: &GrainId, lines: usize) -> Vec<LogLine> {
        let Ok(inner) = self.inner.lock() else { return Vec::new() };
        let Some(kept) = inner.grains.get(grain) else { return Vec::new() };
        kept.iter().skip(kept.len().saturating_sub(lines)).map(|(_, line)| line.clone()).collect()
    }
}

impl Inner {
    fn push(&mut self, grain: &GrainId, line: LogLine) {
        let number = self.next;
        self.next += 1;
        self.bytes += line.text.len() + LINE_OVERHEAD_BYTES;
        let lines = self.grains.entry(grain.clone()).or_default();
        lines.push_back((number, line));
        if lines.len() > LINES_PER_GRAIN_MAX
            && let Some((_, old)) = lines.pop_front()
        {
            self.bytes -= old.text.len() + LINE_OVERHEAD_BYTES;
        }
        self.order.push_back((number, grain.clone()));
        while self.bytes > BYTES_MAX {
            let Some((number, grain)) = self.order.pop_front() else { break };
            self.drop_line(number, &grain);
        }
        // Entries whose line went already: without this a single chatty grain would grow the order for ever.
        while let Some((number, grain)) = self.order.front()
            && self
                .grains
                .get(grain)
                .is_none_or(|lines| lines.front().is_none_or(|(first, _)| first > number))
        {
            self.order.pop_front();
        }
    }

    fn drop_line(&mut self, number: u64, grain: &GrainId) {
        let Some(lines) = self.grains.get_mut(grain) else { return };
        if lines.front().is_some_and(|(first, _)| *first == number)
            && let Some((_, line)) = lines.pop_front()
        {
            self.bytes -= line.text.len() + LINE_OVERHEAD_BYTES;
        }
        if lines.is_empty() {
            self.grains.remove(grain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grain(key: &str) -> GrainId {
        format!("t/{key}").parse().unwrap()
    }

    #[test]
    fn each_grain_keeps_its_newest_lines() {
        let logs = GuestLogs::default();
        for n in 0..LINES_PER_GRAIN_MAX + 10 {
            logs.push(&grain("a"), LogLevel::Info, &n.to_string());
        }
        logs.push(&grain("b"), LogLevel::Warn, "hello");
        let tail = logs.tail(&grain("a"), 3);
        let texts: Vec<&str> = tail.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["507", "508", "509"]);
        assert_eq!(logs.tail(&grain("a"), usize::MAX).len(), LINES_PER_GRAIN_MAX);
        assert_eq!(logs.tail(&grain("b"), 5).len(), 1);
        assert!(logs.inner.lock().unwrap().order.len() <= LINES_PER_GRAIN_MAX + 1);
    }

    #[test]
    fn all_grains_together_stay_within_the_bound() {
        let logs = GuestLogs::default();
        let text = "x".repeat(4_096);
        for n in 0..10_000 {
            logs.push(&grain(&(n % 100).to_string()), LogLevel::Info, &text);
        }
        let inner = logs.inner.lock().unwrap();
        assert!(inner.bytes <= BYTES_MAX);
        let counted: usize =
            inner.grains.values().flatten().map(|(_, line)| line.text.len() + LINE_OVERHEAD_BYTES).sum();
        assert_eq!(counted, inner.bytes);
    }
}
