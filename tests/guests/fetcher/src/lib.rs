//! A grain that sends HTTP requests by `wasi:http`, and reads its environment by std.

use std::fmt::Debug;

use granary_guest::prelude::*;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

use contract::{Answer, Request};

/// What is written at once.
const CHUNK: [u8; 4096] = [b'x'; 4096];

/// The grain. It keeps nothing.
#[grain(interface = "granary-tests:fetcher/fetcher")]
#[derive(Debug, Default)]
pub struct FetcherGrain;

/// A value of the platform's as its name.
fn text(error: impl Debug) -> String {
    format!("{error:?}")
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "HEAD" => Method::Head,
        "CONNECT" => Method::Connect,
        other => Method::Other(other.to_owned()),
    }
}

fn refused(what: &str) -> impl Fn(()) -> String + '_ {
    move |()| format!("{what} is refused")
}

fn prepared(request: &Request) -> Result<OutgoingRequest, String> {
    let fields = Fields::new();
    for (name, value) in &request.fields {
        fields.append(name, value.as_bytes()).map_err(text)?;
    }
    let scheme = match request.scheme.as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    let outgoing = OutgoingRequest::new(fields);
    outgoing.set_method(&method(&request.method)).map_err(refused("the method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(refused("the scheme"))?;
    outgoing.set_authority(Some(&request.authority)).map_err(refused("the authority"))?;
    outgoing.set_path_with_query(Some(&request.path)).map_err(refused("the path"))?;
    Ok(outgoing)
}

fn get(authority: &str, path: &str) -> Request {
    Request {
        method: "GET".to_owned(),
        scheme: "http".to_owned(),
        authority: authority.to_owned(),
        path: path.to_owned(),
        body: String::new(),
        fields: Vec::new(),
    }
}

fn stream_error(error: StreamError) -> String {
    match error {
        StreamError::Closed => "closed".to_owned(),
        StreamError::LastOperationFailed(error) => {
            let code = wasip2::http::types::http_error_code(&error);
            code.map_or_else(|| error.to_debug_string(), text)
        }
    }
}

fn answered(future: &FutureIncomingResponse) -> Result<IncomingResponse, String> {
    loop {
        match future.get() {
            Some(Ok(response)) => return response.map_err(text),
            Some(Err(())) => return Err("the answer was taken already".to_owned()),
            None => future.subscribe().block(),
        }
    }
}

fn read(response: &IncomingResponse) -> Result<Vec<u8>, String> {
    let body = response.consume().map_err(refused("the body"))?;
    let stream = body.stream().map_err(refused("the stream"))?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(1 << 20) {
            Ok(more) => bytes.extend(more),
            Err(StreamError::Closed) => return Ok(bytes),
            Err(error) => return Err(stream_error(error)),
        }
    }
}

impl contract::Fetcher for FetcherGrain {
    fn fetch(&mut self, request: Request) -> Result<Answer, String> {
        let outgoing = prepared(&request)?;
        let body = outgoing.body().map_err(refused("the body"))?;
        let future = handle(outgoing, None).map_err(text)?;
        if !request.body.is_empty() {
            let stream = body.write().map_err(refused("the stream"))?;
            stream.blocking_write_and_flush(request.body.as_bytes()).map_err(stream_error)?;
        }
        OutgoingBody::finish(body, None).map_err(text)?;
        let response = answered(&future)?;
        let fields = response.headers().entries();
        let fields =
            fields.into_iter().map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()));
        Ok(Answer {
            status: response.status(),
            fields: fields.collect(),
            body: String::from_utf8_lossy(&read(&response)?).into_owned(),
        })
    }

    #[allow(clippy::needless_collect, reason = "all are under way before the first is awaited")]
    fn fetch_all(&mut self, authority: String, paths: Vec<String>) -> Vec<Result<u16, String>> {
        let started: Vec<_> = paths
            .iter()
            .map(|path| prepared(&get(&authority, path)).and_then(|it| handle(it, None).map_err(text)))
            .collect();
        started
            .into_iter()
            .map(|future| future.and_then(|future| answered(&future)).map(|response| response.status()))
            .collect()
    }

    fn upload(&mut self, authority: String, path: String, bytes: u64) -> Result<String, String> {
        let request = Request { method: "POST".to_owned(), ..get(&authority, &path) };
        let outgoing = prepared(&request)?;
        let body = outgoing.body().map_err(refused("the body"))?;
        let stream = body.write().map_err(refused("the stream"))?;
        for _ in 0..bytes / CHUNK.len() as u64 {
            stream.blocking_write_and_flush(&CHUNK).map_err(stream_error)?;
        }
        drop(stream);
        OutgoingBody::finish(body, None).map_err(text)?;
        let response = answered(&handle(outgoing, None).map_err(text)?)?;
        Ok(String::from_utf8_lossy(&read(&response)?).into_owned())
    }

    fn download(&mut self, authority: String, path: String) -> Result<u64, String> {
        let future = handle(prepared(&get(&authority, &path))?, None).map_err(text)?;
        let response = answered(&future)?;
        let body = response.consume().map_err(refused("the body"))?;
        let stream = body.stream().map_err(refused("the stream"))?;
        let mut bytes = 0;
        loop {
            match stream.blocking_read(1 << 20) {
                Ok(more) => bytes += more.len() as u64,
                Err(StreamError::Closed) => return Ok(bytes),
                Err(error) => return Err(stream_error(error)),
            }
        }
    }

    fn environment(&mut self) -> Vec<(String, String)> {
        std::env::vars().collect()
    }
}
