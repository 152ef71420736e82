//! One delivery of a call as an HTTP exchange: the request, and what each answer means (decision A8: only what
//! provably did not run may be sent again).

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use granary_guest::{CallError, GrainRef};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};

use crate::json::{Json, parse};

/// How much of an error's text is kept, in characters.
const DETAIL_CHARS_MAX: usize = 2_000;

/// The longest wait that a gateway may ask for.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What does not change between the deliveries of a call.
#[derive(Debug)]
pub(crate) struct Attempt {
    path: String,
    body: Bytes,
}

/// The call as a request.
pub(crate) fn request(grain: &GrainRef, method: &str, arguments: &Json) -> Attempt {
    let mut path = String::from("/v1/grains");
    for segment in [&grain.grain_type, &grain.key, method] {
        path.push('/');
        escape(segment, &mut path);
    }
    Attempt { path, body: arguments.to_string().into() }
}

fn escape(segment: &str, path: &mut String) {
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            path.push(char::from(byte));
        } else {
            // Dots too, since a segment of dots alone would be another path.
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

impl Attempt {
    pub(crate) fn request(&self, authority: &str, left: Duration) -> Result<Request<Full<Bytes>>, CallError> {
        let left_ms = left.as_millis().max(1).to_string();
        Request::post(&self.path)
            .header(HOST, authority)
            .header(CONTENT_TYPE, "application/json")
            .header("granary-timeout-ms", left_ms)
            .body(Full::new(self.body.clone()))
            .map_err(|error| CallError::NotFound(format!("the grain cannot be named in a URL: {error}")))
    }
}

/// Why a delivery gave no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It provably did not run, and may be sent again after the wait that the gateway asked for.
    NotRun { error: CallError, wait: Option<Duration> },
    /// It may have run, or a repetition would fail alike.
    Final(CallError),
}

impl Failure {
    pub(crate) fn not_delivered(reason: String) -> Self {
        Self::NotRun { error: CallError::NotDelivered(reason), wait: None }
    }

    pub(crate) fn unknown(reason: String) -> Self {
        Self::Final(CallError::UnknownOutcome(reason))
    }

    pub(crate) fn timed_out() -> Self {
        Self::Final(CallError::TimedOut)
    }

    /// Whether the connection cannot be used again.
    pub(crate) fn is_of_connection(&self) -> bool {
        match self {
            Self::NotRun { error, wait } => matches!(error, CallError::NotDelivered(_)) && wait.is_none(),
            Self::Final(error) => matches!(error, CallError::UnknownOutcome(_)),
        }
    }
}

/// Reads an answer.
pub(crate) async fn answer(response: Response<Incoming>, bytes_max: usize) -> Result<Json, Failure> {
    let status = response.status();
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    let body = body.map_err(|error| {
        // The grain's answer was on its way.
        Failure::unknown(format!("the answer could not be read to its end: {error}"))
    })?;
    let body = body.to_bytes();
    let text = std::str::from_utf8(&body);
    let parsed = text.map_err(|error| error.to_string()).and_then(parse);
    if status == StatusCode::OK {
        return parsed.map_err(|error| Failure::unknown(format!("the answer is no JSON: {error}")));
    }
    Err(Problem::of(status, parsed.ok().as_ref()).failure())
}

/// An `application/problem+json` answer.
#[derive(Debug)]
struct Problem {
    status: StatusCode,
    code: String,
    detail: String,
    retry_after: Option<Duration>,
}

impl Problem {
    fn of(status: StatusCode, body: Option<&Json>) -> Self {
        let members = match body {
            Some(Json::Object(members)) => members.as_slice(),
            _ => &[],
        };
        let find = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, value)| value);
        let text = |name: &str| match find(name) {
            Some(Json::String(text)) => text.chars().take(DETAIL_CHARS_MAX).collect(),
            _ => String::new(),
        };
        let retry_after = match find("retry_after_ms") {
            Some(Json::Number(ms)) => ms.parse().ok().map(Duration::from_millis),
            _ => None,
        };
        let detail = Some(text("detail")).filter(|detail| !detail.is_empty());
        let detail = detail.unwrap_or_else(|| format!("the gateway answered with HTTP status {status}"));
        Self { status, code: text("code"), detail, retry_after }
    }

    fn failure(self) -> Failure {
        let wait = Some(self.retry_after.unwrap_or(Duration::from_millis(100)).min(WAIT_MAX));
        let again = |error| Failure::NotRun { error, wait };
        let Self { status, code, detail, retry_after } = self;
        match code.as_str() {
            "not-delivered" => again(CallError::NotDelivered(without(&detail, "not delivered: "))),
            "overloaded" => {
                let ms = retry_after.map_or(100, |wait| u32::try_from(wait.as_millis()).unwrap_or(u32::MAX));
                again(CallError::Overloaded(ms))
            }
            "fenced" => again(CallError::Fenced),
            // It did not run, and will not until a person does something.
            "quarantined" => Failure::Final(CallError::NotDelivered(detail)),
            "unknown-outcome" => Failure::unknown(without(&detail, "unknown outcome: ")),
            "not-found" => Failure::Final(CallError::NotFound(without(&detail, "not found: "))),
            "incompatible" | "bad-arguments" => {
                Failure::Final(CallError::Incompatible(without(&detail, "incompatible: ")))
            }
            "timed-out" => Failure::timed_out(),
            "failed" => Failure::Final(CallError::Failed(without(&detail, "failed: "))),
            "cancelled" => Failure::Final(CallError::Cancelled),
            "deadlock" => {
                let chain = without(&detail, "deadlock: ");
                Failure::Final(CallError::Deadlock(chain.split(" -> ").map(str::to_owned).collect()))
            }
            // The gateway read the request and refused it before any grain was asked.
            "bad-request"
            | "too-large"
            | "body-timeout"
            | "unauthorized"
            | "forbidden"
            | "method-not-allowed"
            | "unsupported-media-type" => {
                Failure::Final(CallError::NotDelivered(format!("the gateway refused the request: {detail}")))
            }
            _ => Failure::unknown(format!("HTTP status {status}: {detail}")),
        }
    }
}

/// The detail without what [`CallError`] says itself.
fn without(detail: &str, prefix: &str) -> String {
    detail.strip_prefix(prefix).unwrap_or(detail).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, body: &str) -> Failure {
        Problem::of(StatusCode::from_u16(status).unwrap(), parse(body).ok().as_ref()).failure()
    }

    #[test]
    fn only_what_provably_did_not_run_is_sent_again() {
        for code in ["not-delivered", "overloaded", "fenced"] {
            let again = failure(503, &format!(r#"{{"code":"{code}","detail":"x","retry_after_ms":7}}"#));
            let Failure::NotRun { error, wait } = again else { panic!("{again:?}") };
            assert!(error.is_not_run(), "{error:?}");
            assert_eq!(wait, Some(Duration::from_millis(7)));
        }
        let finals =
            ["unknown-outcome", "timed-out", "failed", "cancelled", "unavailable", "internal", "new"];
        for code in finals {
            let found = failure(500, &format!(r#"{{"code":"{code}","detail":"x"}}"#));
            let Failure::Final(error) = found else { panic!("{found:?}") };
            assert!(!error.is_not_run(), "{code}: {error:?}");
        }
        let not_run = [
            "not-found",
            "incompatible",
            "bad-arguments",
            "deadlock",
            "bad-request",
            "too-large",
            "quarantined",
        ];
        for code in not_run {
            let found = failure(400, &format!(r#"{{"code":"{code}","detail":"x"}}"#));
            let Failure::Final(error) = found else { panic!("{found:?}") };
            assert!(error.is_not_run(), "{code}: {error:?}");
        }
    }

    #[test]
    fn an_answer_that_is_no_problem_is_of_unknown_outcome() {
        let Failure::Final(CallError::UnknownOutcome(text)) = failure(502, "<html>") else { panic!() };
        assert!(text.contains("502"), "{text}");
    }

    #[test]
    fn details_are_not_said_twice() {
        let Failure::Final(error) = failure(508, r#"{"code":"deadlock","detail":"deadlock: a/1 -> b/2"}"#)
        else {
            panic!()
        };
        assert_eq!(error, CallError::Deadlock(vec!["a/1".to_owned(), "b/2".to_owned()]));
    }

    #[test]
    fn names_are_escaped_so_that_each_is_one_segment() {
        let grain = GrainRef::new("account", "../a b/ü");
        let attempt = request(&grain, "acme:bank/account.deposit", &Json::Array(vec![]));
        assert_eq!(
            attempt.path,
            "/v1/grains/account/%2E%2E%2Fa%20b%2F%C3%BC/acme%3Abank%2Faccount%2Edeposit"
        );
    }
}
