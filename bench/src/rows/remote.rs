//! Calls between grains of two silos, beside bare echoes of as many bytes between two processes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use granary_core::hosting::{MethodRef, TurnContext};
use granary_core::id::Digest;
use granary_core::wire::{CallRequest, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::Run;
use crate::frames::{self, FRAMES_QUEUED_MAX};
use crate::measure::{cpu_of, interleaved, own_cpu, percentile};
use crate::processes::{Cluster, Connection, Peer, Silo, call, load_runtime};
use crate::report::Line;
use crate::world::grain;

/// Grains that call at once in the row of throughput.
const CALLERS: usize = 64;

/// Calls that are timed together.
const BATCH: u32 = 100;

/// What a frame has in front of its body: length, kind, request id, time.
const FRAME_HEAD_BYTES: usize = 16;

pub(crate) fn measure(run: &Run) -> Result<Vec<Line>> {
    let cluster = Cluster::new(run)?;
    let (near, far) = (cluster.start("silo-1")?, cluster.start("silo-2")?);
    cluster.deploy(&near)?;
    let (echo, framed) = (Peer::start("echo")?, Peer::start("frames")?);
    let runtime = load_runtime()?;
    // The called grains live on one silo, the callers on the other: each where it is called first.
    runtime.block_on(async {
        let (mut near, mut far) =
            (Connection::open(near.gateway).await?, Connection::open(far.gateway).await?);
        for n in 0..CALLERS {
            far.send(&call(&format!("far-{n}"), "echo", "[1]")).await?;
            near.send(&call(&format!("near-{n}"), "run", &format!(r#"["far-{n}", 10]"#))).await?;
        }
        Ok::<(), anyhow::Error>(())
    })?;
    let frame = vec![7; request_bytes()?];
    let (few, many) = (run.pick(20, 80), run.pick(300, 1_500));
    let [p50, bare_p50, rate, bare_rate] = interleaved(
        run.pick(5, 15),
        [
            &mut || runtime.block_on(one_caller(&near, few)),
            &mut || runtime.block_on(one_echo(&echo, &frame, few)),
            &mut || callers(&runtime, &near, &far, many),
            &mut || framed_callers(&runtime, &framed, &frame, many),
        ],
    )?;
    Ok(vec![
        Line::new("remote-p50", "call between grains of two silos, 1 caller, p50", "µs", p50)
            .against("raw TCP echo of as many bytes, p50", &bare_p50)
            .note(format!(
                "medians of batches of {BATCH} calls, one after the other; a request has {} bytes",
                frame.len()
            )),
        Line::new("remote-rate", "calls between grains of two silos, 64 callers", "1/CPU-s", rate)
            .against("raw framed echo with batched writes", &bare_rate)
            .note("calls per second of the CPU time of both processes"),
    ])
}

/// What one call of the test grain weighs on the wire.
fn request_bytes() -> Result<usize> {
    let request = Request::Invoke(CallRequest {
        to: grain("far-0")?,
        method: MethodRef {
            interface: "granary-tests:pinger/pinger".into(),
            method: "echo".into(),
            hash: Digest::of(b"echo"),
        },
        args: vec![1],
        context: TurnContext { chain: vec![grain("near-0")?], ..TurnContext::default() },
        call_id: u128::MAX,
        forwards: 0,
        one_way: false,
        may_activate: false,
    });
    Ok(FRAME_HEAD_BYTES + postcard::to_stdvec(&request)?.len())
}

/// The median time of a call in microseconds. A grain's own clock is too coarse for single calls.
async fn one_caller(near: &Silo, batches: u32) -> Result<f64> {
    let mut connection = Connection::open(near.gateway).await?;
    let call = call("near-0", "run", &format!(r#"["far-0", {BATCH}]"#));
    let mut micros = Vec::new();
    for _ in 0..batches {
        let started = Instant::now();
        let body = connection.send(&call).await?;
        ensure!(body.starts_with(br#"{"ok""#), "{}", String::from_utf8_lossy(&body));
        micros.push(started.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
    }
    Ok(percentile(&micros, 50.0))
}

async fn one_echo(peer: &Peer, frame: &[u8], batches: u32) -> Result<f64> {
    let mut stream = TcpStream::connect(peer.address).await?;
    stream.set_nodelay(true)?;
    let mut back = vec![0; frame.len()];
    let mut micros = Vec::new();
    for _ in 0..batches {
        let started = Instant::now();
        for _ in 0..BATCH {
            stream.write_all(frame).await?;
            stream.read_exact(&mut back).await?;
        }
        micros.push(started.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
    }
    Ok(percentile(&micros, 50.0))
}

/// Calls per second of both silos' CPU time.
fn callers(runtime: &Runtime, near: &Silo, far: &Silo, calls: u32) -> Result<f64> {
    let cpu = || Ok::<_, anyhow::Error>(cpu_of(near.pid())? + cpu_of(far.pid())?);
    let before = cpu()?;
    runtime.block_on(async {
        let mut callers = JoinSet::new();
        for n in 0..CALLERS {
            let gateway = near.gateway;
            callers.spawn(async move {
                let call = call(&format!("near-{n}"), "run", &format!(r#"["far-{n}", {calls}]"#));
                Connection::open(gateway).await?.send(&call).await
            });
        }
        while let Some(ended) = callers.join_next().await {
            let body = ended??;
            ensure!(body.starts_with(br#"{"ok""#), "{}", String::from_utf8_lossy(&body));
        }
        Ok(())
    })?;
    Ok(per_cpu(calls, cpu()? - before))
}

fn per_cpu(calls: u32, cpu: std::time::Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let all = f64::from(calls) * CALLERS as f64;
    all / cpu.as_secs_f64()
}

/// Who waits for which frame.
type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Bytes>>>>;

/// Echoes per second of the CPU time of this process and the peer.
fn framed_callers(runtime: &Runtime, peer: &Peer, frame: &[u8], calls: u32) -> Result<f64> {
    let cpu = || Ok::<_, anyhow::Error>(own_cpu() + cpu_of(peer.pid())?);
    let before = cpu()?;
    runtime.block_on(async {
        let stream = TcpStream::connect(peer.address).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let waiting = Waiting::default();
        let (queue, queued) = mpsc::channel(FRAMES_QUEUED_MAX);
        let mut link = JoinSet::new();
        link.spawn(frames::write(writer, queued));
        let answered = Arc::clone(&waiting);
        link.spawn(async move {
            frames::read(reader, |frame| {
                let caller = id_of(&frame)
                    .and_then(|id| answered.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
                if let Some(caller) = caller {
                    let _ = caller.send(frame);
                }
                std::future::ready(Ok(()))
            })
            .await
        });
        let mut callers = JoinSet::new();
        for n in (0..).take(CALLERS) {
            callers.spawn(framed_caller(n, calls, frame.to_vec(), queue.clone(), Arc::clone(&waiting)));
        }
        while let Some(ended) = callers.join_next().await {
            ended??;
        }
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(per_cpu(calls, cpu()? - before))
}

fn id_of(frame: &Bytes) -> Option<u64> {
    frame.first_chunk().map(|id| u64::from_le_bytes(*id))
}

/// One caller; its requests have numbers of their own.
async fn framed_caller(
    n: u64,
    calls: u32,
    mut frame: Vec<u8>,
    queue: mpsc::Sender<Bytes>,
    waiting: Waiting,
) -> Result<()> {
    for call in 0..u64::from(calls) {
        let id = n << 32 | call;
        frame.get_mut(..8).context("a frame without an id")?.copy_from_slice(&id.to_le_bytes());
        let (reply, answer) = oneshot::channel();
        waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, reply);
        queue.send(Bytes::copy_from_slice(&frame)).await.ok().context("the writer is gone")?;
        ensure!(id_of(&answer.await?) == Some(id), "another frame came back");
    }
    Ok(())
}
