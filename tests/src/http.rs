//! HTTP against one edge of a silo.

use std::time::Duration;

use serde_json::Value;

/// One edge. Connections are not reused, so that each request says something about the edge as it is now.
#[derive(Debug, Clone)]
pub struct Http {
    base: String,
    agent: ureq::Agent,
}

/// An answer: status and JSON body, `null` where the body is no JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// The body of a successful answer.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body
    }

    /// The problem's code.
    #[must_use]
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// The problem's detail.
    #[must_use]
    pub fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap_or_default()
    }
}

impl Http {
    /// A client that keeps up to one idle connection, for loops of calls.
    #[must_use]
    pub fn keeping(address: &str) -> Self {
        Self::with(address, 1)
    }

    #[must_use]
    pub fn new(address: &str) -> Self {
        Self::with(address, 0)
    }

    fn with(address: &str, idle_max: usize) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .max_idle_connections(idle_max)
            .build()
            .new_agent();
        Self { base: format!("http://{address}"), agent }
    }

    /// Sends a GET; `Err` when there was no answer at all.
    ///
    /// # Errors
    /// The transport's error, as text.
    pub fn get(&self, path: &str) -> Result<Answer, String> {
        read(self.agent.get(format!("{}{path}", self.base)).call())
    }

    /// Sends a GET whose answer is text.
    ///
    /// # Errors
    /// Says why when no answer came.
    pub fn text(&self, path: &str) -> Result<String, String> {
        let sent = self.agent.get(format!("{}{path}", self.base)).call();
        sent.and_then(|mut response| response.body_mut().read_to_string()).map_err(|error| error.to_string())
    }

    /// Sends a POST.
    ///
    /// # Errors
    /// The transport's error, as text.
    pub fn post(&self, path: &str, body: &[u8]) -> Result<Answer, String> {
        read(self.agent.post(format!("{}{path}", self.base)).content_type("application/json").send(body))
    }

    /// Sends a POST to a grain, with a deadline in milliseconds.
    ///
    /// # Errors
    /// The transport's error, as text.
    pub fn post_within(&self, path: &str, body: &[u8], timeout_ms: u64) -> Result<Answer, String> {
        let request = self.agent.post(format!("{}{path}", self.base)).content_type("application/json");
        read(request.header("granary-timeout-ms", timeout_ms.to_string()).send(body))
    }

    /// Calls a grain with a JSON array of arguments.
    ///
    /// # Errors
    /// The transport's error, as text.
    pub fn call(&self, grain: &str, method: &str, arguments: &Value) -> Result<Answer, String> {
        self.post(&format!("/v1/grains/{grain}/{method}"), arguments.to_string().as_bytes())
    }
}

fn read(sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, String> {
    let mut response = sent.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
    Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::Null) })
}
