//! The admin API's routes: what each path and method means as an [`AdminRequest`].

use bytes::Bytes;
use granary_core::id::{GrainId, GrainType};
use hyper::{HeaderMap, Method};

use crate::problem::Problem;
use crate::{AdminRequest, Listing, WantedGrants, routes};

/// The header of a deploy with values of the environment, as `NAME=VALUE&NAME=VALUE`, percent-encoded.
const ENV_HEADER: &str = "granary-env";

/// How many log lines are given when the request does not say.
const LOG_LINES_DEFAULT: usize = 200;

/// Reads a request; `None` when no route has that path and method.
pub(crate) fn request(
    method: &Method,
    segments: &[&str],
    query: &[(String, String)],
    headers: &HeaderMap,
    body: Bytes,
) -> Option<Result<AdminRequest, Problem>> {
    let request = match (method, segments) {
        (&Method::GET, ["v1", "silos"]) => Ok(AdminRequest::List(Listing::Silos)),
        (&Method::GET, ["v1", "grains"]) => Ok(AdminRequest::List(Listing::Grains)),
        (&Method::GET, ["v1", "activations"]) => Ok(AdminRequest::List(Listing::Activations)),
        (&Method::GET, ["v1", "deployments"]) => Ok(AdminRequest::List(Listing::Deployments)),
        (&Method::GET, ["v1", "load"]) => Ok(AdminRequest::List(Listing::Load)),
        (&Method::POST, ["v1", "deployments"]) => deploy(query, headers, body),
        (&Method::DELETE, ["v1", "deployments", grain_type]) => {
            Ok(AdminRequest::Undeploy { grain_type: (*grain_type).to_owned() })
        }
        (&Method::DELETE, ["v1", "deployments", grain_type, "quarantine"]) => {
            Ok(AdminRequest::Release { grain_type: (*grain_type).to_owned() })
        }
        (&Method::GET, ["v1", "activations", grain_type, key]) => {
            grain(grain_type, key).map(AdminRequest::Describe)
        }
        (&Method::POST, ["v1", "activations", grain_type, key, "migrate"]) => migrate(grain_type, key, query),
        (&Method::POST, ["v1", "silos", silo, "drain"]) => {
            Ok(AdminRequest::Drain { silo: (*silo).to_owned() })
        }
        (&Method::GET, ["v1", "logs", grain_type, key]) => logs(grain_type, key, query),
        (&Method::GET, ["v1", "manifest"]) => Ok(AdminRequest::Manifest),
        _ => return None,
    };
    Some(request)
}

fn grain(grain_type: &str, key: &str) -> Result<GrainId, Problem> {
    let grain_type = GrainType::new(grain_type).map_err(|error| Problem::not_found(error.to_string()))?;
    GrainId::new(grain_type, key).map_err(|error| Problem::bad_request(error.to_string()))
}

fn one<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn deploy(query: &[(String, String)], headers: &HeaderMap, body: Bytes) -> Result<AdminRequest, Problem> {
    let mut properties = Vec::new();
    let mut grants = WantedGrants { env: environment(headers)?, ..WantedGrants::default() };
    for (key, value) in query {
        match key.as_str() {
            "name" | "force" => {}
            "allow-http" => grants.http.push(value.clone()),
            "allow-http-private" => grants.http_private = value == "true" || value.is_empty(),
            "property" => match value.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    properties.push((name.to_owned(), value.to_owned()))
                }
                _ => return Err(Problem::bad_request("a property is NAME=VALUE")),
            },
            other => return Err(Problem::bad_request(format!("unknown query key {}", other.escape_debug()))),
        }
    }
    Ok(AdminRequest::Deploy {
        name: one(query, "name").unwrap_or("component.wasm").chars().take(200).collect(),
        component: body.into(),
        force: one(query, "force").is_some_and(|value| value == "true" || value.is_empty()),
        properties,
        grants,
    })
}

/// The values of the environment: not in the query, since URLs get into the logs of proxies.
fn environment(headers: &HeaderMap) -> Result<Vec<(String, String)>, Problem> {
    let mut env = Vec::new();
    for header in headers.get_all(ENV_HEADER) {
        let text = header.to_str().map_err(|_| Problem::bad_request(format!("{ENV_HEADER} is no text")))?;
        env.extend(routes::query(Some(text))?);
    }
    Ok(env)
}

fn migrate(grain_type: &str, key: &str, query: &[(String, String)]) -> Result<AdminRequest, Problem> {
    let grain = grain(grain_type, key)?;
    let to = one(query, "to").ok_or_else(|| Problem::bad_request("say where to: ?to=SILO"))?;
    Ok(AdminRequest::Migrate { grain, to: to.to_owned() })
}

fn logs(grain_type: &str, key: &str, query: &[(String, String)]) -> Result<AdminRequest, Problem> {
    let grain = grain(grain_type, key)?;
    let lines = match one(query, "lines") {
        None => LOG_LINES_DEFAULT,
        Some(text) => {
            text.parse().map_err(|_| Problem::bad_request("lines is a number, such as ?lines=100"))?
        }
    };
    Ok(AdminRequest::Logs { grain, lines })
}
