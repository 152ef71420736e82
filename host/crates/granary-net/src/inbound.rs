//! One connection that another silo opened: its handshake, its messages, and the answers to its requests.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use granary_core::id::SiloAddress;
use granary_core::wire::{Request, Response};
use granary_tls::names_address;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::dialer::{GOODBYE_TIMEOUT, closed_for};
use crate::frame::{Encoded, Frame, FrameKind, TooLong, encode, encode_empty, encode_with_id};
use crate::handshake::{Hello, HelloAck, Refusal};
use crate::listener::{BadConnection, BadConnectionLog};
use crate::network::Shared;
use crate::secure;
use crate::transport::{Ended, FrameReader, FrameWriter, Peak};

/// Answers that wait for the socket beyond those of running requests: pongs and refusals. When they fill up, the
/// reader waits.
const OUTBOX_SPARE: usize = 64;

/// An answer and the share of the connection's byte budget that it holds until it is written.
struct Answer {
    frame: Encoded,
    _budget: Option<OwnedSemaphorePermit>,
}

/// What the tasks of one connection share.
struct Connection {
    shared: Arc<Shared>,
    from: SiloAddress,
    closed: CancellationToken,
    outbox: mpsc::Sender<Answer>,
    /// One permit for each request that may run.
    running: Arc<Semaphore>,
    /// One permit for each byte of waiting answers.
    answer_bytes: Arc<Semaphore>,
    /// Requests whose answers are still wanted.
    wanted: Mutex<Wanted>,
}

#[derive(Debug, Default)]
struct Wanted {
    ids: HashSet<u64>,
    /// The most entries of `ids` since somebody asked.
    peak: Peak,
}

/// Serves a new connection until it ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    socket: TcpStream,
    remote: SocketAddr,
    log: &BadConnectionLog,
    handshake: OwnedSemaphorePermit,
) {
    let handshake_timeout = shared.config.limits.handshake_timeout;
    let greeted = tokio::select! {
        () = shared.cancel.cancelled() => return,
        greeted = timeout(handshake_timeout, greet(&shared, socket)) => greeted,
    };
    drop(handshake);
    let bad = match greeted {
        Err(_) => (BadConnection::Idle, format!("no hello within {handshake_timeout:?}")),
        Ok(Err(bad)) => bad,
        Ok(Ok((hello, reader, writer))) => {
            let Some((id, closed)) = shared.add_inbound(hello.from) else { return };
            shared.stats.connections_accepted.add(1);
            tracing::debug!(from = %hello.from, name = ?hello.name, lane = ?hello.lane, "a silo connected");
            let ended = converse(&shared, hello.from, closed, reader, writer).await;
            shared.remove_inbound(id);
            if ended.is_violation() {
                tracing::warn!(from = %hello.from, "a silo broke the protocol, connection closed: {ended}");
            } else {
                tracing::debug!(from = %hello.from, lane = ?hello.lane, "connection ended: {ended}");
            }
            shared.handler.disconnected(hello.from);
            return;
        }
    };
    shared.stats.connections_refused.add(1);
    log.warn(bad.0, remote, &bad.1);
}

/// Reads the hello and answers it.
async fn greet(
    shared: &Shared,
    socket: TcpStream,
) -> Result<(Hello, FrameReader, FrameWriter), (BadConnection, String)> {
    let garbage = |why: String| (BadConnection::Garbage, why);
    let limits = &shared.config.limits;
    let opened = secure::accept(shared.config.tls.as_deref(), socket).await.map_err(garbage)?;
    let mut reader = FrameReader::new(opened.read, Arc::clone(&shared.stats));
    let frame = match reader.next(limits.handshake_timeout, &AtomicBool::new(false)).await {
        Ok(frame) => frame,
        Err(Ended::Silent(_)) => {
            return Err((BadConnection::Idle, format!("no hello within {:?}", limits.handshake_timeout)));
        }
        Err(Ended::Closed) => return Err((BadConnection::Idle, "closed before a hello".to_owned())),
        Err(ended @ Ended::SpeaksTls) => return Err(garbage(ended.to_string())),
        Err(ended) => return Err(garbage(format!("not Granary's silo protocol: {ended}"))),
    };
    if frame.kind != FrameKind::Hello {
        return Err(garbage(format!("it began with a {:?} frame instead of a hello", frame.kind)));
    }
    let hello: Hello = frame.decode_start().map_err(|err| garbage(err.to_string()))?;
    let outcome = hello.judge(&shared.config.cluster, shared.config.me, shared.is_dead(hello.from));
    let outcome = outcome.and_then(|protocol| match opened.certificate {
        Some(certificate) if !names_address(&certificate, hello.from.ip) => {
            Err(Refusal::WrongCertificate(hello.from))
        }
        _ => Ok(protocol),
    });
    let refusal = outcome.clone().err();
    if refusal == Some(Refusal::UnknownMagic) {
        return Err(garbage(Refusal::UnknownMagic.to_string()));
    }
    // Only now: a connection that has said nothing is not worth a write buffer.
    let mut writer = FrameWriter::new(opened.write, limits.silence_max, Arc::clone(&shared.stats));
    let failed = |ended: Ended| (BadConnection::Refused, format!("the hello's answer failed: {ended}"));
    let ack = encode(FrameKind::HelloAck, &HelloAck::new(outcome)).unwrap_or_default();
    writer.write(&ack).await.map_err(failed)?;
    writer.flush().await.map_err(failed)?;
    if let Some(refusal) = refusal {
        return Err((
            BadConnection::Refused,
            format!("silo {} {:?} is refused: {refusal}", hello.from, hello.name),
        ));
    }
    reader.handshake_done();
    Ok((hello, reader, writer))
}

/// Serves a greeted connection until it ends.
async fn converse(
    shared: &Arc<Shared>,
    from: SiloAddress,
    closed: CancellationToken,
    mut reader: FrameReader,
    mut writer: FrameWriter,
) -> Ended {
    let limits = &shared.config.limits;
    let (outbox, answers) = mpsc::channel(limits.requests_per_connection_max + OUTBOX_SPARE);
    let connection = Arc::new(Connection {
        shared: Arc::clone(shared),
        from,
        closed: closed.clone(),
        outbox,
        running: Arc::new(Semaphore::new(limits.requests_per_connection_max)),
        answer_bytes: Arc::new(Semaphore::new(limits.answer_bytes_max)),
        wanted: Mutex::default(),
    });
    let heard = AtomicBool::new(true);
    let reading = async {
        loop {
            let frame = match reader.next(limits.silence_max, &heard).await {
                Ok(frame) => frame,
                Err(ended) => return ended,
            };
            if let Err(ended) = connection.receive(frame).await {
                return ended;
            }
        }
    };
    let mut answers = answers;
    let ended = tokio::select! {
        ended = reading => ended,
        Err(ended) = write_answers(&connection, &mut writer, &mut answers) => ended,
        () = closed_for(&closed, GOODBYE_TIMEOUT) => Ended::ClosedHere,
    };
    // Handlers that still run see this and drop their answers instead of waiting for the budget.
    closed.cancel();
    if ended.is_violation() {
        let _ = timeout(GOODBYE_TIMEOUT, writer.say_goodbye(&ended.to_string())).await;
    }
    ended
}

async fn write_answers(
    connection: &Connection,
    writer: &mut FrameWriter,
    answers: &mut mpsc::Receiver<Answer>,
) -> Result<(), Ended> {
    let closed = &connection.closed;
    loop {
        let answer = match answers.try_recv() {
            Ok(answer) => answer,
            Err(_) => {
                if closed.is_cancelled() {
                    return Err(writer.say_goodbye("the silo closes the connection").await);
                }
                if writer.gather(connection.take_requests_peak()).await {
                    continue;
                }
                writer.flush().await?;
                tokio::select! {
                    answer = answers.recv() => match answer {
                        Some(answer) => answer,
                        None => return Err(Ended::ClosedHere),
                    },
                    () = closed.cancelled() => continue,
                }
            }
        };
        writer.write(&answer.frame).await?;
    }
}

impl Connection {
    async fn receive(self: &Arc<Self>, mut frame: Frame) -> Result<(), Ended> {
        match frame.kind {
            FrameKind::OneWay => self.shared.handler.one_way(self.from, frame.decode()?),
            FrameKind::Request => {
                let id = frame.take_id()?;
                let remaining = Duration::from_millis(frame.take_remaining_ms()?.into());
                self.start(id, frame.decode()?, remaining).await?;
            }
            FrameKind::Cancel => {
                let id = frame.take_id()?;
                self.withdraw(id);
            }
            FrameKind::Ping => self.answer_now(encode_empty(FrameKind::Pong)).await?,
            FrameKind::Pong => {}
            FrameKind::Goodbye => return Err(Ended::Goodbye(frame.decode().unwrap_or_default())),
            kind => return Err(Ended::Unexpected(format!("{kind:?} frame"))),
        }
        Ok(())
    }

    /// Runs the handler on a task of its own, so that neither this connection's end nor a slow request stops
    /// another.
    async fn start(self: &Arc<Self>, id: u64, request: Request, remaining: Duration) -> Result<(), Ended> {
        let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() else {
            self.shared.stats.requests_overloaded.add(1);
            let max = self.shared.config.limits.requests_per_connection_max;
            let refusal =
                Response::Refused(format!("overloaded: {max} requests of this connection run already"));
            return self
                .answer_now(encode_with_id(FrameKind::Response, id, &refusal).unwrap_or_default())
                .await;
        };
        {
            let mut wanted = self.wanted();
            if !wanted.ids.insert(id) {
                return Err(Ended::Unexpected(format!("second request with id {id}")));
            }
            let running = wanted.ids.len();
            wanted.peak.note(running);
        }
        let promise = Promise { connection: Arc::clone(self), id, kept: false };
        self.shared.spawn(async move {
            promise.keep(request, remaining).await;
            drop(permit);
        });
        Ok(())
    }

    /// Encodes an answer and queues it when the budget allows, unless nobody wants it any more.
    async fn answer(&self, id: u64, response: &Response) {
        if !self.withdraw(id) {
            return;
        }
        let frame = encode_with_id(FrameKind::Response, id, response).unwrap_or_else(|TooLong(bytes)| {
            lost(id, &format!("it has {bytes} bytes, more than a frame may have"))
        });
        let share = frame.len().min(self.shared.config.limits.answer_bytes_max);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        let queued = async {
            let budget = Arc::clone(&self.answer_bytes).acquire_many_owned(share).await.ok();
            let _ = self.outbox.send(Answer { frame, _budget: budget }).await;
        };
        tokio::select! {
            () = queued => {}
            () = self.closed.cancelled() => {}
        }
    }

    /// Queues a small frame outside the budget; the reader waits while the outbox is full.
    async fn answer_now(&self, frame: Encoded) -> Result<(), Ended> {
        self.outbox.send(Answer { frame, _budget: None }).await.map_err(|_| Ended::ClosedHere)
    }

    /// The most requests that ran at once since this was last asked.
    fn take_requests_peak(&self) -> usize {
        let mut wanted = self.wanted();
        let now = wanted.ids.len();
        wanted.peak.take(now)
    }

    /// Takes the request off the list; whether it was still on it.
    fn withdraw(&self, id: u64) -> bool {
        self.wanted().ids.remove(&id)
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost(id: u64, why: &str) -> Encoded {
    encode_with_id(FrameKind::Lost, id, &why).unwrap_or_default()
}

/// A request that runs. When its handler panics, the caller is told that there will be no answer.
struct Promise {
    connection: Arc<Connection>,
    id: u64,
    kept: bool,
}

impl Promise {
    async fn keep(mut self, request: Request, remaining: Duration) {
        let connection = Arc::clone(&self.connection);
        let response = connection.shared.handler.request(connection.from, request, remaining).await;
        self.kept = true;
        connection.answer(self.id, &response).await;
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.kept && self.connection.withdraw(self.id) {
            let frame = lost(self.id, "the handler ended without an answer");
            let _ = self.connection.outbox.try_send(Answer { frame, _budget: None });
        }
    }
}
