//! One gateway: its address, and the connections to it that are idle.
//!
//! A connection carries one call at a time, so that a call's fate is known by its connection's: what was never
//! written did not run, what was written and not answered may have.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::attempt::{Attempt, Failure, answer};
use crate::client::{ConnectError, Options};
use crate::json::Json;

/// How long an idle connection is used again. A gateway closes one after 3 s, and a request that meets that close has
/// an unknown outcome.
const IDLE_AGE_MAX: Duration = Duration::from_millis(1_500);

/// How long an answer is waited for beyond the deadline, at which the gateway answers itself.
const ANSWER_GRACE: Duration = Duration::from_millis(500);

/// A gateway.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Host and port.
    authority: String,
    /// The newest last.
    idle: Mutex<Vec<Idle>>,
}

type Sender = SendRequest<Full<Bytes>>;

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

impl Gateway {
    /// The gateway with this URL, `http://HOST:PORT`.
    pub(crate) fn new(url: &str) -> Result<Self, ConnectError> {
        let wrong = |reason: &str| {
            let url = url.chars().take(200).collect();
            ConnectError::Url { url, reason: reason.to_owned() }
        };
        let uri: hyper::Uri = url.parse().map_err(|_| wrong("it cannot be read"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("gateways speak plain http")),
            _ => return Err(wrong("it begins with http://")),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("it has a path"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it names no host"))?;
        let port = uri.port_u16().unwrap_or(80);
        Ok(Self { authority: format!("{host}:{port}"), idle: Mutex::default() })
    }

    /// Makes a first connection, and keeps it.
    pub(crate) async fn prepare(&self, options: &Options, tracker: &TaskTracker) -> Result<(), String> {
        let sender = self.open(options.connect_timeout, tracker).await?;
        self.keep(sender, options);
        Ok(())
    }

    /// Sends a call once.
    pub(crate) async fn call(
        &self,
        attempt: &Attempt,
        deadline: Instant,
        options: &Options,
        tracker: &TaskTracker,
    ) -> Result<Json, Failure> {
        let mut sender = match self.idle() {
            Some(sender) => sender,
            None => {
                let left = deadline.saturating_duration_since(Instant::now());
                let within = options.connect_timeout.min(left);
                self.open(within, tracker).await.map_err(Failure::not_delivered)?
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let request = attempt.request(&self.authority, left).map_err(Failure::Final)?;
        let exchange = self.exchange(&mut sender, request, options);
        match tokio::time::timeout_at(deadline + ANSWER_GRACE, exchange).await {
            Ok(result) => {
                let usable = !matches!(&result, Err(failure) if failure.is_of_connection());
                if usable {
                    self.keep(sender, options);
                }
                result
            }
            Err(_) => Err(Failure::timed_out()),
        }
    }

    async fn exchange(
        &self,
        sender: &mut Sender,
        request: Request<Full<Bytes>>,
        options: &Options,
    ) -> Result<Json, Failure> {
        match sender.try_send_request(request).await {
            Ok(response) => answer(response, options.result_bytes_max).await,
            Err(mut error) => {
                let gateway = &self.authority;
                // The request is given back only if none of it was written.
                let unsent = error.take_message().is_some();
                let reason = error.into_error();
                Err(if unsent {
                    Failure::not_delivered(format!("the connection to {gateway} had ended: {reason}"))
                } else {
                    Failure::unknown(format!("the connection to {gateway} broke: {reason}"))
                })
            }
        }
    }

    async fn open(&self, within: Duration, tracker: &TaskTracker) -> Result<Sender, String> {
        let gateway = &self.authority;
        let connect = async {
            let stream = TcpStream::connect(gateway).await.map_err(|error| error.to_string())?;
            let _ = stream.set_nodelay(true);
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())
        };
        let (sender, connection) = tokio::time::timeout(within, connect)
            .await
            .unwrap_or_else(|_| Err(format!("no connection within {within:?}")))
            .map_err(|reason| format!("cannot connect to the gateway {gateway}: {reason}"))?;
        tracker.spawn(async move {
            // Who uses the connection learns of its end by the call that it carries.
            let _ = connection.await;
        });
        Ok(sender)
    }

    /// The idle connection that was used last, if it can still be trusted.
    fn idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().ok()?;
        while let Some(Idle { sender, since }) = idle.pop() {
            if since.elapsed() <= IDLE_AGE_MAX && sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, sender: Sender, options: &Options) {
        let Ok(mut idle) = self.idle.lock() else { return };
        if idle.len() >= options.idle_max {
            idle.remove(0);
        }
        idle.push(Idle { sender, since: Instant::now() });
    }
}
