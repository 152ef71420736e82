//! A client of a gateway that keeps its connection, for calls one after the other.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The longest call; more than a silo's death takes to be noticed.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of one gateway.
#[derive(Debug)]
pub(super) struct Client {
    gateway: SocketAddr,
    agent: ureq::Agent,
}

impl Client {
    /// A client of this gateway; it connects when it calls.
    pub(super) fn new(gateway: SocketAddr) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(CALL_TIMEOUT))
            .max_idle_connections(1)
            .build()
            .new_agent();
        Self { gateway, agent }
    }

    /// Calls a method, and returns its result.
    pub(super) fn call(&mut self, grain: &str, method: &str, arguments: &Value) -> Result<Value> {
        let url = format!("http://{}/v1/grains/{grain}/{method}", self.gateway);
        let mut answer = self
            .agent
            .post(&url)
            .content_type("application/json")
            .send(arguments.to_string())
            .with_context(|| format!("{grain} {method}: no answer"))?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().read_to_string().context("the answer broke off")?;
        if status != 200 {
            bail!("{grain} {method}: status {status}: {body}");
        }
        serde_json::from_str(&body).context("the answer is no JSON")
    }
}
