//! `wasi:io`: errors, streams and pollables, for standard output, for waiting, and for the bodies of outgoing requests.
//!
//! An input has ended or is the body of an answer; an output becomes log lines or is the body of a request. Outputs are
//! always ready, since what is written is buffered within bounds; clocks and answers make pollables that are not.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::select_all;

use wasmtime::component::{ComponentType, Lift, Lower, Resource};
use wasmtime::{StoreContextMut, bail};

use super::{Instance, resource};
use crate::guest_log::Stream;
use crate::outgoing::{BodyBuffer, ErrorCode, Exchange, HttpError, REQUEST_BODY_BYTES_MAX, Read, Wait};
use crate::state::{HANDLES_MAX, HostState, after_wait, current_turn};

/// How many bytes an output stream takes at once.
const WRITE_BYTES_MAX: u64 = 64 << 10;

/// How many bytes an input stream gives at once.
const READ_BYTES_MAX: u64 = 64 << 10;

/// `error`: of an outgoing request, as no other stream can fail.
#[derive(Debug)]
pub(crate) struct IoError(pub(crate) HttpError);

/// `input-stream`.
#[derive(Debug)]
pub(crate) enum InputStream {
    /// At its end.
    Ended,
    /// The body of an answer.
    Body(Arc<Exchange>),
}

/// `output-stream`.
#[derive(Debug)]
pub(crate) enum OutputStream {
    Log(Stream),
    /// The body of a request.
    Body(Arc<BodyBuffer>),
}

/// `pollable`.
#[derive(Debug, Clone)]
pub(crate) enum Pollable {
    Ready,
    At(Instant),
    Http(Wait),
}

impl Pollable {
    fn ready(&self, now: Instant) -> bool {
        match self {
            Self::Ready => true,
            Self::At(at) => *at <= now,
            Self::Http(wait) => wait.is_ready(),
        }
    }
}

/// `stream-error`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(crate) enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

type Store<'a> = StoreContextMut<'a, HostState>;

/// Defines a resource of these interfaces; false when it is none of theirs.
pub(crate) fn link_resource(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "error" => resource::<IoError>(instance, name)?,
        "input-stream" => resource::<InputStream>(instance, name)?,
        "output-stream" => resource::<OutputStream>(instance, name)?,
        "pollable" => resource::<Pollable>(instance, name)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one function of `wasi:io/error`.
pub(crate) fn link_error(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "[method]error.to-debug-string" => {
            instance.func_wrap(name, |store: Store<'_>, (this,): (Resource<IoError>,)| {
                Ok((store.data().handles.get(&this)?.0.text.clone(),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one function of `wasi:io/poll`.
pub(crate) fn link_poll(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "[method]pollable.ready" => instance.func_wrap(name, |store, (this,): (Resource<Pollable>,)| {
            Ok((store.data().handles.get(&this)?.ready(Instant::now()),))
        })?,
        "[method]pollable.block" => {
            instance.func_wrap_async(name, |mut store: Store<'_>, (this,): (Resource<Pollable>,)| {
                Box::new(async move { wait(&mut store, &[this]).await.map(|_| ()) })
            })?;
        }
        "poll" => {
            instance.func_wrap_async(
                name,
                |mut store: Store<'_>, (pollables,): (Vec<Resource<Pollable>>,)| {
                    Box::new(async move { Ok((wait(&mut store, &pollables).await?,)) })
                },
            )?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Waits until one is ready; which ones are.
async fn wait(store: &mut Store<'_>, pollables: &[Resource<Pollable>]) -> wasmtime::Result<Vec<u32>> {
    if pollables.is_empty() || pollables.len() > HANDLES_MAX {
        bail!("poll takes 1 to {HANDLES_MAX} pollables, not {}", pollables.len());
    }
    let handles = &store.data().handles;
    let pollables: Vec<Pollable> =
        pollables.iter().map(|pollable| handles.get(pollable).cloned()).collect::<Result<_, _>>()?;
    wait_for(store, &pollables).await
}

/// The same for pollables that have no handle. No longer than the turn may take.
async fn wait_for(store: &mut Store<'_>, pollables: &[Pollable]) -> wasmtime::Result<Vec<u32>> {
    let limit = current_turn(store).wait_until();
    loop {
        // Made before the look, so that no change gets lost between the look and the wait.
        let changes: Vec<_> = pollables
            .iter()
            .filter_map(|pollable| match pollable {
                Pollable::Http(wait) => Some(Box::pin(wait.changed().notified())),
                Pollable::Ready | Pollable::At(_) => None,
            })
            .collect();
        let now = Instant::now();
        let ready: Vec<u32> = (0..).zip(pollables).filter(|(_, it)| it.ready(now)).map(|(i, _)| i).collect();
        if !ready.is_empty() {
            return Ok(ready);
        }
        if now >= limit {
            bail!("the grain waited longer than its turn may take");
        }
        let times = pollables.iter().filter_map(|pollable| match pollable {
            Pollable::At(at) => Some(*at),
            Pollable::Ready | Pollable::Http(_) => None,
        });
        let sleep = tokio::time::sleep_until(times.min().unwrap_or(limit).min(limit).into());
        if changes.is_empty() {
            sleep.await;
        } else {
            tokio::select! {
                () = sleep => {}
                _ = select_all(changes) => {}
            }
        }
        after_wait(store);
    }
}

/// Defines one function of `wasi:io/streams`.
pub(crate) fn link_streams(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    if let Some(method) = name.strip_prefix("[method]input-stream.") {
        return link_input(instance, name, method);
    }
    match name.strip_prefix("[method]output-stream.") {
        Some(method) => link_output(instance, name, method),
        None => Ok(false),
    }
}

fn link_input(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type This = Resource<InputStream>;
    match method {
        "read" => instance.func_wrap(name, |mut store: Store<'_>, (this, length): (This, u64)| {
            Ok((read(&mut store, &this, length)?,))
        })?,
        "blocking-read" => {
            instance.func_wrap_async(name, |mut store: Store<'_>, (this, length): (This, u64)| {
                Box::new(async move {
                    wait_input(&mut store, &this).await?;
                    Ok((read(&mut store, &this, length)?,))
                })
            })?;
        }
        "skip" => instance.func_wrap(name, |mut store: Store<'_>, (this, length): (This, u64)| {
            Ok((read(&mut store, &this, length)?.map(|bytes| bytes.len() as u64),))
        })?,
        "blocking-skip" => {
            instance.func_wrap_async(name, |mut store: Store<'_>, (this, length): (This, u64)| {
                Box::new(async move {
                    wait_input(&mut store, &this).await?;
                    Ok((read(&mut store, &this, length)?.map(|bytes| bytes.len() as u64),))
                })
            })?;
        }
        "subscribe" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let pollable = input_pollable(&store, &this)?;
            Ok((store.data_mut().handles.push(pollable)?,))
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn input_pollable(store: &Store<'_>, this: &Resource<InputStream>) -> wasmtime::Result<Pollable> {
    Ok(match store.data().handles.get(this)? {
        InputStream::Ended => Pollable::Ready,
        InputStream::Body(exchange) => Pollable::Http(exchange.wait_body()),
    })
}

async fn wait_input(store: &mut Store<'_>, this: &Resource<InputStream>) -> wasmtime::Result<()> {
    let pollable = input_pollable(store, this)?;
    wait_for(store, &[pollable]).await.map(|_| ())
}

fn read(
    store: &mut Store<'_>,
    this: &Resource<InputStream>,
    length: u64,
) -> wasmtime::Result<Result<Vec<u8>, StreamError>> {
    let handles = &mut store.data_mut().handles;
    let InputStream::Body(exchange) = handles.get(this)? else { return Ok(Err(StreamError::Closed)) };
    Ok(match exchange.read(usize::try_from(length.min(READ_BYTES_MAX))?) {
        Read::Bytes(bytes) => Ok(bytes),
        Read::Nothing => Ok(Vec::new()),
        Read::End => Err(StreamError::Closed),
        Read::Failed(error) => Err(StreamError::LastOperationFailed(handles.push(IoError(error))?)),
    })
}

fn link_output(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type This = Resource<OutputStream>;
    match method {
        "check-write" => {
            instance
                .func_wrap(name, |mut store: Store<'_>, (this,): (This,)| check_write(&mut store, &this))?;
        }
        "write" | "blocking-write-and-flush" => {
            instance.func_wrap(name, |mut store: Store<'_>, (this, bytes): (This, Vec<u8>)| {
                write(&mut store, &this, &bytes)
            })?;
        }
        "write-zeroes" | "blocking-write-zeroes-and-flush" => {
            instance.func_wrap(name, |mut store: Store<'_>, (this, length): (This, u64)| {
                let length = usize::try_from(length.min(WRITE_BYTES_MAX + 1)).unwrap_or(usize::MAX);
                write(&mut store, &this, &vec![0; length])
            })?;
        }
        "flush" | "blocking-flush" => {
            instance.func_wrap(name, |_, (_,): (This,)| Ok((Ok::<(), StreamError>(()),)))?;
        }
        "splice" | "blocking-splice" => {
            instance.func_wrap(name, |_, (_, _, _): (This, Resource<InputStream>, u64)| {
                Ok((Err::<u64, _>(StreamError::Closed),))
            })?;
        }
        "subscribe" => {
            instance.func_wrap(name, |mut store: Store<'_>, (_,): (This,)| {
                Ok((store.data_mut().handles.push(Pollable::Ready)?,))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn check_write(
    store: &mut Store<'_>,
    this: &Resource<OutputStream>,
) -> wasmtime::Result<(Result<u64, StreamError>,)> {
    let handles = &mut store.data_mut().handles;
    let OutputStream::Body(body) = handles.get(this)? else { return Ok((Ok(WRITE_BYTES_MAX),)) };
    let room = body.room().min(WRITE_BYTES_MAX);
    if room > 0 {
        return Ok((Ok(room),));
    }
    Ok((Err(StreamError::LastOperationFailed(handles.push(IoError(body_too_large()))?)),))
}

fn body_too_large() -> HttpError {
    HttpError::new(
        ErrorCode::HttpRequestBodySize(Some(REQUEST_BODY_BYTES_MAX)),
        format!(
            "the request's body is larger than {REQUEST_BODY_BYTES_MAX} bytes, was ended, or the activation's requests \
             hold too much that was not sent yet"
        ),
    )
}

fn write(
    store: &mut Store<'_>,
    this: &Resource<OutputStream>,
    bytes: &[u8],
) -> wasmtime::Result<(Result<(), StreamError>,)> {
    // More than `check-write` allowed is a trap by WASI's own rules.
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > WRITE_BYTES_MAX {
        bail!("a write to an output stream takes at most {WRITE_BYTES_MAX} bytes at once");
    }
    let state = store.data_mut();
    match state.handles.get(this)? {
        OutputStream::Log(stream) => {
            let stream = *stream;
            state.write(stream, bytes);
        }
        OutputStream::Body(body) => {
            if !body.write(bytes) {
                let error = state.handles.push(IoError(body_too_large()))?;
                return Ok((Err(StreamError::LastOperationFailed(error)),));
            }
        }
    }
    Ok((Ok(()),))
}
