//! The HTTP API of the grains that this silo serves, as OpenAPI 3.1. It is made from the types of the deployed
//! components alone, whose binaries keep no comments; descriptions are the methods' signatures in WIT.
//!
//! The document is made again when the deployed types change, and not for each reader.

mod schema;

use std::collections::BTreeMap;

use granary_core::hosting::ClassInfo;
use granary_wit::{Interface, Signature};
use serde_json::{Map, Value, json};

use schema::{Direction, schema};

/// How many type nodes are described in one document; methods beyond that are listed with their signature alone.
const TYPE_NODES_MAX: usize = 200_000;

/// Statuses that a call may be answered with, and what they mean; `docs/errors.md` has the codes.
const PROBLEMS: [(&str, &str); 8] = [
    ("400", "The request or an argument is wrong; `path` says where."),
    ("404", "The grain type, interface or method does not exist."),
    ("409", "Caller and callee disagree about the method's type."),
    ("413", "The body is too large."),
    ("500", "The grain trapped or could not be activated."),
    ("503", "Nothing ran; `Retry-After` says when to call again."),
    ("504", "The deadline passed; the call may have run."),
    ("default", "Any other problem; `code` says which."),
];

/// One deployed type: what it is, and the types of its methods.
pub(crate) struct DescribedType<'a> {
    pub(crate) info: &'a ClassInfo,
    pub(crate) interfaces: &'a [Interface],
}

/// The document.
pub(crate) fn document<'a>(types: impl Iterator<Item = DescribedType<'a>>) -> Value {
    let mut paths = Map::new();
    let mut tags = Vec::new();
    let mut nodes_left = TYPE_NODES_MAX;
    for described in types {
        tags.push(tag(&described));
        for (interface, name, address) in methods(described.interfaces) {
            let Some(signature) = interface.functions.get(name) else { continue };
            let nodes = schema::nodes(signature);
            let is_described = nodes <= nodes_left;
            nodes_left = nodes_left.saturating_sub(nodes);
            let grain_type = described.info.grain_type.as_str();
            let path = format!("/v1/grains/{grain_type}/{{key}}/{}", address.replace('/', "%2F"));
            let operation = operation(grain_type, &address, interface, (name, signature), is_described);
            paths.insert(path, json!({ "post": operation }));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Grains",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The grains of a Granary cluster. A call activates its grain, whatever the key.",
        },
        "tags": tags,
        "paths": paths,
        "components": components(),
    })
}

fn tag(described: &DescribedType<'_>) -> Value {
    let interfaces: Vec<String> =
        described.interfaces.iter().map(|it| format!("{}@{}", it.id, it.version)).collect();
    json!({
        "name": described.info.grain_type.as_str(),
        "description": format!("Grains that implement {}.", interfaces.join(", ")),
        "x-granary-component": described.info.digest.to_string(),
    })
}

/// Each method with its interface and the shortest name that means it alone: its own, or the whole one.
fn methods(interfaces: &[Interface]) -> Vec<(&Interface, &str, String)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in interfaces.iter().flat_map(|interface| interface.functions.keys()) {
        *counts.entry(name).or_default() += 1;
    }
    let addressed = interfaces
        .iter()
        .flat_map(|interface| interface.functions.keys().map(move |name| (interface, name.as_str())));
    addressed
        .map(|(interface, name)| {
            let alone = counts.get(name) == Some(&1);
            let address = if alone { name.to_owned() } else { format!("{}.{name}", interface.id) };
            (interface, name, address)
        })
        .collect()
}

fn operation(
    grain_type: &str,
    address: &str,
    interface: &Interface,
    (name, signature): (&str, &Signature),
    is_described: bool,
) -> Value {
    let (arguments, result) = if is_described {
        (schema::arguments(signature), result_schema(signature))
    } else {
        (json!({}), json!({}))
    };
    let mut responses = Map::new();
    let result = json!({ "application/json": { "schema": result } });
    responses.insert("200".to_owned(), json!({ "description": "The method's result.", "content": result }));
    for (status, _) in PROBLEMS {
        let reference = format!("#/components/responses/{}", response_name(status));
        responses.insert(status.to_owned(), json!({ "$ref": reference }));
    }
    json!({
        "operationId": format!("{grain_type}.{address}"),
        "tags": [grain_type],
        "summary": format!("{name} of {}@{}", interface.id, interface.version),
        "description": format!("`{name}: {signature}`"),
        "parameters": [
            { "$ref": "#/components/parameters/key" },
            { "$ref": "#/components/parameters/timeout" },
        ],
        "requestBody": {
            "description": "The arguments: an array by position, or an object by name.",
            "required": !signature.params.is_empty(),
            "content": { "application/json": { "schema": arguments } },
        },
        "responses": responses,
    })
}

fn result_schema(signature: &Signature) -> Value {
    match &signature.result {
        Some(ty) => schema(ty, Direction::Written),
        None => json!({ "type": "null" }),
    }
}

fn response_name(status: &str) -> String {
    format!("problem-{status}")
}

fn components() -> Value {
    let responses: Map<String, Value> = PROBLEMS
        .iter()
        .map(|(status, description)| {
            let content =
                json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/problem" } } });
            (response_name(status), json!({ "description": description, "content": content }))
        })
        .collect();
    json!({
        "responses": responses,
        "parameters": {
            "key": {
                "name": "key",
                "in": "path",
                "required": true,
                "description": "The grain's key; `/` is written as %2F.",
                "schema": { "type": "string", "minLength": 1, "maxLength": 512 },
            },
            "timeout": {
                "name": "granary-timeout-ms",
                "in": "header",
                "required": false,
                "description": "How long the call may take, in milliseconds; 30 s unless said, 10 min at most.",
                "schema": { "type": "integer", "minimum": 1 },
            },
        },
        "schemas": {
            "problem": {
                "type": "object",
                "required": ["status", "code", "detail"],
                "properties": {
                    "status": { "type": "integer", "minimum": 400, "maximum": 599 },
                    "code": { "type": "string", "description": "Stable, for programs." },
                    "detail": { "type": "string", "description": "For people." },
                    "path": { "type": "string", "description": "The place in the arguments." },
                    "retry_after_ms": { "type": "integer", "minimum": 0 },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests;
