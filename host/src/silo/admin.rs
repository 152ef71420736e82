//! The admin API: what it answers itself, and what it asks of the silo that knows.

mod listings;

use std::time::Duration;

use granary_core::hosting::CallError;
use granary_core::id::{GrainId, SiloAddress};
use granary_grains::{MigrateError, MigrateTarget};
use granary_http::{AdminRequest, Listing, Problem, WantedGrants};
use granary_wasm::Grants;
use granary_wasm::grants::HttpGrant;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::deployments::{DeployError, DeployRequest};
use super::parts::Parts;

/// How long another silo may take for a question that it answers from memory.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a migration may take, seen from the silo that was asked for it.
const MIGRATE_TIMEOUT: Duration = Duration::from_secs(90);

/// How long the directory may take to say where a grain is.
const LOCATE_TIMEOUT: Duration = Duration::from_secs(10);

/// A question that one silo passes on to the silo that can answer it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum SiloQuestion {
    Activations,
    Load,
    Describe(GrainId),
    Logs(GrainId, usize),
    Migrate(GrainId, String),
    Drain,
}

/// Serves one request of the admin API.
pub(crate) async fn serve(parts: &Parts, request: AdminRequest) -> Result<Value, Problem> {
    match request {
        AdminRequest::List(Listing::Silos) => Ok(listings::silos(parts)),
        AdminRequest::List(Listing::Grains) => listings::grains(parts).await,
        AdminRequest::List(Listing::Activations) => listings::activations(parts).await,
        AdminRequest::List(Listing::Deployments) => listings::deployments(parts).await,
        AdminRequest::List(Listing::Load) => Ok(listings::load(parts).await),
        AdminRequest::Describe(grain) => describe(parts, grain).await,
        AdminRequest::Deploy { name, component, force, properties, grants } => {
            let properties = properties.into_iter().collect();
            let grants = granted(grants)?;
            let request = DeployRequest { name, component, force, properties, grants };
            let report = parts.deployments.deploy(request).await?;
            serde_json::to_value(report).map_err(|error| internal(&error))
        }
        AdminRequest::Undeploy { grain_type } => {
            parts.deployments.undeploy(&grain_type).await?;
            Ok(json!({ "type": grain_type }))
        }
        AdminRequest::Release { grain_type } => {
            parts.deployments.release(&grain_type).await?;
            Ok(json!({ "type": grain_type }))
        }
        AdminRequest::Migrate { grain, to } => migrate(parts, grain, to).await,
        AdminRequest::Drain { silo } => drain(parts, &silo).await,
        AdminRequest::Logs { grain, lines } => {
            let rows = listings::logs(parts, grain.clone(), lines).await?;
            // Lines outlive their type; without any, an unknown type is more likely a mistake.
            if rows.as_array().is_none_or(Vec::is_empty) {
                known_type(parts, &grain)?;
            }
            Ok(rows)
        }
        AdminRequest::Manifest => Ok(listings::manifests(parts)),
    }
}

/// The grants of a deploy, checked.
fn granted(wanted: WantedGrants) -> Result<Grants, Problem> {
    let hosts: Result<Vec<HttpGrant>, _> = wanted.http.iter().map(|host| host.parse()).collect();
    let hosts = hosts.map_err(|error| Problem::bad_request(error.to_string()))?;
    Grants::new(wanted.env, hosts, wanted.http_private)
        .map_err(|error| Problem::bad_request(error.to_string()))
}

/// Answers a question that another silo passed on: HTTP status and JSON body.
pub(crate) async fn answer(parts: &Parts, question: &[u8]) -> (u16, Vec<u8>) {
    let result = match serde_json::from_slice(question) {
        Ok(question) => answer_here(parts, question).await,
        Err(error) => Err(Problem::bad_request(format!("the other silo's question does not parse: {error}"))),
    };
    match result {
        Ok(value) => (200, value.to_string().into_bytes()),
        Err(problem) => (problem.status, serde_json::to_vec(&problem).unwrap_or_default()),
    }
}

async fn answer_here(parts: &Parts, question: SiloQuestion) -> Result<Value, Problem> {
    match question {
        SiloQuestion::Activations => Ok(listings::activations_here(parts)),
        SiloQuestion::Load => Ok(listings::load_here(parts)),
        SiloQuestion::Describe(grain) => Ok(listings::describe_here(parts, &grain)),
        SiloQuestion::Logs(grain, lines) => Ok(listings::logs_here(parts, &grain, lines)),
        SiloQuestion::Migrate(grain, to) => migrate_here(parts, &grain, to).await,
        SiloQuestion::Drain => {
            parts.stop_asked.cancel();
            Ok(json!({ "silo": parts.name, "detail": "draining; it stops when it is empty" }))
        }
    }
}

/// Asks a silo, which may be this one.
pub(crate) async fn ask(
    parts: &Parts,
    silo: SiloAddress,
    question: SiloQuestion,
    timeout: Duration,
) -> Result<Value, Problem> {
    if silo == parts.me {
        return answer_here(parts, question).await;
    }
    let body = serde_json::to_vec(&question).map_err(|error| internal(&error))?;
    let (status, body) =
        parts.peers.admin(silo, "question".to_owned(), body, timeout).await.map_err(|error| {
            Problem::unavailable(format!("silo {} does not answer: {error}", parts.name_of(silo)))
        })?;
    let value: Value = serde_json::from_slice(&body).map_err(|error| internal(&error))?;
    if status < 300 {
        return Ok(value);
    }
    let detail = value.get("detail").and_then(Value::as_str).unwrap_or("it failed there").to_owned();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    Err(Problem::new(status, code_of(status), detail))
}

/// The code of a problem that another silo reported.
fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "bad-request",
        422 => "bad-component",
        504 => "timed-out",
        404 => "not-found",
        409 => "conflict",
        503 => "unavailable",
        _ => "internal",
    }
}

pub(crate) fn internal(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
}

/// Fails for a grain whose type is not deployed.
fn known_type(parts: &Parts, grain: &GrainId) -> Result<(), Problem> {
    if let Some(why) = granary_grains::Types::quarantined(&*parts.registry, grain.grain_type()) {
        return Err(CallError::Quarantined(why).into());
    }
    match granary_grains::Types::class(&*parts.registry, grain.grain_type()) {
        Some(_) => Ok(()),
        None => Err(Problem::not_found(listings::unknown_type(parts, grain.grain_type().as_str()))),
    }
}

/// The newest silo of that name.
fn silo_named(parts: &Parts, name: &str) -> Result<SiloAddress, Problem> {
    parts.view().by_name(name).ok_or_else(|| {
        let names = listings::silo_names(parts);
        Problem::not_found(format!("no silo is named {}; there are {names}", name.escape_debug()))
    })
}

/// The silo on which a grain is active.
async fn locate(parts: &Parts, grain: &GrainId) -> Result<Option<SiloAddress>, Problem> {
    parts.grains.locate(grain, LOCATE_TIMEOUT).await.map_err(|error| Problem::unavailable(error.to_string()))
}

async fn describe(parts: &Parts, grain: GrainId) -> Result<Value, Problem> {
    known_type(parts, &grain)?;
    match locate(parts, &grain).await? {
        Some(silo) => ask(parts, silo, SiloQuestion::Describe(grain), ASK_TIMEOUT).await,
        None => Ok(listings::inactive(&grain)),
    }
}

async fn migrate(parts: &Parts, grain: GrainId, to: String) -> Result<Value, Problem> {
    known_type(parts, &grain)?;
    silo_named(parts, &to)?;
    match locate(parts, &grain).await? {
        Some(silo) => {
            let question = SiloQuestion::Migrate(grain.clone(), to);
            let answer = ask(parts, silo, question.clone(), MIGRATE_TIMEOUT).await;
            // The grain may have moved by itself between the two questions: then ask its new silo, once.
            match (&answer, locate(parts, &grain).await) {
                (Err(problem), Ok(Some(now))) if problem.status == 404 && now != silo => {
                    ask(parts, now, question, MIGRATE_TIMEOUT).await
                }
                _ => answer,
            }
        }
        None => Err(Problem::not_found(format!(
            "{grain} is not active, so there is nothing to move: call it first"
        ))),
    }
}

async fn migrate_here(parts: &Parts, grain: &GrainId, to: String) -> Result<Value, Problem> {
    let report =
        parts.grains.migrate(grain, MigrateTarget::Name(to.clone())).await.map_err(migrate_problem)?;
    let moved = report.from != report.to;
    Ok(json!({
        "grain": grain.to_string(),
        "from": parts.name_of(report.from),
        "to": if moved { parts.name_of(report.to) } else { to },
        "moved": moved,
        "bytes": report.bytes,
        "pause_ms": report.pause.as_secs_f64() * 1_000.0,
    }))
}

fn migrate_problem(error: MigrateError) -> Problem {
    let text = error.to_string();
    match error {
        MigrateError::UnknownSilo(_) | MigrateError::NotHere(_) => Problem::not_found(text),
        MigrateError::Immovable(_)
        | MigrateError::NotServed { .. }
        | MigrateError::GrainRefused(_)
        | MigrateError::TooLarge { .. } => Problem::new(StatusCode::CONFLICT, "conflict", text),
        _ => Problem::unavailable(text),
    }
}

async fn drain(parts: &Parts, name: &str) -> Result<Value, Problem> {
    ask(parts, silo_named(parts, name)?, SiloQuestion::Drain, ASK_TIMEOUT).await
}

impl From<DeployError> for Problem {
    fn from(error: DeployError) -> Self {
        let text = error.to_string();
        match error {
            DeployError::Component(_) | DeployError::BadComponent(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-component", text)
            }
            DeployError::Conflict(_) => Self::new(StatusCode::CONFLICT, "conflict", text),
            DeployError::NotFound(_) => Self::not_found(text),
            DeployError::Store(_) | DeployError::Unavailable(_) => Self::unavailable(text),
        }
    }
}
