//! The task of one outgoing link: connects on demand, writes the queue, hands replies to their callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::error::NetError;
use crate::frame::{Frame, FrameKind, encode, encode_empty, encode_id, set_remaining};
use crate::handshake::{Hello, HelloAck};
use crate::link::{Link, Outgoing};
use crate::network::Shared;
use crate::secure;
use crate::transport::{Ended, FrameReader, FrameWriter};

/// How long the rest of the queue and the goodbye may take when this silo closes a connection.
pub(crate) const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection that lived shorter than this counts as a failed connect, so that a peer that accepts and drops at
/// once is not dialled in a tight loop.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// Serves the link until it is closed or idle for long.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<Link>, mut queue: mpsc::Receiver<Outgoing>) {
    let limits = &shared.config.limits;
    let mut retry_delay = limits.retry_delay_min;
    let reason = loop {
        let first = tokio::select! {
            () = link.closed.cancelled() => break "this silo closed the link",
            item = timeout(limits.link_idle_max, queue.recv()) => match item {
                Ok(Some(item)) => item,
                Ok(None) | Err(_) => break "the idle link was closed",
            },
        };
        link.taken(&first);
        let connected = tokio::select! {
            () = link.closed.cancelled() => Err("this silo closed the link".to_owned()),
            connected = connect(&shared, &link) => connected,
        };
        let (failure, failed_connect) = match connected {
            Ok((reader, writer)) => {
                link.mark_up();
                let start = Instant::now();
                let ended = drive(&shared, &link, reader, writer, first, &mut queue).await;
                log_end(&link, &ended);
                link.fail_written(&format!("the connection to {} was lost: {ended}", link.peer));
                shared.handler.disconnected(link.peer);
                if start.elapsed() >= SHORT_LIFE {
                    retry_delay = limits.retry_delay_min;
                    continue;
                }
                (format!("the connection to {} was lost at once: {ended}", link.peer), false)
            }
            Err(reason) => {
                give_back(&shared, &link, first, &reason);
                (reason, true)
            }
        };
        let new_reason = link.mark_down(Instant::now() + retry_delay, &failure);
        retry_delay = (retry_delay * 2).min(limits.retry_delay_max);
        if failed_connect {
            shared.stats.connects_failed.add(1);
            if new_reason && !link.closed.is_cancelled() {
                tracing::warn!(peer = %link.peer, lane = ?link.lane, "cannot reach a silo: {failure}");
            }
        }
        give_back_all(&shared, &link, &mut queue, &failure);
    };
    shared.forget_link(&link);
    link.fail_all(reason);
    queue.close();
    give_back_all(&shared, &link, &mut queue, reason);
}

fn log_end(link: &Link, ended: &Ended) {
    if ended.is_violation() {
        tracing::warn!(peer = %link.peer, lane = ?link.lane, "a silo broke the protocol, connection closed: {ended}");
    } else {
        tracing::debug!(peer = %link.peer, lane = ?link.lane, "connection ended: {ended}");
    }
}

/// What was taken from the queue and not written fails as not delivered.
fn give_back(shared: &Shared, link: &Link, item: Outgoing, reason: &str) {
    match item {
        Outgoing::OneWay(_) => shared.stats.one_ways_dropped.add(1),
        Outgoing::Request { id, .. } => link.reply(id, Err(NetError::NotDelivered(reason.to_owned()))),
        Outgoing::Cancel(_) => {}
    }
}

fn give_back_all(shared: &Shared, link: &Link, queue: &mut mpsc::Receiver<Outgoing>, reason: &str) {
    while let Ok(item) = queue.try_recv() {
        link.taken(&item);
        give_back(shared, link, item, reason);
    }
}

async fn connect(shared: &Shared, link: &Link) -> Result<(FrameReader, FrameWriter), String> {
    let limits = &shared.config.limits;
    let to = link.peer;
    let socket = timeout(limits.connect_timeout, TcpStream::connect(to.endpoint()))
        .await
        .map_err(|_| format!("connecting to {to} took longer than {:?}", limits.connect_timeout))?
        .map_err(|err| format!("connecting to {to} failed: {err}"))?;
    timeout(limits.handshake_timeout, greet(shared, link, socket))
        .await
        .map_err(|_| format!("the handshake with {to} took longer than {:?}", limits.handshake_timeout))?
        .map_err(|err| format!("the handshake with {to} failed: {err}"))
}

async fn greet(
    shared: &Shared,
    link: &Link,
    socket: TcpStream,
) -> Result<(FrameReader, FrameWriter), String> {
    let config = &shared.config;
    let opened = secure::connect(config.tls.as_deref(), socket, link.peer).await?;
    let mut reader = FrameReader::new(opened.read, Arc::clone(&shared.stats));
    let mut writer = FrameWriter::new(opened.write, config.limits.silence_max, Arc::clone(&shared.stats));
    let hello = Hello::new(&config.cluster, config.me, &config.name, link.peer, link.lane);
    let hello = encode(FrameKind::Hello, &hello).map_err(|_| "the hello is too long".to_owned())?;
    writer.write(&hello).await.map_err(|err| err.to_string())?;
    writer.flush().await.map_err(|err| err.to_string())?;
    let answer = reader
        .next(config.limits.handshake_timeout, &AtomicBool::new(false))
        .await
        .map_err(|err| err.to_string())?;
    if answer.kind != FrameKind::HelloAck {
        return Err(format!("it answered with a {:?} frame", answer.kind));
    }
    let ack: HelloAck = answer.decode_start().map_err(|err| err.to_string())?;
    ack.judge().map_err(|refusal| refusal.to_string())?;
    reader.handshake_done();
    Ok((reader, writer))
}

/// Serves one connection until it ends.
async fn drive(
    shared: &Shared,
    link: &Link,
    mut reader: FrameReader,
    mut writer: FrameWriter,
    first: Outgoing,
    queue: &mut mpsc::Receiver<Outgoing>,
) -> Ended {
    let heard = AtomicBool::new(true);
    let reading = async {
        loop {
            let frame = match reader.next(shared.config.limits.silence_max, &heard).await {
                Ok(frame) => frame,
                Err(ended) => return ended,
            };
            if let Err(ended) = receive(link, frame) {
                return ended;
            }
        }
    };
    tokio::select! {
        ended = reading => ended,
        Err(ended) = write_queue(shared, link, &mut writer, first, queue, &heard) => ended,
        () = closed_for(&link.closed, GOODBYE_TIMEOUT) => Ended::ClosedHere,
    }
}

/// Returns when the token has been cancelled for that long: what was queued had its chance.
pub(crate) async fn closed_for(closed: &CancellationToken, grace: Duration) {
    closed.cancelled().await;
    sleep(grace).await;
}

fn receive(link: &Link, mut frame: Frame) -> Result<(), Ended> {
    match frame.kind {
        FrameKind::Response => {
            let id = frame.take_id()?;
            let response = frame.decode()?;
            link.reply(id, Ok(response));
        }
        FrameKind::Lost => {
            let id = frame.take_id()?;
            let why: String = frame.decode()?;
            link.reply(id, Err(NetError::UnknownOutcome(format!("{} lost the answer: {why}", link.peer))));
        }
        FrameKind::Pong | FrameKind::Ping => {}
        FrameKind::Goodbye => return Err(Ended::Goodbye(frame.decode().unwrap_or_default())),
        kind => return Err(Ended::Unexpected(format!("{kind:?} frame"))),
    }
    Ok(())
}

async fn write_queue(
    shared: &Shared,
    link: &Link,
    writer: &mut FrameWriter,
    first: Outgoing,
    queue: &mut mpsc::Receiver<Outgoing>,
    heard: &AtomicBool,
) -> Result<(), Ended> {
    let ping_interval = shared.config.limits.ping_interval;
    let mut ping_at = Instant::now() + ping_interval;
    let mut wrote = true;
    write_item(shared, link, writer, first).await?;
    // One item at a time: what is not in hand stays in the queue, and so survives the end of this connection.
    loop {
        if Instant::now() >= ping_at {
            // Pings as long as either direction was idle, since each side closes on silence.
            if !heard.swap(false, Ordering::Relaxed) || !wrote {
                writer.write(&encode_empty(FrameKind::Ping)).await?;
            }
            wrote = false;
            ping_at = Instant::now() + ping_interval;
        }
        let item = match queue.try_recv() {
            Ok(item) => item,
            Err(_) => {
                if link.closed.is_cancelled() {
                    return Err(writer.say_goodbye("the silo closes the link").await);
                }
                if writer.gather(link.take_requests_peak()).await {
                    continue;
                }
                writer.flush().await?;
                tokio::select! {
                    item = queue.recv() => match item {
                        Some(item) => item,
                        None => return Err(Ended::ClosedHere),
                    },
                    () = sleep_until(ping_at.into()) => continue,
                    () = link.closed.cancelled() => continue,
                }
            }
        };
        link.taken(&item);
        wrote = true;
        write_item(shared, link, writer, item).await?;
    }
}

async fn write_item(
    shared: &Shared,
    link: &Link,
    writer: &mut FrameWriter,
    item: Outgoing,
) -> Result<(), Ended> {
    match item {
        Outgoing::OneWay(frame) => {
            let written = writer.write(&frame).await;
            if written.is_err() {
                shared.stats.one_ways_dropped.add(1);
            }
            written
        }
        Outgoing::Request { id, mut frame, deadline } => {
            if !link.mark_written(id) {
                return Ok(());
            }
            set_remaining(&mut frame, deadline.saturating_duration_since(Instant::now()));
            writer.write(&frame).await
        }
        Outgoing::Cancel(id) => writer.write(&encode_id(FrameKind::Cancel, id)).await,
    }
}
