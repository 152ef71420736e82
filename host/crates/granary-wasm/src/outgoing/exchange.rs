//! One request and its answer: the task that talks, and the inbox in which the grain finds what came.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::body::{BodyBuffer, BodyReader};
use super::connect::connect;
use super::error::{ErrorCode, HttpError};
use super::tls::secure;
use super::{Outgoing, READ_AHEAD_BYTES, RESPONSE_BODY_BYTES_MAX, RESPONSE_FIELDS_MAX};
use crate::grants::Target;

/// A request that may go out.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) target: Target,
    /// The scheme is `https`.
    pub(crate) tls: bool,
    /// Names may stand for private addresses.
    pub(crate) private: bool,
    /// With the `host` field and a target in origin form.
    pub(crate) head: Request<()>,
    pub(crate) body: Arc<BodyBuffer>,
    pub(crate) timeouts: Timeouts,
    /// When it ends at the latest.
    pub(crate) deadline: Instant,
}

/// What the grain asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timeouts {
    pub(crate) connect: Option<Duration>,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) between_bytes: Option<Duration>,
}

/// What the task has got so far.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    /// Something came.
    changed: Notify,
    /// Something was taken.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    head: Head,
    chunks: VecDeque<Bytes>,
    held: usize,
    end: Option<Result<Option<Arc<HeaderMap>>, HttpError>>,
}

#[derive(Debug, Default)]
enum Head {
    #[default]
    Pending,
    Here(Result<(u16, Arc<HeaderMap>), HttpError>),
    Taken,
}

/// What a read of a response's body gives.
#[derive(Debug)]
pub(crate) enum Read {
    Bytes(Vec<u8>),
    /// Nothing yet.
    Nothing,
    End,
    Failed(HttpError),
}

/// The grain's side. With the last handle to it the request ends.
#[derive(Debug)]
pub(crate) struct Exchange {
    inbox: Arc<Inbox>,
    task: AbortHandle,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Something of an exchange that can be waited for.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    inbox: Arc<Inbox>,
    what: Awaited,
}

#[derive(Debug, Clone, Copy)]
enum Awaited {
    Head,
    Body,
    End,
}

impl Wait {
    pub(crate) fn is_ready(&self) -> bool {
        let state = self.inbox.lock();
        match self.what {
            Awaited::Head => !matches!(state.head, Head::Pending),
            Awaited::Body => !state.chunks.is_empty() || state.end.is_some(),
            Awaited::End => state.end.is_some(),
        }
    }

    /// Tells of every change.
    pub(crate) fn changed(&self) -> &Notify {
        &self.inbox.changed
    }
}

impl Exchange {
    pub(super) fn start<F: Future<Output = ()> + Send + 'static>(
        tasks: &mut JoinSet<()>,
        run: impl FnOnce(Arc<Inbox>) -> F,
    ) -> Arc<Self> {
        let inbox = Arc::new(Inbox::default());
        let task = tasks.spawn(run(Arc::clone(&inbox)));
        Arc::new(Self { inbox, task })
    }

    pub(crate) fn wait_head(&self) -> Wait {
        Wait { inbox: Arc::clone(&self.inbox), what: Awaited::Head }
    }

    pub(crate) fn wait_body(&self) -> Wait {
        Wait { inbox: Arc::clone(&self.inbox), what: Awaited::Body }
    }

    pub(crate) fn wait_end(&self) -> Wait {
        Wait { inbox: Arc::clone(&self.inbox), what: Awaited::End }
    }

    /// Status and fields, once: `None` while there are none, `Some(None)` when they were taken.
    #[expect(clippy::type_complexity, reason = "the shape of WASI's own result")]
    pub(crate) fn take_head(&self) -> Option<Option<Result<(u16, Arc<HeaderMap>), HttpError>>> {
        let mut state = self.inbox.lock();
        match std::mem::replace(&mut state.head, Head::Taken) {
            Head::Pending => {
                state.head = Head::Pending;
                None
            }
            Head::Here(head) => Some(Some(head)),
            Head::Taken => Some(None),
        }
    }

    /// The next bytes of the body, at most `length`.
    pub(crate) fn read(&self, length: usize) -> Read {
        let mut state = self.inbox.lock();
        let Some(mut chunk) = state.chunks.pop_front() else {
            return match &state.end {
                None => Read::Nothing,
                Some(Ok(_)) => Read::End,
                Some(Err(error)) => Read::Failed(error.clone()),
            };
        };
        let taken = chunk.split_to(length.min(chunk.len()));
        if !chunk.is_empty() {
            state.chunks.push_front(chunk);
        }
        state.held = state.held.saturating_sub(taken.len());
        drop(state);
        self.inbox.room.notify_one();
        Read::Bytes(taken.into())
    }

    /// How the body ended, if it has, with its trailers.
    pub(crate) fn end(&self) -> Option<Result<Option<Arc<HeaderMap>>, HttpError>> {
        self.inbox.lock().end.clone()
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_head(&self, head: (u16, HeaderMap)) {
        self.lock().head = Head::Here(Ok((head.0, Arc::new(head.1))));
        self.changed.notify_waiters();
    }

    /// Waits until what was read ahead has become less, then adds.
    async fn put_body(&self, bytes: Bytes) {
        loop {
            let room = self.room.notified();
            if self.lock().held < READ_AHEAD_BYTES {
                break;
            }
            room.await;
        }
        let mut state = self.lock();
        state.held += bytes.len();
        state.chunks.push_back(bytes);
        drop(state);
        self.changed.notify_waiters();
    }

    /// The first end counts; an error before the head is the head's.
    fn put_end(&self, end: Result<Option<HeaderMap>, HttpError>) {
        let mut state = self.lock();
        if let (Head::Pending, Err(error)) = (&state.head, &end) {
            state.head = Head::Here(Err(error.clone()));
        }
        if state.end.is_none() {
            state.end = Some(end.map(|trailers| trailers.map(Arc::new)));
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

/// Says that the exchange ended, should its task end in a way that says nothing.
struct EndGuard<'a>(&'a Inbox);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.put_end(Err(HttpError::new(ErrorCode::ConnectionTerminated, "the request was ended")));
    }
}

/// The task: sends the request, and puts what comes into the inbox.
pub(super) async fn run(outgoing: &Outgoing, prepared: Prepared, inbox: &Inbox) {
    let guard = EndGuard(inbox);
    let deadline = prepared.deadline;
    let outcome = match tokio::time::timeout_at(deadline.into(), talk(outgoing, prepared, inbox)).await {
        Ok(outcome) => outcome,
        Err(_) if matches!(inbox.lock().head, Head::Pending) => {
            Err(HttpError::new(ErrorCode::HttpResponseTimeout, "no answer came before the deadline"))
        }
        Err(_) => Err(HttpError::new(
            ErrorCode::ConnectionReadTimeout,
            "the answer did not end before the deadline",
        )),
    };
    if let Err(error) = &outcome {
        outgoing.counters.error(&error.code);
    }
    inbox.put_end(outcome);
    drop(guard);
}

async fn talk(
    outgoing: &Outgoing,
    prepared: Prepared,
    inbox: &Inbox,
) -> Result<Option<HeaderMap>, HttpError> {
    let Prepared { target, tls, private, head, body, timeouts, .. } = prepared;
    let connect_time = timeouts.connect.unwrap_or(super::CONNECT_TIME_MAX).min(super::CONNECT_TIME_MAX);
    let connected = tokio::time::timeout(connect_time, open(outgoing, &target, tls, private)).await;
    let io = connected.map_err(|_| {
        HttpError::new(
            ErrorCode::ConnectionTimeout,
            format!("no connection to {target} within {connect_time:?}"),
        )
    })??;
    let mut builder = http1::Builder::new();
    builder.max_headers(RESPONSE_FIELDS_MAX).max_buf_size(READ_AHEAD_BYTES);
    let (mut sender, connection) =
        builder.handshake(io).await.map_err(|error| HttpError::of_hyper(&error))?;
    // The connection's own end says nothing that the request's does not.
    let driver = async {
        let _ = connection.await;
        std::future::pending::<Infallible>().await
    };
    let conversation = async {
        let answer = sender.send_request(head.map(|()| BodyReader(body)));
        let late =
            || HttpError::new(ErrorCode::HttpResponseTimeout, format!("{target} did not answer in time"));
        let response = within(timeouts.first_byte, answer).await.ok_or_else(late)?;
        receive(response.map_err(|error| HttpError::of_hyper(&error))?, timeouts.between_bytes, inbox).await
    };
    tokio::select! {
        outcome = conversation => outcome,
        never = driver => match never {},
    }
}

/// Both kinds of connection.
type Io = TokioIo<Either<TcpStream, TlsStream<TcpStream>>>;

/// A connection to the target, with TLS if the scheme wants that.
async fn open(outgoing: &Outgoing, target: &Target, tls: bool, private: bool) -> Result<Io, HttpError> {
    let stream = connect(outgoing, target, private).await?;
    Ok(TokioIo::new(match &outgoing.tls {
        Some(config) if tls => Either::Right(secure(Arc::clone(config), target, stream).await?),
        _ if tls => return Err(no_tls()),
        _ => Either::Left(stream),
    }))
}

/// The silo was not told whom to trust.
pub(crate) fn no_tls() -> HttpError {
    let text = "https is not offered by this silo: it was started without --outgoing-ca-file";
    HttpError::new(ErrorCode::InternalError(Some(text.to_owned())), text)
}

/// Reads the answer into the inbox; its trailers.
async fn receive(
    response: Response<Incoming>,
    between_bytes: Option<Duration>,
    inbox: &Inbox,
) -> Result<Option<HeaderMap>, HttpError> {
    let (head, body) = response.into_parts();
    inbox.put_head((head.status.as_u16(), head.headers));
    let mut body = pin!(body);
    let mut bytes: u64 = 0;
    let mut trailers = None;
    loop {
        let late = || HttpError::new(ErrorCode::ConnectionReadTimeout, "the answer paused for too long");
        let Some(frame) = within(between_bytes, body.frame()).await.ok_or_else(late)? else {
            return Ok(trailers);
        };
        let frame = frame.map_err(|error| HttpError::of_hyper(&error))?;
        match frame.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => {
                bytes = bytes.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
                if bytes > RESPONSE_BODY_BYTES_MAX {
                    return Err(HttpError::new(
                        ErrorCode::HttpResponseBodySize(Some(RESPONSE_BODY_BYTES_MAX)),
                        format!("the answer has more than {RESPONSE_BODY_BYTES_MAX} bytes"),
                    ));
                }
                inbox.put_body(data).await;
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
}

/// `None` when the time is up.
async fn within<T>(time: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match time {
        Some(time) => tokio::time::timeout(time, future).await.ok(),
        None => Some(future.await),
    }
}
