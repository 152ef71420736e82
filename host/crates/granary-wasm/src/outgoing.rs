//! Outgoing HTTP requests of grains: connecting, sending, reading the answer, all in tasks of the activation.
//!
//! Invariants:
//! - A connection is made only to an address that the deployment's grants allow, and to the very one that was checked:
//!   a name is resolved once for each request, so that a second answer of the name server cannot win.
//! - One request, one connection; redirects are the grain's own business, and a new request.
//! - What one request holds is bounded, and it ends at its deadline or with its activation, whichever is first.

mod body;
mod connect;
mod error;
mod exchange;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) use body::BodyBuffer;
pub(crate) use error::{ErrorCode, HttpError};
pub(crate) use exchange::{Exchange, Prepared, Read, Timeouts, Wait, no_tls};

/// Outgoing requests of one silo at once, each with a connection.
const CONNECTIONS_MAX: usize = 1_024;

/// Names of one silo that are being resolved at once; each takes a thread.
const LOOKUPS_MAX: usize = 32;

/// Outgoing requests of one activation at once.
pub(crate) const REQUESTS_MAX: usize = 16;

/// What the bodies of an activation's requests may hold that was not sent yet, in bytes.
const BUFFERED_BYTES_MAX: usize = 8 << 20;

/// One request's body, in bytes.
pub(crate) const REQUEST_BODY_BYTES_MAX: u64 = 4 << 20;

/// One response's body, in bytes.
const RESPONSE_BODY_BYTES_MAX: u64 = 16 << 20;

/// What is read ahead of a response's body, in bytes.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// Fields of a response.
const RESPONSE_FIELDS_MAX: usize = 100;

/// Resolving the name and connecting.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// A whole request, where the call that it serves has no deadline.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(30);

/// A whole request, whatever the call's deadline is.
pub(crate) const REQUEST_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// What all activations of a silo share.
#[derive(Debug)]
pub(crate) struct Outgoing {
    connections: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
    /// Whom `https` trusts; without it there is none.
    tls: Option<Arc<ClientConfig>>,
    pub(crate) counters: Counters,
}

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    denied: AtomicU64,
    limited: AtomicU64,
    failed: AtomicU64,
}

/// Outgoing requests since the silo started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutgoingStats {
    /// All that grains wanted to send.
    pub requests: u64,
    /// Refused: the host or its address is not granted.
    pub denied: u64,
    /// Ended by a bound: requests at once, sizes.
    pub limited: u64,
    /// Ended by another error: the network, the other side, a timeout.
    pub failed: u64,
}

impl Outgoing {
    pub(crate) fn new(tls: Option<Arc<ClientConfig>>) -> Self {
        Self {
            tls,
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            counters: Counters::default(),
        }
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Counters {
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn error(&self, code: &ErrorCode) {
        let counter = match code {
            ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => &self.denied,
            ErrorCode::ConnectionLimitReached
            | ErrorCode::HttpRequestBodySize(_)
            | ErrorCode::HttpResponseBodySize(_)
            | ErrorCode::HttpResponseHeaderSectionSize(_) => &self.limited,
            _ => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> OutgoingStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OutgoingStats {
            requests: read(&self.requests),
            denied: read(&self.denied),
            limited: read(&self.limited),
            failed: read(&self.failed),
        }
    }
}

/// The requests of one activation. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Requests {
    shared: Arc<Outgoing>,
    tasks: JoinSet<()>,
    permits: Arc<Semaphore>,
    buffered: Quota,
}

impl Requests {
    pub(crate) fn new(shared: Arc<Outgoing>) -> Self {
        Self {
            shared,
            tasks: JoinSet::new(),
            permits: Arc::new(Semaphore::new(REQUESTS_MAX)),
            buffered: Quota(Arc::new(AtomicUsize::new(BUFFERED_BYTES_MAX))),
        }
    }

    /// Whether `https` is offered.
    pub(crate) fn has_tls(&self) -> bool {
        self.shared.tls.is_some()
    }

    /// An empty body, which is filled while the request waits or goes out.
    pub(crate) fn body(&self) -> Arc<BodyBuffer> {
        Arc::new(BodyBuffer::new(self.buffered.clone()))
    }

    /// Starts a request.
    ///
    /// # Errors
    /// `connection-limit-reached` when too many are under way.
    pub(crate) fn start(&mut self, prepared: Prepared) -> Result<Arc<Exchange>, HttpError> {
        while self.tasks.try_join_next().is_some() {}
        let limit = |what: &str, max: usize| {
            HttpError::new(ErrorCode::ConnectionLimitReached, format!("{what} has {max} requests under way"))
        };
        let own = Arc::clone(&self.permits).try_acquire_owned();
        let own = own.map_err(|_| limit("the activation", REQUESTS_MAX))?;
        let all = Arc::clone(&self.shared.connections).try_acquire_owned();
        let all = all.map_err(|_| limit("the silo", CONNECTIONS_MAX))?;
        let outgoing = Arc::clone(&self.shared);
        Ok(Exchange::start(&mut self.tasks, async move |inbox| {
            let _permits = (own, all);
            exchange::run(&outgoing, prepared, &inbox).await;
        }))
    }
}

/// Bytes that may still be held.
#[derive(Debug, Clone)]
struct Quota(Arc<AtomicUsize>);

impl Quota {
    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
