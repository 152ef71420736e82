//! The listener and its connections: limits, timeouts, drain; and the step from a request to a response.
//!
//! A connection that does not send a whole request head within [`EdgeLimits::header_timeout`] is closed,
//! whether it is idle, half-open or hostile. Closing connections is logged at most once in ten seconds.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use granary_tls::EdgeTls;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::AdminToken;
use crate::problem::Problem;
use crate::{Backend, admin, gateway, routes, secure};

/// Which edge a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// Calls of grains only.
    Gateway,
    /// Calls, the admin API, health and metrics.
    Admin,
}

/// Bounds of one edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeLimits {
    /// Open connections; further ones are closed at once.
    pub connections_max: usize,
    /// From the first wait for a request until its head is complete.
    pub header_timeout: Duration,
    /// Between two pieces of a body.
    pub body_timeout: Duration,
    /// For a whole body.
    pub body_total_timeout: Duration,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// How long open requests may go on after the drain began.
    pub drain_timeout: Duration,
}

impl EdgeLimits {
    /// The defaults of an edge: 1 MiB bodies at the gateway, 50 MiB (a component) at the admin API.
    #[must_use]
    pub fn of(kind: EdgeKind) -> Self {
        Self {
            connections_max: 4_096,
            header_timeout: Duration::from_secs(3),
            body_timeout: Duration::from_secs(4),
            body_total_timeout: Duration::from_secs(60),
            body_bytes_max: match kind {
                EdgeKind::Gateway => 1 << 20,
                EdgeKind::Admin => 50 << 20,
            },
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// How an edge is protected. The default is not at all, which is for loopback.
#[derive(Debug, Clone, Default)]
pub struct EdgeAccess {
    /// What every request to the admin edge must bring, health and version excepted. The gateway ignores it.
    pub token: Option<AdminToken>,
    /// HTTPS instead of HTTP.
    pub tls: Option<Arc<EdgeTls>>,
}

/// What an edge counts.
#[derive(Debug, Default)]
pub struct EdgeStats {
    pub requests: AtomicU64,
    pub failures: AtomicU64,
    pub connections: AtomicU64,
    /// Requests without the right token.
    pub unauthorized: AtomicU64,
    /// Closed because of a limit or a timeout, or not HTTP.
    pub connections_refused: AtomicU64,
}

/// One running edge.
#[derive(Debug)]
pub struct EdgeServer {
    shared: Arc<Shared>,
    /// Cancelled when the last open request has ended after the drain began.
    drained: CancellationToken,
}

struct Shared {
    kind: EdgeKind,
    limits: EdgeLimits,
    access: EdgeAccess,
    backend: Arc<dyn Backend>,
    stats: EdgeStats,
    quiet: QuietLog,
    /// Apart, so that neither a flood of bad connections nor one of bad tokens hides the other.
    quiet_tokens: QuietLog,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("kind", &self.kind)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl EdgeServer {
    /// Serves `listener` in a task of `tracker` until `cancel`; then open requests may finish within the drain
    /// timeout, and new connections are refused.
    #[must_use]
    pub fn start(
        kind: EdgeKind,
        limits: EdgeLimits,
        access: EdgeAccess,
        listener: TcpListener,
        backend: Arc<dyn Backend>,
        tracker: &TaskTracker,
        cancel: CancellationToken,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(limits.connections_max));
        let shared = Arc::new(Shared {
            kind,
            limits,
            access,
            backend,
            stats: EdgeStats::default(),
            quiet: QuietLog::new(kind),
            quiet_tokens: QuietLog::new(kind),
            permits,
        });
        let drained = CancellationToken::new();
        let (accepting, when_drained) = (Arc::clone(&shared), drained.clone().drop_guard());
        let connections = tracker.clone();
        tracker.spawn(async move {
            let _when_drained = when_drained;
            accept_loop(accepting, listener, connections, cancel).await;
        });
        Self { shared, drained }
    }

    /// Waits until the server was told to end and its open requests have ended, or were dropped at the drain
    /// timeout.
    pub async fn drained(&self) {
        self.drained.cancelled().await;
    }

    #[must_use]
    pub fn stats(&self) -> &EdgeStats {
        &self.shared.stats
    }
}

async fn accept_loop(
    shared: Arc<Shared>,
    listener: TcpListener,
    tracker: TaskTracker,
    cancel: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => accept(&shared, stream, peer, &tracker, &graceful),
            Err(error) => {
                // Out of descriptors, mostly: give open connections time to end instead of spinning.
                shared.quiet.note(&format!("cannot accept a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(shared.limits.drain_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!(edge = ?shared.kind, "requests still open at the end of the drain were dropped");
    }
}

fn accept(
    shared: &Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    tracker: &TaskTracker,
    graceful: &GracefulShutdown,
) {
    let Ok(permit) = Arc::clone(&shared.permits).try_acquire_owned() else {
        shared.stats.connections_refused.fetch_add(1, Ordering::Relaxed);
        shared.quiet.note(&format!(
            "refused a connection of {peer}: all {} are in use",
            shared.limits.connections_max
        ));
        return;
    };
    shared.stats.connections.fetch_add(1, Ordering::Relaxed);
    let _ = stream.set_nodelay(true);
    let (shared, watcher) = (Arc::clone(shared), graceful.watcher());
    tracker.spawn(async move {
        let _permit = permit;
        let served = match &shared.access.tls {
            None => serve(&shared, stream, watcher).await,
            Some(tls) => match secure::accept(tls, stream, shared.limits.header_timeout).await {
                Ok(stream) => serve(&shared, stream, watcher).await,
                Err(why) => Err(why),
            },
        };
        if let Err(why) = served {
            shared.stats.connections_refused.fetch_add(1, Ordering::Relaxed);
            shared.quiet.note(&format!("closed a connection of {peer}: {why}"));
        }
    });
}

/// Serves the requests of one connection until it ends.
async fn serve<S>(shared: &Arc<Shared>, stream: S, watcher: Watcher) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = {
        let shared = Arc::clone(shared);
        service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(respond(&shared, request).await) }
        })
    };
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.limits.header_timeout)
        .max_buf_size(32 << 10)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service);
    watcher.watch(connection).await.map_err(|error| error.to_string())
}

type Reply = Response<Full<Bytes>>;

async fn respond(shared: &Shared, request: Request<Incoming>) -> Reply {
    shared.stats.requests.fetch_add(1, Ordering::Relaxed);
    match route(shared, request).await {
        Ok(reply) => reply,
        Err(problem) => {
            shared.stats.failures.fetch_add(1, Ordering::Relaxed);
            problem_reply(&problem)
        }
    }
}

async fn route(shared: &Shared, request: Request<Incoming>) -> Result<Reply, Problem> {
    let (parts, body) = request.into_parts();
    // A page in a browser on this host could otherwise reach the admin API, which trusts loopback.
    if parts.headers.contains_key(ORIGIN) && parts.method != Method::GET {
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "requests of web pages are not served"));
    }
    let segments = routes::segments(parts.uri.path())?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if let Some(reply) = probes(shared, &parts.method, &segments, parts.uri.query()) {
        return Ok(reply);
    }
    authorize(shared, &parts)?;
    if (&parts.method, segments.as_slice()) == (&Method::GET, &["v1", "openapi.json"]) {
        return Ok(reply(StatusCode::OK, "application/json", shared.backend.openapi().to_string()));
    }
    if let ["v1", "grains", grain_type, key, method] = segments.as_slice() {
        if parts.method != Method::POST {
            return Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "grains are called with POST",
            ));
        }
        let body = read_body(shared, body).await?;
        let result = gateway::call(&*shared.backend, (grain_type, key, method), &parts.headers, body).await?;
        return Ok(reply(StatusCode::OK, result.content_type, result.body));
    }
    if shared.kind == EdgeKind::Admin {
        if (&parts.method, segments.as_slice()) == (&Method::GET, &["metrics"]) {
            return Ok(metrics(shared));
        }
        let query = routes::query(parts.uri.query())?;
        let body = if parts.method == Method::POST { read_body(shared, body).await? } else { Bytes::new() };
        if let Some(request) = admin::request(&parts.method, &segments, &query, &parts.headers, body) {
            let value = shared.backend.admin(request?).await?;
            return Ok(reply(StatusCode::OK, "application/json", value.to_string()));
        }
    }
    Err(Problem::not_found(format!(
        "no route {} /{}; grains are called with POST /v1/grains/TYPE/KEY/METHOD",
        parts.method,
        segments.join("/").escape_debug()
    )))
}

/// Requests to the admin edge must bring its token, if it has one.
fn authorize(shared: &Shared, parts: &hyper::http::request::Parts) -> Result<(), Problem> {
    let (EdgeKind::Admin, Some(token)) = (shared.kind, &shared.access.token) else { return Ok(()) };
    token.check(&parts.headers).inspect_err(|_| {
        let count = shared.stats.unauthorized.fetch_add(1, Ordering::Relaxed) + 1;
        shared.quiet_tokens.note(&format!("refused requests without the right token: {count} so far"));
    })
}

/// Health, readiness and version, which need no token.
fn probes(shared: &Shared, method: &Method, segments: &[&str], query: Option<&str>) -> Option<Reply> {
    if *method != Method::GET {
        return None;
    }
    match segments {
        ["healthz"] => Some(reply(StatusCode::OK, "text/plain", "ok\n".to_owned())),
        ["readyz"] => Some(match shared.backend.ready() {
            Ok(()) => reply(StatusCode::OK, "application/json", r#"{"ready":true}"#.to_owned()),
            Err(reasons) => {
                let verbose = query.is_some_and(|query| query.split('&').any(|part| part == "verbose"));
                let body = if verbose {
                    serde_json::json!({ "ready": false, "reasons": reasons })
                } else {
                    serde_json::json!({ "ready": false })
                };
                reply(StatusCode::SERVICE_UNAVAILABLE, "application/json", body.to_string())
            }
        }),
        ["version"] => Some(reply(StatusCode::OK, "application/json", shared.backend.version().to_string())),
        _ => None,
    }
}

fn metrics(shared: &Shared) -> Reply {
    reply(
        StatusCode::OK,
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        shared.backend.metrics(),
    )
}

async fn read_body(shared: &Shared, body: Incoming) -> Result<Bytes, Problem> {
    let late =
        || Problem::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", "the body did not arrive in time");
    let read = read_pieces(shared, body, late);
    tokio::time::timeout(shared.limits.body_total_timeout, read).await.map_err(|_| late())?
}

async fn read_pieces(
    shared: &Shared,
    mut body: Incoming,
    late: impl Fn() -> Problem,
) -> Result<Bytes, Problem> {
    let max = shared.limits.body_bytes_max;
    let too_large = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            format!("the body is larger than {max} bytes"),
        )
    };
    if body.size_hint().lower() > max as u64 {
        return Err(too_large());
    }
    let mut bytes = BytesMut::new();
    loop {
        let frame =
            tokio::time::timeout(shared.limits.body_timeout, body.frame()).await.map_err(|_| late())?;
        let Some(frame) = frame else { return Ok(bytes.freeze()) };
        let frame =
            frame.map_err(|error| Problem::bad_request(format!("the body cannot be read: {error}")))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > max {
                return Err(too_large());
            }
            bytes.extend_from_slice(data);
        }
    }
}

fn reply(status: StatusCode, content_type: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

fn problem_reply(problem: &Problem) -> Reply {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_string(problem).unwrap_or_else(|_| "{}".to_owned());
    let mut reply = reply(status, "application/problem+json", body);
    if let Some(ms) = problem.retry_after_ms {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000).max(1)));
    }
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer realm=\"granary admin\"");
        reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    reply
}

/// One line in ten seconds for things that a stranger can cause at will; the rest is counted.
struct QuietLog {
    kind: EdgeKind,
    last: Mutex<Option<(Instant, u64)>>,
}

impl QuietLog {
    const WINDOW: Duration = Duration::from_secs(10);

    fn new(kind: EdgeKind) -> Self {
        Self { kind, last: Mutex::new(None) }
    }

    fn note(&self, text: &str) {
        let Ok(mut last) = self.last.lock() else { return };
        let now = Instant::now();
        match &mut *last {
            Some((since, suppressed)) if now.duration_since(*since) < Self::WINDOW => *suppressed += 1,
            earlier => {
                let suppressed = earlier.map_or(0, |(_, suppressed)| suppressed);
                *earlier = Some((now, 0));
                tracing::warn!(edge = ?self.kind, suppressed, "{text}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
