//! `wasi:http/types`: requests, their bodies, and what a guest asks of the time they take.

use std::sync::Arc;
use std::time::Duration;

use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{HeaderMap, Method};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Lower, Resource};

use super::fields::Fields;
use crate::imports::Instance;
use crate::imports::wasi_io::OutputStream;
use crate::outgoing::{BodyBuffer, ErrorCode, Timeouts};
use crate::state::HostState;

/// The longest path with query, in bytes.
const PATH_BYTES_MAX: usize = 8 << 10;

/// The longest authority, in bytes.
const AUTHORITY_BYTES_MAX: usize = 512;

/// The longest name of a method or scheme, in bytes.
const WORD_BYTES_MAX: usize = 32;

/// `outgoing-request`.
#[derive(Debug)]
pub(crate) struct OutgoingRequest {
    pub(super) method: Method,
    pub(super) path: Option<String>,
    pub(super) scheme: Option<Scheme>,
    pub(super) authority: Option<String>,
    pub(super) fields: Arc<HeaderMap>,
    /// The body, once the guest asked for it.
    pub(super) body: Option<Arc<BodyBuffer>>,
}

/// `outgoing-body`. Dropped before it is finished, it ends its request.
#[derive(Debug)]
pub(crate) struct OutgoingBody {
    buffer: Arc<BodyBuffer>,
    written: bool,
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        // Without effect on one that was finished.
        self.buffer.give_up();
    }
}

/// `request-options`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestOptions(pub(super) Timeouts);

/// `method`.
#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(variant)]
enum WitMethod {
    #[component(name = "get")]
    Get,
    #[component(name = "head")]
    Head,
    #[component(name = "post")]
    Post,
    #[component(name = "put")]
    Put,
    #[component(name = "delete")]
    Delete,
    #[component(name = "connect")]
    Connect,
    #[component(name = "options")]
    Options,
    #[component(name = "trace")]
    Trace,
    #[component(name = "patch")]
    Patch,
    #[component(name = "other")]
    Other(String),
}

/// `scheme`.
#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum Scheme {
    #[component(name = "HTTP")]
    Http,
    #[component(name = "HTTPS")]
    Https,
    #[component(name = "other")]
    Other(String),
}

impl WitMethod {
    /// `None` for what is no method, and for those that make something else of a connection than a request.
    fn checked(&self) -> Option<Method> {
        let method = match self {
            Self::Get => Method::GET,
            Self::Head => Method::HEAD,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Delete => Method::DELETE,
            Self::Options => Method::OPTIONS,
            Self::Patch => Method::PATCH,
            Self::Connect | Self::Trace => return None,
            Self::Other(name) if name.len() <= WORD_BYTES_MAX => Method::from_bytes(name.as_bytes()).ok()?,
            Self::Other(_) => return None,
        };
        (method != Method::CONNECT && method != Method::TRACE).then_some(method)
    }

    fn of(method: &Method) -> Self {
        match method.as_str() {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            "PATCH" => Self::Patch,
            other => Self::Other(other.to_owned()),
        }
    }
}

type Store<'a> = StoreContextMut<'a, HostState>;
type This = Resource<OutgoingRequest>;

/// What WASI's setters give: nothing is said beyond yes or no.
fn checked(ok: bool) -> Result<(), ()> {
    if ok { Ok(()) } else { Err(()) }
}

fn is_path(path: &str) -> bool {
    path.len() <= PATH_BYTES_MAX && path.starts_with('/') && path.parse::<PathAndQuery>().is_ok()
}

fn is_authority(authority: &str) -> bool {
    authority.len() <= AUTHORITY_BYTES_MAX && authority.parse::<Authority>().is_ok()
}

/// Defines one function of `outgoing-request`; false when it is none of its.
pub(super) fn link(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    match method {
        "" => instance.func_wrap(name, |mut store: Store<'_>, (fields,): (Resource<Fields>,)| {
            let handles = &mut store.data_mut().handles;
            let fields = handles.delete(fields)?.map;
            let (method, path, scheme, authority, body) = (Method::GET, None, None, None, None);
            Ok((handles.push(OutgoingRequest { method, path, scheme, authority, fields, body })?,))
        })?,
        "headers" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let fields = Fields::immutable(&handles.get(&this)?.fields);
            Ok((handles.push(fields)?,))
        })?,
        "body" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let state = store.data_mut();
            let buffer = state.requests().body();
            let request = state.handles.get_mut(&this)?;
            if request.body.is_some() {
                return Ok((Err(()),));
            }
            request.body = Some(Arc::clone(&buffer));
            Ok((Ok(state.handles.push(OutgoingBody { buffer, written: false })?),))
        })?,
        _ => return link_parts(instance, name, method),
    }
    Ok(true)
}

/// The getters and setters.
fn link_parts(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    match method {
        "method" => instance.func_wrap(name, |store: Store<'_>, (this,): (This,)| {
            Ok((WitMethod::of(&store.data().handles.get(&this)?.method),))
        })?,
        "set-method" => {
            instance.func_wrap(name, |mut store: Store<'_>, (this, method): (This, WitMethod)| {
                let request = store.data_mut().handles.get_mut(&this)?;
                let method = method.checked().map(|method| request.method = method);
                Ok((checked(method.is_some()),))
            })?;
        }
        "path-with-query" => instance.func_wrap(name, |store: Store<'_>, (this,): (This,)| {
            Ok((store.data().handles.get(&this)?.path.clone(),))
        })?,
        "set-path-with-query" => {
            instance.func_wrap(name, |mut store: Store<'_>, (this, path): (This, Option<String>)| {
                let request = store.data_mut().handles.get_mut(&this)?;
                let ok = path.as_deref().is_none_or(is_path);
                if ok {
                    request.path = path;
                }
                Ok((checked(ok),))
            })?;
        }
        "scheme" => instance.func_wrap(name, |store: Store<'_>, (this,): (This,)| {
            Ok((store.data().handles.get(&this)?.scheme.clone(),))
        })?,
        "set-scheme" => {
            instance.func_wrap(name, |mut store: Store<'_>, (this, scheme): (This, Option<Scheme>)| {
                let request = store.data_mut().handles.get_mut(&this)?;
                let ok = !matches!(&scheme, Some(Scheme::Other(name)) if name.len() > WORD_BYTES_MAX);
                if ok {
                    request.scheme = scheme;
                }
                Ok((checked(ok),))
            })?;
        }
        "authority" => instance.func_wrap(name, |store: Store<'_>, (this,): (This,)| {
            Ok((store.data().handles.get(&this)?.authority.clone(),))
        })?,
        "set-authority" => {
            instance.func_wrap(name, |mut store: Store<'_>, (this, authority): (This, Option<String>)| {
                let request = store.data_mut().handles.get_mut(&this)?;
                let ok = authority.as_deref().is_none_or(is_authority);
                if ok {
                    request.authority = authority;
                }
                Ok((checked(ok),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one function of `outgoing-body`; false when it is none of its.
pub(super) fn link_body(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type This = Resource<OutgoingBody>;
    match method {
        "write" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let body = handles.get_mut(&this)?;
            if std::mem::replace(&mut body.written, true) {
                return Ok((Err(()),));
            }
            let stream = OutputStream::Body(Arc::clone(&body.buffer));
            Ok((Ok(handles.push(stream)?),))
        })?,
        "finish" => instance.func_wrap(
            name,
            |mut store: Store<'_>, (this, trailers): (This, Option<Resource<Fields>>)| {
                let handles = &mut store.data_mut().handles;
                let body = handles.delete(this)?;
                let trailers = trailers.map(|fields| handles.delete(fields)).transpose()?;
                if trailers.is_some_and(|fields| !fields.map.is_empty()) {
                    let text = "trailers of requests are not sent by this host".to_owned();
                    return Ok((Err(ErrorCode::InternalError(Some(text))),));
                }
                body.buffer.finish();
                Ok((Ok(()),))
            },
        )?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one function of `request-options`; false when it is none of its.
pub(super) fn link_options(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    type Slot = fn(&mut Timeouts) -> &mut Option<Duration>;
    type This = Resource<RequestOptions>;
    let (set, which) = method.strip_prefix("set-").map_or((false, method), |which| (true, which));
    let slot: Slot = match which {
        "" => {
            instance.func_wrap(name, |mut store: Store<'_>, ()| {
                Ok((store.data_mut().handles.push(RequestOptions::default())?,))
            })?;
            return Ok(true);
        }
        "connect-timeout" => |timeouts| &mut timeouts.connect,
        "first-byte-timeout" => |timeouts| &mut timeouts.first_byte,
        "between-bytes-timeout" => |timeouts| &mut timeouts.between_bytes,
        _ => return Ok(false),
    };
    if set {
        instance.func_wrap(name, move |mut store: Store<'_>, (this, nanos): (This, Option<u64>)| {
            let options = store.data_mut().handles.get_mut(&this)?;
            *slot(&mut options.0) = nanos.map(Duration::from_nanos);
            Ok((Ok::<(), ()>(()),))
        })?;
    } else {
        instance.func_wrap(name, move |mut store: Store<'_>, (this,): (This,)| {
            let time = *slot(&mut store.data_mut().handles.get_mut(&this)?.0);
            Ok((time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),))
        })?;
    }
    Ok(true)
}
