//! The client of the admin API that all client verbs share.

use std::time::Duration;

use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::{CliError, Target};
use crate::exit_code;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// One silo's admin API.
#[derive(Debug)]
pub(crate) struct Client {
    base: String,
    agent: ureq::Agent,
    /// The value of the `authorization` header.
    authorization: Option<ureq::http::HeaderValue>,
}

/// A request body with its media type.
pub(crate) struct Body<'a> {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: &'a [u8],
}

impl Client {
    pub(crate) fn new(target: &Target) -> Result<Self, CliError> {
        Self::with_timeout(target, Duration::from_secs(60))
    }

    pub(crate) fn with_timeout(target: &Target, timeout: Duration) -> Result<Self, CliError> {
        let base = target.admin.trim_end_matches('/');
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let secure = base.starts_with("https://");
        if !secure && !base.starts_with("http://") {
            return Err(CliError::new(
                exit_code::CONFIG,
                format!(
                    "--admin is an http or https URL, such as http://127.0.0.1:11112, not {}",
                    target.admin
                ),
            ));
        }
        let mut builder = ureq::Agent::config_builder();
        if secure {
            builder = builder.tls_config(trust(target)?);
        }
        let agent = builder
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_global(Some(timeout))
            .max_idle_connections(0)
            .build()
            .new_agent();
        Ok(Self { base, agent, authorization: authorization(target)? })
    }

    /// Reads a JSON document.
    pub(crate) fn get(&self, path: &str) -> Result<Value, CliError> {
        self.json(self.allowed(self.agent.get(self.url(path))).call())
    }

    /// Deletes, and reads the JSON answer.
    pub(crate) fn delete(&self, path: &str) -> Result<Value, CliError> {
        self.json(self.allowed(self.agent.delete(self.url(path))).call())
    }

    /// Posts, and reads the JSON answer.
    pub(crate) fn post(&self, path: &str, bytes: &[u8]) -> Result<Value, CliError> {
        let request = self.allowed(self.agent.post(self.url(path)));
        self.json(request.content_type("application/octet-stream").send(bytes))
    }

    /// Posts a component, with the values of its environment if there are some.
    pub(crate) fn deploy(&self, path: &str, env: &str, bytes: &[u8]) -> Result<Value, CliError> {
        let mut request = self.allowed(self.agent.post(self.url(path)));
        if !env.is_empty() {
            request = request.header("granary-env", env);
        }
        self.json(request.content_type("application/octet-stream").send(bytes))
    }

    /// Calls a grain, and gives the answer's text.
    pub(crate) fn call(&self, path: &str, body: &Body<'_>, timeout_ms: u64) -> Result<String, CliError> {
        let sent = self
            .allowed(self.agent.post(self.url(path)))
            .content_type(body.content_type)
            .header("granary-timeout-ms", timeout_ms.to_string())
            .send(body.bytes);
        self.text(sent)
    }

    /// A request with the token, if there is one.
    fn allowed<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn json(&self, sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, CliError> {
        let text = self.text(sent)?;
        serde_json::from_str(&text).map_err(|error| {
            CliError::new(
                exit_code::INTERNAL,
                format!("{} answered something that is not JSON: {error}", self.base),
            )
        })
    }

    fn text(&self, sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<String, CliError> {
        let mut response = sent.map_err(|error| self.no_answer(&error))?;
        let status = response.status().as_u16();
        let text =
            response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(|error| {
                CliError::new(exit_code::UNAVAILABLE, format!("{} broke off its answer: {error}", self.base))
            })?;
        if status < 300 { Ok(text) } else { Err(problem(status, &text)) }
    }
}

impl Client {
    fn no_answer(&self, error: &ureq::Error) -> CliError {
        match error {
            ureq::Error::Timeout(which) if *which != ureq::Timeout::Connect => CliError::new(
                exit_code::FAILED,
                format!("{} did not answer in time; what was asked may have happened", self.base),
            ),
            ureq::Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
                let why = granary_tls::explain_io(error);
                CliError::new(exit_code::UNAVAILABLE, format!("TLS with {} failed: {why}", self.base))
            }
            error => CliError::new(
                exit_code::UNAVAILABLE,
                format!(
                    "no silo answers at {}: {error}\nstart one with `granary silo`, or name another with --admin or \
                     GRANARY_URL",
                    self.base
                ),
            ),
        }
    }
}

/// What an https URL needs: the CAs of `--ca-file`, and no others.
fn trust(target: &Target) -> Result<TlsConfig, CliError> {
    let config = |message: String| CliError::new(exit_code::CONFIG, message);
    let Some(path) = &target.ca_file else {
        return Err(config(format!(
            "{} needs --ca-file FILE (or GRANARY_CA_FILE) with the CA of the silo's certificate",
            target.admin
        )));
    };
    let roots = granary_tls::read_certificates(path).map_err(|error| config(error.to_string()))?;
    let roots: Vec<_> = roots.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(granary_tls::provider())
        .build())
}

/// The token of `--token-file`, else that of `GRANARY_TOKEN`.
fn authorization(target: &Target) -> Result<Option<ureq::http::HeaderValue>, CliError> {
    let (token, from) = match &target.token_file {
        Some(path) => {
            let token = std::fs::read_to_string(path).map_err(|error| {
                let path = path.display();
                CliError::new(exit_code::CONFIG, format!("the token file {path} cannot be read: {error}"))
            })?;
            (token, path.display().to_string())
        }
        None => match std::env::var("GRANARY_TOKEN") {
            Ok(token) => (token, "GRANARY_TOKEN".to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(CliError::new(exit_code::CONFIG, format!("GRANARY_TOKEN: {error}"))),
        },
    };
    bearer(&token, &from).map(Some)
}

/// The header's value, which is never printed.
fn bearer(token: &str, from: &str) -> Result<ureq::http::HeaderValue, CliError> {
    let wrong = |what: &str| CliError::new(exit_code::CONFIG, format!("the token in {from} {what}"));
    let token = token.trim();
    if token.is_empty() {
        return Err(wrong("is empty"));
    }
    let value = ureq::http::HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| wrong("holds characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Turns a problem reply into a message and an exit code.
fn problem(status: u16, text: &str) -> CliError {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let detail = body.get("detail").and_then(Value::as_str);
    let message = detail
        .map_or_else(|| format!("the silo answered with HTTP status {status}"), |detail| detail.to_owned());
    let code = match (status, body.get("code").and_then(Value::as_str).unwrap_or_default()) {
        (401 | 403, _) => exit_code::NOT_PERMITTED,
        (_, "unknown-outcome" | "failed" | "deadlock" | "cancelled" | "timed-out" | "quarantined") => {
            exit_code::FAILED
        }
        (503 | 429 | 504, _) => exit_code::TEMPORARY,
        (400..=499, _) => exit_code::DATA,
        (_, "internal") => exit_code::INTERNAL,
        _ => exit_code::FAILED,
    };
    CliError::new(code, message)
}

/// Escapes one segment of a URL's path.
pub(crate) fn escape(segment: &str) -> String {
    use std::fmt::Write as _;

    let mut escaped = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// A grain named on the command line as `TYPE/KEY`: its path below a collection, escaped.
pub(crate) fn grain_path(grain: &str) -> Result<String, CliError> {
    let grain: granary_core::id::GrainId = grain.parse().map_err(|error: granary_core::id::IdError| {
        CliError::data(format!("{error}; an example is counter/alice"))
    })?;
    Ok(format!("{}/{}", escape(grain.grain_type().as_str()), escape(grain.key())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_slashes_as_one_segment() {
        assert_eq!(grain_path("counter/a/b c").unwrap(), "counter/a%2Fb%20c");
        assert_eq!(grain_path("counter").unwrap_err().code, exit_code::DATA);
    }

    #[test]
    fn a_token_is_trimmed_checked_and_not_printed() {
        let value = bearer(" 0123456789abcdef\n", "file").unwrap();
        assert_eq!(value, "Bearer 0123456789abcdef");
        assert!(!format!("{value:?}").contains("0123"), "{value:?}");
        assert_eq!(bearer("\n", "file").unwrap_err().message, "the token in file is empty");
        assert_eq!(bearer("a\nb", "file").unwrap_err().code, exit_code::CONFIG);
    }

    #[test]
    fn problems_become_exit_codes() {
        let code =
            |status, code: &str| problem(status, &format!("{{\"code\":\"{code}\",\"detail\":\"x\"}}")).code;
        assert_eq!(code(400, "bad-arguments"), exit_code::DATA);
        assert_eq!(code(404, "not-found"), exit_code::DATA);
        assert_eq!(code(503, "overloaded"), exit_code::TEMPORARY);
        assert_eq!(code(500, "failed"), exit_code::FAILED);
        assert_eq!(code(508, "deadlock"), exit_code::FAILED);
        assert_eq!(problem(500, "not json").code, exit_code::FAILED);
    }
}
