//! `POST /v1/grains/{type}/{key}/{method}`: one call of a grain.

use std::time::Duration;

use bytes::Bytes;
use granary_core::hosting::TextFormat;
use granary_core::id::{GrainId, GrainType};
use hyper::header::{CONTENT_TYPE, HeaderMap};

use crate::problem::Problem;
use crate::{Backend, EdgeCall};

/// How long a call may take when the caller does not say; default of spec 8.1.
const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The longest time a caller may ask for.
const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// The media type of WAVE arguments and results.
pub(crate) const WAVE_TYPE: &str = "text/x-wave";

/// A call's result, with its media type.
pub(crate) struct CallResult {
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

/// Calls the grain named by the path.
pub(crate) async fn call(
    backend: &dyn Backend,
    (grain_type, key, method): (&str, &str, &str),
    headers: &HeaderMap,
    body: Bytes,
) -> Result<CallResult, Problem> {
    let format = format_of(headers)?;
    let grain_type = GrainType::new(grain_type).map_err(|error| Problem::not_found(error.to_string()))?;
    let grain = GrainId::new(grain_type, key).map_err(|error| Problem::bad_request(error.to_string()))?;
    let arguments = String::from_utf8(body.into())
        .map_err(|error| Problem::bad_request(format!("the body is not UTF-8: {error}")))?;
    let call = EdgeCall {
        grain,
        method: method.to_owned(),
        format,
        arguments,
        timeout: timeout_of(headers)?,
        trace_parent: text(headers, "traceparent").map(str::to_owned),
    };
    let body = backend.call(call).await?;
    let content_type = match format {
        TextFormat::Json => "application/json",
        TextFormat::Wave => WAVE_TYPE,
    };
    Ok(CallResult { content_type, body })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn format_of(headers: &HeaderMap) -> Result<TextFormat, Problem> {
    let Some(value) = text(headers, CONTENT_TYPE.as_str()) else { return Ok(TextFormat::Json) };
    match value.split(';').next().unwrap_or_default().trim() {
        // What `curl -d` sends when it is told nothing.
        "" | "application/json" | "application/x-www-form-urlencoded" => Ok(TextFormat::Json),
        WAVE_TYPE => Ok(TextFormat::Wave),
        other => Err(Problem::new(
            hyper::StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            format!("the arguments are application/json or {WAVE_TYPE}, not {}", other.escape_debug()),
        )),
    }
}

fn timeout_of(headers: &HeaderMap) -> Result<Duration, Problem> {
    let Some(value) = text(headers, "granary-timeout-ms") else { return Ok(CALL_TIMEOUT_DEFAULT) };
    match value.parse::<u64>() {
        Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms).min(CALL_TIMEOUT_MAX)),
        _ => Err(Problem::bad_request(format!(
            "granary-timeout-ms is a positive number of milliseconds, not {}",
            value.escape_debug()
        ))),
    }
}
