//! `wasi:cli`: standard streams, exit, and the environment that the deployment grants. Arguments and terminals are
//! empty, and denied by their types.

use wasmtime::StoreContextMut;
use wasmtime::component::Resource;

use super::Instance;
use super::wasi_io::{InputStream, OutputStream};
use crate::guest_log::Stream;
use crate::state::HostState;

/// The guest called `exit`.
#[derive(Debug, thiserror::Error)]
#[error("the grain called exit({code})")]
pub(crate) struct GuestExit {
    code: u8,
}

/// Defines one function of `wasi:cli/{environment,stdin,stdout,stderr,exit}`; false when it is none of theirs.
pub(crate) fn link(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "get-environment" => {
            instance.func_wrap(name, |store: StoreContextMut<'_, HostState>, ()| {
                Ok((store.data().grants.env(),))
            })?;
        }
        "get-stdin" => instance.func_wrap(name, |mut store, ()| {
            let handle: Resource<InputStream> = store.data_mut().handles.push(InputStream::Ended)?;
            Ok((handle,))
        })?,
        "get-stdout" => instance.func_wrap(name, |mut store, ()| {
            Ok((store.data_mut().handles.push(OutputStream::Log(Stream::Stdout))?,))
        })?,
        "get-stderr" => instance.func_wrap(name, |mut store, ()| {
            Ok((store.data_mut().handles.push(OutputStream::Log(Stream::Stderr))?,))
        })?,
        "exit" => instance.func_wrap(name, |_, (status,): (Result<(), ()>,)| {
            Err::<(), _>(GuestExit { code: u8::from(status.is_err()) }.into())
        })?,
        "exit-with-code" => {
            instance.func_wrap(name, |_, (code,): (u8,)| Err::<(), _>(GuestExit { code }.into()))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
