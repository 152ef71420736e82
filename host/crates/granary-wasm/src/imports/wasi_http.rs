//! `wasi:http`: requests to the hosts that the deployment grants. The interfaces for serving requests are denied by
//! their types, since grains are called otherwise.

mod fields;
mod handler;
mod request;
mod response;

use wasmtime::component::Resource;

use super::wasi_io::IoError;
use super::{Instance, resource};
use crate::outgoing::ErrorCode;

pub(crate) use handler::link as link_handler;

/// Defines a resource of `wasi:http/types`; false for those of serving.
pub(crate) fn link_resource(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "fields" => resource::<fields::Fields>(instance, name)?,
        "outgoing-request" => resource::<request::OutgoingRequest>(instance, name)?,
        "outgoing-body" => resource::<request::OutgoingBody>(instance, name)?,
        "request-options" => resource::<request::RequestOptions>(instance, name)?,
        "future-incoming-response" => resource::<response::FutureResponse>(instance, name)?,
        "incoming-response" => resource::<response::IncomingResponse>(instance, name)?,
        "incoming-body" => resource::<response::IncomingBody>(instance, name)?,
        "future-trailers" => resource::<response::FutureTrailers>(instance, name)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one function of `wasi:http/types`; false for those of serving.
pub(crate) fn link_types(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    if name == "http-error-code" {
        instance.func_wrap(name, |store, (error,): (Resource<IoError>,)| {
            let error = store.data().handles.get(&error)?;
            Ok((Some(error.0.code.clone()) as Option<ErrorCode>,))
        })?;
        return Ok(true);
    }
    let Some((_, function)) = name.split_once(']') else { return Ok(false) };
    let (resource, method) = function.split_once('.').unwrap_or((function, ""));
    match resource {
        "fields" => fields::link(instance, name, method),
        "outgoing-request" => request::link(instance, name, method),
        "outgoing-body" => request::link_body(instance, name, method),
        "request-options" => request::link_options(instance, name, method),
        "future-incoming-response" => response::link_future(instance, name, method),
        "incoming-response" => response::link(instance, name, method),
        "incoming-body" => response::link_body(instance, name, method),
        "future-trailers" => response::link_trailers(instance, name, method),
        _ => Ok(false),
    }
}
