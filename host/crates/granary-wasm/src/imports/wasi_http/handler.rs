//! `wasi:http/outgoing-handler`: judges a request by the deployment's grants, and starts it.

use std::time::Instant;

use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Request, Uri};
use wasmtime::StoreContextMut;
use wasmtime::component::Resource;

use super::request::{OutgoingRequest, RequestOptions, Scheme};
use super::response::{FutureResponse, told};
use crate::grants::Target;
use crate::imports::Instance;
use crate::outgoing::{ErrorCode, HttpError, Prepared, REQUEST_TIME, REQUEST_TIME_MAX, no_tls};
use crate::state::{HostState, current_turn};

/// The port of `http`.
const HTTP_PORT: u16 = 80;

/// The port of `https`.
const HTTPS_PORT: u16 = 443;

type Store<'a> = StoreContextMut<'a, HostState>;

/// Defines one function of the interface; false when it is none of its.
pub(crate) fn link(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    if name != "handle" {
        return Ok(false);
    }
    instance.func_wrap(
        name,
        |mut store: Store<'_>,
         (request, options): (Resource<OutgoingRequest>, Option<Resource<RequestOptions>>)| {
            let handles = &mut store.data_mut().handles;
            let request = handles.delete(request)?;
            let options = options.map(|options| handles.delete(options)).transpose()?.unwrap_or_default();
            // The wait for the answer counts against the call that the turn serves.
            let time = current_turn(&mut store).remaining().unwrap_or(REQUEST_TIME).min(REQUEST_TIME_MAX);
            let state = store.data_mut();
            state.outgoing_http.counters.request();
            let started = prepare(state, request, options, Instant::now() + time)
                .and_then(|prepared| state.requests().start(prepared));
            Ok((match started {
                Ok(exchange) => Ok(state.handles.push(FutureResponse(exchange))?),
                Err(error) => {
                    state.outgoing_http.counters.error(&error.code);
                    Err(told(state, error))
                }
            },))
        },
    )?;
    Ok(true)
}

/// The request, if the grants allow it.
fn prepare(
    state: &mut HostState,
    request: OutgoingRequest,
    options: RequestOptions,
    deadline: Instant,
) -> Result<Prepared, HttpError> {
    let invalid = |text: String| HttpError::new(ErrorCode::HttpRequestUriInvalid, text);
    let (tls, default_port) = match request.scheme.unwrap_or(Scheme::Https) {
        Scheme::Http => (false, HTTP_PORT),
        Scheme::Https => (true, HTTPS_PORT),
        Scheme::Other(_) => return Err(invalid("only the schemes http and https are offered".to_owned())),
    };
    let authority = request.authority.unwrap_or_default();
    let target = Target::parse(&authority, default_port).map_err(|error| invalid(error.to_string()))?;
    if !state.grants.allows(&target) {
        let granted: Vec<String> = state.grants.http().map(ToString::to_string).collect();
        return Err(HttpError::new(
            ErrorCode::HttpRequestDenied,
            format!("{target} is not granted; the deployment grants {}", granted.join(", ")),
        ));
    }
    if tls && !state.requests().has_tls() {
        return Err(no_tls());
    }
    let path = request.path.as_deref().unwrap_or("/").parse::<PathAndQuery>();
    let path = path.map_err(|error| invalid(format!("the path is not one: {error}")))?;
    let mut head = Request::new(());
    *head.method_mut() = request.method;
    *head.uri_mut() = Uri::from(path);
    *head.headers_mut() = fields(&request.fields, &target)?;
    let body = request.body.unwrap_or_else(|| {
        let empty = state.requests().body();
        empty.finish();
        empty
    });
    let private = state.grants.http_private();
    Ok(Prepared { target, tls, private, head, body, timeouts: options.0, deadline })
}

/// The guest's fields, and those that are the host's to say.
fn fields(own: &HeaderMap, target: &Target) -> Result<HeaderMap, HttpError> {
    let mut fields = own.clone();
    let host = HeaderValue::from_str(&target.to_string())
        .map_err(|error| HttpError::new(ErrorCode::HttpRequestUriInvalid, error.to_string()))?;
    fields.insert(HOST, host);
    fields.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(fields)
}
