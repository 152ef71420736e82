//! `wasi:io`: errors, streams and pollables, for standard output and for waiting.
//!
//! The only streams are an input that has ended, and two outputs that become log lines; so a stream is always
//! ready, and only clocks make a pollable that is not.

use std::time::Instant;

use wasmtime::component::{ComponentType, Lift, Lower, Resource};
use wasmtime::{StoreContextMut, bail};

use super::{Instance, resource};
use crate::guest_log::Stream;
use crate::state::{HANDLES_MAX, HostState, after_wait, current_turn};

/// How many bytes an output stream takes at once.
const WRITE_BYTES_MAX: u64 = 64 << 10;

/// `error`; never made, since neither stream can fail.
#[derive(Debug)]
pub(crate) struct IoError;

/// `input-stream`: at its end.
#[derive(Debug)]
pub(crate) struct InputStream;

/// `output-stream`.
#[derive(Debug)]
pub(crate) struct OutputStream(pub(crate) Stream);

/// `pollable`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pollable {
    Ready,
    At(Instant),
}

impl Pollable {
    fn ready(self, now: Instant) -> bool {
        match self {
            Self::Ready => true,
            Self::At(at) => at <= now,
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
            instance.func_wrap(name, |_, (_,): (Resource<IoError>,)| Ok(("the stream failed".to_owned(),)))?
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

/// Waits until one is ready; which ones are. No longer than the turn may take.
async fn wait(store: &mut Store<'_>, pollables: &[Resource<Pollable>]) -> wasmtime::Result<Vec<u32>> {
    if pollables.is_empty() || pollables.len() > HANDLES_MAX {
        bail!("poll takes 1 to {HANDLES_MAX} pollables, not {}", pollables.len());
    }
    let handles = &store.data().handles;
    let pollables: Vec<Pollable> =
        pollables.iter().map(|pollable| handles.get(pollable).copied()).collect::<Result<_, _>>()?;
    let limit = current_turn(store).wait_until();
    loop {
        let now = Instant::now();
        let ready: Vec<u32> = (0..).zip(&pollables).filter(|(_, it)| it.ready(now)).map(|(i, _)| i).collect();
        if !ready.is_empty() {
            return Ok(ready);
        }
        if now >= limit {
            bail!("the grain waited longer than its turn may take");
        }
        let until = pollables.iter().filter_map(|pollable| match pollable {
            Pollable::Ready => None,
            Pollable::At(at) => Some(*at),
        });
        let until = until.min().unwrap_or(limit).min(limit);
        tokio::time::sleep_until(until.into()).await;
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
    match method {
        "read" | "blocking-read" => {
            instance.func_wrap(name, |_, (_, _): (Resource<InputStream>, u64)| {
                Ok((Err::<Vec<u8>, _>(StreamError::Closed),))
            })?;
        }
        "skip" | "blocking-skip" => {
            instance.func_wrap(name, |_, (_, _): (Resource<InputStream>, u64)| {
                Ok((Err::<u64, _>(StreamError::Closed),))
            })?;
        }
        "subscribe" => {
            instance.func_wrap(name, |mut store: Store<'_>, (_,): (Resource<InputStream>,)| {
                Ok((store.data_mut().handles.push(Pollable::Ready)?,))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn link_output(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type This = Resource<OutputStream>;
    match method {
        "check-write" => {
            instance.func_wrap(name, |_, (_,): (This,)| Ok((Ok::<_, StreamError>(WRITE_BYTES_MAX),)))?
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
    let stream = state.handles.get(this)?.0;
    state.write(stream, bytes);
    Ok((Ok(()),))
}
