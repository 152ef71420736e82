//! The client: gateways, the bound on calls in flight, deadlines, and which calls are sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use granary_guest::{CallError, GrainRef};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::attempt::{Attempt, Failure, request};
use crate::gateway::Gateway;
use crate::json::Json;

/// How often a call is sent at most; the deadline usually ends it first.
const ATTEMPTS_MAX: u32 = 64;

/// The pause before a gateway is tried again; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// The longest pause that is made without being asked for.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// How a client behaves; [`Options::default`] has the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long a call may take, its repetitions included. Default 30 s; a gateway allows 10 min at most.
    pub timeout: Duration,
    /// Calls in flight at once; more wait for their turn, at most until their deadline. Default 256.
    pub in_flight_max: usize,
    /// How long making a connection may take. Default 3 s.
    pub connect_timeout: Duration,
    /// Idle connections that are kept for each gateway. Default 64.
    pub idle_max: usize,
    /// The longest result that is read, in bytes of text. Default 32 MiB, which is what a gateway sends at most.
    pub result_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            in_flight_max: 256,
            connect_timeout: Duration::from_secs(3),
            idle_max: 64,
            result_bytes_max: 32 << 20,
        }
    }
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A URL that is no gateway's.
    #[error("{url:?} is no URL of a gateway: {reason}; an example is http://127.0.0.1:11110")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No URL was given.
    #[error("name at least one gateway, such as http://127.0.0.1:11110")]
    NoUrl,
    /// No gateway takes connections; the reason is the last one's.
    #[error("no gateway answers: {0}")]
    Unreachable(String),
}

/// A handle to a cluster, through the gateways of some of its silos. Clones share connections and bounds.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    gateways: Vec<Gateway>,
    options: Options,
    in_flight: Semaphore,
    /// The gateway to begin with next.
    next: AtomicUsize,
    /// The tasks that drive connections. They end with their connections, and those with the client.
    tracker: TaskTracker,
}

impl Client {
    /// Connects to the cluster that these gateways belong to.
    ///
    /// # Errors
    /// [`ConnectError`] when a URL is wrong, or no gateway takes a connection.
    pub async fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, ConnectError> {
        Self::connect_with(urls, Options::default()).await
    }

    /// The same with other options.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect_with<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        options: Options,
    ) -> Result<Self, ConnectError> {
        let gateways = urls
            .into_iter()
            .map(|url| Gateway::new(url.as_ref()))
            .collect::<Result<Vec<_>, ConnectError>>()?;
        let tracker = TaskTracker::new();
        let mut last = ConnectError::NoUrl;
        let mut reached = false;
        for gateway in &gateways {
            match gateway.prepare(&options, &tracker).await {
                Ok(()) => {
                    reached = true;
                    break;
                }
                Err(reason) => last = ConnectError::Unreachable(reason),
            }
        }
        if !reached {
            return Err(last);
        }
        let in_flight = Semaphore::new(options.in_flight_max.clamp(1, Semaphore::MAX_PERMITS));
        let inner = Inner { gateways, options, in_flight, next: AtomicUsize::new(0), tracker };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Calls a method by name (`method`, `interface.method` or `ns:pkg/interface.method`) with its arguments as JSON;
    /// typed references do this. `timeout` stands in place of the client's own.
    ///
    /// # Errors
    /// [`CallError`]; see the crate's documentation for what is sent again.
    pub async fn call(
        &self,
        grain: &GrainRef,
        method: &str,
        arguments: Vec<Json>,
        timeout: Option<Duration>,
    ) -> Result<Json, CallError> {
        let inner = &*self.inner;
        let deadline = Instant::now() + timeout.unwrap_or(inner.options.timeout);
        let Ok(Ok(_permit)) = tokio::time::timeout_at(deadline, inner.in_flight.acquire()).await else {
            return Err(CallError::NotDelivered(format!(
                "all {} calls that may be in flight at once are, and none ended in time",
                inner.options.in_flight_max
            )));
        };
        let request = request(grain, method, &Json::Array(arguments));
        inner.deliver(&request, deadline).await
    }
}

impl Inner {
    /// Sends a call until it ran, failed in a way that a repetition could not mend, or ran out of time.
    async fn deliver(&self, request: &Attempt, deadline: Instant) -> Result<Json, CallError> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut pause = PAUSE_MIN;
        let mut sent = 0;
        loop {
            let Some(gateway) = self.gateway(first, sent) else {
                return Err(CallError::NotDelivered("there is no gateway".to_owned()));
            };
            let failure = match gateway.call(request, deadline, &self.options, &self.tracker).await {
                Ok(result) => return Ok(result),
                Err(failure) => failure,
            };
            sent += 1;
            let (error, asked) = match failure {
                Failure::Final(error) => return Err(error),
                Failure::NotRun { error, wait } => (error, wait),
            };
            // Another gateway may do at once what this one cannot.
            let whole_round =
                usize::try_from(sent).is_ok_and(|sent| sent.is_multiple_of(self.gateways.len()));
            let wait = if whole_round { asked.unwrap_or(pause) } else { Duration::ZERO };
            if sent >= ATTEMPTS_MAX || Instant::now() + wait >= deadline {
                return Err(error);
            }
            if whole_round {
                tokio::time::sleep(wait).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// The gateway for the next delivery: each call begins at another one. `None` only if there is no gateway.
    fn gateway(&self, first: usize, sent: u32) -> Option<&Gateway> {
        let index = first.wrapping_add(usize::try_from(sent).unwrap_or_default());
        self.gateways.get(index.checked_rem(self.gateways.len())?)
    }
}
