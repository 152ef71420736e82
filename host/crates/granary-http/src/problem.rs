//! Errors as `application/problem+json` with a stable code (`docs/errors.md` has a line for each).

use granary_core::hosting::CallError;
use hyper::StatusCode;
use serde::Serialize;

use crate::EdgeCallError;

/// An error as the HTTP edges show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Stable, for programs: `not-found`, `bad-arguments`, ….
    pub code: &'static str,
    /// What was wrong, where, and what would be right.
    pub detail: String,
    /// Where in the request, when that can be said: `$[0].items[3]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
}

impl Problem {
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status: status.as_u16(), code, detail: detail.into(), path: None, retry_after_ms: None }
    }

    #[must_use]
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    #[must_use]
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let (status, code) = match &error {
            CallError::NotDelivered(_) => (StatusCode::SERVICE_UNAVAILABLE, "not-delivered"),
            CallError::UnknownOutcome(_) => (StatusCode::BAD_GATEWAY, "unknown-outcome"),
            CallError::Overloaded { .. } => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            CallError::NotFound(_) => (StatusCode::NOT_FOUND, "not-found"),
            CallError::Incompatible(_) => (StatusCode::CONFLICT, "incompatible"),
            CallError::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "timed-out"),
            CallError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
            CallError::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "cancelled"),
            CallError::Deadlock(_) => (StatusCode::LOOP_DETECTED, "deadlock"),
            CallError::Fenced => (StatusCode::SERVICE_UNAVAILABLE, "fenced"),
            CallError::Quarantined(_) => (StatusCode::SERVICE_UNAVAILABLE, "quarantined"),
        };
        let mut problem = Self::new(status, code, error.to_string());
        problem.retry_after_ms = match error {
            CallError::Overloaded { retry_after_ms } => Some(retry_after_ms),
            CallError::NotDelivered(_) | CallError::Fenced => Some(1_000),
            _ => None,
        };
        problem
    }
}

impl From<EdgeCallError> for Problem {
    fn from(error: EdgeCallError) -> Self {
        match error {
            EdgeCallError::Call(error) => error.into(),
            EdgeCallError::Arguments { path, message } => {
                let mut problem =
                    Self::new(StatusCode::BAD_REQUEST, "bad-arguments", format!("{path}: {message}"));
                problem.path = Some(path);
                problem
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overload_says_when_to_come_back() {
        let problem = Problem::from(CallError::Overloaded { retry_after_ms: 250 });
        assert_eq!((problem.status, problem.code, problem.retry_after_ms), (503, "overloaded", Some(250)));
    }

    #[test]
    fn ill_typed_arguments_name_the_place() {
        let problem = Problem::from(EdgeCallError::Arguments {
            path: "$[0]".to_owned(),
            message: "expected u64, found a string".to_owned(),
        });
        assert_eq!(problem.status, 400);
        assert_eq!(problem.detail, "$[0]: expected u64, found a string");
        assert_eq!(problem.path.as_deref(), Some("$[0]"));
    }
}
