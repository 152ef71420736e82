//! The HTTP edges of a silo: the gateway, where programs call grains, and the admin API with health and metrics.
//!
//! This crate owns routes, limits, status codes and the shape of errors. What a request means is the
//! [`Backend`]'s: the silo implements it.

mod access;
mod admin;
mod gateway;
mod problem;
mod routes;
mod secure;
mod server;

use granary_core::hosting::{BoxFuture, CallError, TextFormat};
use granary_core::id::GrainId;
use std::sync::Arc;
use std::time::Duration;

pub use crate::access::{AdminToken, TOKEN_BYTES_MAX, TOKEN_BYTES_MIN, TokenError};
pub use crate::problem::Problem;
pub use crate::server::{EdgeAccess, EdgeKind, EdgeLimits, EdgeServer, EdgeStats};

/// A call from outside, still as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeCall {
    pub grain: GrainId,
    /// `method`, `interface.method` or `ns:pkg/interface.method`.
    pub method: String,
    pub format: TextFormat,
    pub arguments: String,
    /// How long the caller waits.
    pub timeout: Duration,
    pub trace_parent: Option<String>,
}

/// Why a call from outside failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeCallError {
    /// The arguments do not fit the method: a path into them, and what is expected there.
    Arguments { path: String, message: String },
    /// Anything that a grain's caller can meet as well.
    Call(CallError),
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    Silos,
    Grains,
    Activations,
    Deployments,
    /// What each silo does, in numbers.
    Load,
}

/// What a deploy wants to be granted, not checked yet.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WantedGrants {
    /// Values of the environment, which may be secrets.
    pub env: Vec<(String, String)>,
    /// Hosts for outgoing requests.
    pub http: Vec<String>,
    /// Whether these may be at private addresses.
    pub http_private: bool,
}

impl std::fmt::Debug for WantedGrants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.env.iter().map(|(name, _)| name).collect();
        let mut shown = f.debug_struct("WantedGrants");
        shown
            .field("env", &names)
            .field("http", &self.http)
            .field("http_private", &self.http_private)
            .finish()
    }
}

/// A request to the admin API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminRequest {
    List(Listing),
    /// One grain: where it is active, and how it does.
    Describe(GrainId),
    /// A component's bytes, to be deployed.
    Deploy {
        name: String,
        component: Vec<u8>,
        force: bool,
        properties: Vec<(String, String)>,
        grants: WantedGrants,
    },
    Undeploy {
        grain_type: String,
    },
    /// Lets a component run again that is in quarantine.
    Release {
        grain_type: String,
    },
    Migrate {
        grain: GrainId,
        to: String,
    },
    /// Empties and stops a silo, by name.
    Drain {
        silo: String,
    },
    /// The last lines that a grain logged.
    Logs {
        grain: GrainId,
        lines: usize,
    },
    /// The manifests, as each silo publishes them.
    Manifest,
}

/// What stands behind the edges.
pub trait Backend: Send + Sync + 'static {
    /// Calls a grain; `Ok` holds the result in the call's format.
    fn call(&self, call: EdgeCall) -> BoxFuture<'_, Result<String, EdgeCallError>>;

    /// Serves the admin API; the value is the JSON body.
    fn admin(&self, request: AdminRequest) -> BoxFuture<'_, Result<serde_json::Value, Problem>>;

    /// `Ok` when the silo takes calls, else the reasons why not.
    fn ready(&self) -> Result<(), Vec<String>>;

    /// The metrics as OpenMetrics text.
    fn metrics(&self) -> String;

    /// The HTTP API of the deployed grains, as an OpenAPI document.
    fn openapi(&self) -> Arc<str>;

    /// Name and versions, as JSON.
    fn version(&self) -> serde_json::Value;
}
