//! Counters of a network, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a network counted since its start.
#[derive(Debug, Default)]
pub struct NetStats {
    pub(crate) frames_in: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) frames_out: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Counter,
    pub(crate) connects_failed: Counter,
    pub(crate) one_ways_dropped: Counter,
    pub(crate) requests_not_queued: Counter,
    pub(crate) requests_overloaded: Counter,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetStatsSnapshot {
    pub frames_in: u64,
    pub bytes_in: u64,
    pub frames_out: u64,
    pub bytes_out: u64,
    /// Inbound connections that finished their handshake.
    pub connections_accepted: u64,
    /// Inbound connections closed without a handshake, or refused.
    pub connections_refused: u64,
    /// Outgoing connects that failed or were refused.
    pub connects_failed: u64,
    /// One-way messages that were not sent: queue full, peer down or dead, or connection lost before the write.
    pub one_ways_dropped: u64,
    /// Requests that did not get into the queue.
    pub requests_not_queued: u64,
    /// Inbound requests refused because too many ran.
    pub requests_overloaded: u64,
}

impl NetStats {
    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> NetStatsSnapshot {
        NetStatsSnapshot {
            frames_in: self.frames_in.get(),
            bytes_in: self.bytes_in.get(),
            frames_out: self.frames_out.get(),
            bytes_out: self.bytes_out.get(),
            connections_accepted: self.connections_accepted.get(),
            connections_refused: self.connections_refused.get(),
            connects_failed: self.connects_failed.get(),
            one_ways_dropped: self.one_ways_dropped.get(),
            requests_not_queued: self.requests_not_queued.get(),
            requests_overloaded: self.requests_overloaded.get(),
        }
    }
}
