//! What silos are compared with, each in a process of its own: bare HTTP handlers and bare echoes.
//!
//! A peer prints its address and serves until its standard input ends, which is when its parent is gone.

use std::convert::Infallible;

use anyhow::{Context as _, Result, bail};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::frames::{self, FRAMES_QUEUED_MAX};

/// A number for the actor, with the way back.
type Message = (u64, oneshot::Sender<u64>);

/// What a peer does with a connection.
#[derive(Debug, Clone)]
enum Kind {
    /// Answers the number in a JSON array.
    Hyper,
    /// The same, through a task with a mailbox.
    Actor(mpsc::Sender<Message>),
    /// Gives bytes back as they come.
    Echo,
    /// Gives frames back; replies that are ready together are written together.
    Frames,
}

/// Serves; returns when the parent is gone.
#[expect(clippy::print_stdout, reason = "the parent reads the address there")]
pub(crate) fn serve(kind: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let tracker = TaskTracker::new();
    let _context = runtime.enter();
    let kind = match kind {
        "hyper" => Kind::Hyper,
        "actor" => Kind::Actor(actor(&tracker)),
        "echo" => Kind::Echo,
        "frames" => Kind::Frames,
        other => bail!("no peer is called {other:?}"),
    };
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    println!("{}", listener.local_addr()?);
    let connections = tracker.clone();
    tracker.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let (kind, tracker) = (kind.clone(), connections.clone());
            connections.spawn(async move {
                // A connection ends when its client does, which is no news.
                let _ = connection(stream, kind, &tracker).await;
            });
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    runtime.shutdown_background();
    Ok(())
}

fn actor(tracker: &TaskTracker) -> mpsc::Sender<Message> {
    let (mailbox, mut messages) = mpsc::channel::<Message>(1_000);
    tracker.spawn(async move {
        while let Some((n, reply)) = messages.recv().await {
            let _ = reply.send(n);
        }
    });
    mailbox
}

async fn connection(mut stream: TcpStream, kind: Kind, tracker: &TaskTracker) -> Result<()> {
    match kind {
        Kind::Echo => {
            let mut buffer = BytesMut::new();
            while stream.read_buf(&mut buffer).await? > 0 {
                stream.write_all(&buffer).await?;
                buffer.clear();
            }
        }
        Kind::Frames => {
            let (reader, writer) = stream.into_split();
            let (queue, queued) = mpsc::channel(FRAMES_QUEUED_MAX);
            tracker.spawn(frames::write(writer, queued));
            frames::read(reader, |frame| {
                let queue = queue.clone();
                async move { queue.send(frame).await.ok().context("the writer is gone") }
            })
            .await?;
        }
        Kind::Hyper | Kind::Actor(_) => {
            let actor = match kind {
                Kind::Actor(actor) => Some(actor),
                _ => None,
            };
            let service = service_fn(|request| answer(request, actor.clone()));
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await?;
        }
    }
    Ok(())
}

/// Reads the arguments, has the number echoed, writes the result.
async fn answer(
    request: Request<Incoming>,
    actor: Option<mpsc::Sender<Message>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = match echoed(request, actor).await {
        Ok(body) => Response::new(Full::new(Bytes::from(body))),
        Err(error) => {
            let mut response = Response::new(Full::new(Bytes::from(error.to_string())));
            *response.status_mut() = hyper::StatusCode::BAD_REQUEST;
            response
        }
    };
    Ok(body)
}

async fn echoed(request: Request<Incoming>, actor: Option<mpsc::Sender<Message>>) -> Result<String> {
    let body = request.into_body().collect().await?.to_bytes();
    let (n,): (u64,) = serde_json::from_slice(&body)?;
    let n = match actor {
        Some(actor) => {
            let (reply, answer) = oneshot::channel();
            actor.send((n, reply)).await.ok().context("the actor is gone")?;
            answer.await?
        }
        None => n,
    };
    Ok(serde_json::to_string(&n)?)
}
