//! `wasi:http/types`: responses that come, and their bodies.

use std::sync::Arc;

use granary_core::hosting::LogLevel;
use hyper::HeaderMap;
use wasmtime::StoreContextMut;
use wasmtime::component::Resource;

use super::fields::Fields;
use crate::imports::Instance;
use crate::imports::wasi_io::{InputStream, Pollable};
use crate::outgoing::{ErrorCode, Exchange, HttpError};
use crate::state::HostState;

/// Where a grain's log says what became of its requests.
const LOG_TARGET: &str = "granary";

/// `future-incoming-response`.
#[derive(Debug)]
pub(crate) struct FutureResponse(pub(super) Arc<Exchange>);

/// `incoming-response`.
#[derive(Debug)]
pub(crate) struct IncomingResponse {
    exchange: Arc<Exchange>,
    status: u16,
    fields: Arc<HeaderMap>,
    consumed: bool,
}

/// `incoming-body`.
#[derive(Debug)]
pub(crate) struct IncomingBody {
    exchange: Arc<Exchange>,
    streamed: bool,
}

/// `future-trailers`.
#[derive(Debug)]
pub(crate) struct FutureTrailers {
    exchange: Arc<Exchange>,
    taken: bool,
}

type Store<'a> = StoreContextMut<'a, HostState>;

/// An error as its guest gets it; the grain's log has the text.
pub(super) fn told(state: &mut HostState, error: HttpError) -> ErrorCode {
    state.record(LogLevel::Warn, LOG_TARGET, &format!("outgoing request: {}", error.text));
    error.code
}

/// Defines one function of `future-incoming-response`; false when it is none of its.
pub(super) fn link_future(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type This = Resource<FutureResponse>;
    match method {
        "subscribe" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let wait = handles.get(&this)?.0.wait_head();
            Ok((handles.push(Pollable::Http(wait))?,))
        })?,
        "get" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let state = store.data_mut();
            let exchange = Arc::clone(&state.handles.get(&this)?.0);
            Ok((match exchange.take_head() {
                None => None,
                Some(None) => Some(Err(())),
                Some(Some(Err(error))) => Some(Ok(Err(told(state, error)))),
                Some(Some(Ok((status, fields)))) => {
                    let response = IncomingResponse { exchange, status, fields, consumed: false };
                    Some(Ok(Ok(state.handles.push(response)?)))
                }
            },))
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one function of `incoming-response`; false when it is none of its.
pub(super) fn link(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type This = Resource<IncomingResponse>;
    match method {
        "status" => instance.func_wrap(name, |store: Store<'_>, (this,): (This,)| {
            Ok((store.data().handles.get(&this)?.status,))
        })?,
        "headers" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let fields = Fields::immutable(&handles.get(&this)?.fields);
            Ok((handles.push(fields)?,))
        })?,
        "consume" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let response = handles.get_mut(&this)?;
            if std::mem::replace(&mut response.consumed, true) {
                return Ok((Err(()),));
            }
            let exchange = Arc::clone(&response.exchange);
            Ok((Ok(handles.push(IncomingBody { exchange, streamed: false })?),))
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one function of `incoming-body`; false when it is none of its.
pub(super) fn link_body(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type This = Resource<IncomingBody>;
    match method {
        "stream" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let body = handles.get_mut(&this)?;
            if std::mem::replace(&mut body.streamed, true) {
                return Ok((Err(()),));
            }
            let stream = InputStream::Body(Arc::clone(&body.exchange));
            Ok((Ok(handles.push(stream)?),))
        })?,
        "finish" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let exchange = Arc::clone(&handles.delete(this)?.exchange);
            Ok((handles.push(FutureTrailers { exchange, taken: false })?,))
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one function of `future-trailers`; false when it is none of its.
pub(super) fn link_trailers(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type This = Resource<FutureTrailers>;
    match method {
        "subscribe" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let wait = handles.get(&this)?.exchange.wait_end();
            Ok((handles.push(Pollable::Http(wait))?,))
        })?,
        "get" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let state = store.data_mut();
            let future = state.handles.get_mut(&this)?;
            let Some(end) = future.exchange.end() else { return Ok((None,)) };
            if std::mem::replace(&mut future.taken, true) {
                return Ok((Some(Err(())),));
            }
            Ok((Some(Ok(match end {
                Ok(None) => Ok(None),
                Ok(Some(trailers)) => Ok(Some(state.handles.push(Fields::immutable(&trailers))?)),
                Err(error) => Err(told(state, error)),
            })),))
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}
