//! What the admin API lists. The JSON here is an interface: keys are added, never renamed.

use std::collections::BTreeMap;

use granary_core::id::{GrainId, SiloAddress};
use granary_core::manifest::{Identifier, Properties};
use granary_core::membership::table::SiloStatus;
use granary_grains::ActivationSummary;
use granary_http::Problem;
use granary_wasm::Grants;
use serde_json::{Map, Value, json};

use super::{ASK_TIMEOUT, SiloQuestion, ask};
use crate::silo::parts::Parts;
use crate::silo::process;

pub(super) fn silos(parts: &Parts) -> Value {
    let view = parts.view();
    let manifest = parts.registry.cluster();
    let rows = view.members.iter().map(|(address, member)| {
        json!({
            "name": member.name,
            "status": status(member.status),
            "address": address.to_string(),
            "gateway": member.gateway.to_string(),
            "admin": member.admin.to_string(),
            "generation": manifest.silos.get(address).map(|it| it.generation),
            "me": *address == parts.me,
        })
    });
    rows.collect()
}

fn status(status: SiloStatus) -> &'static str {
    match status {
        SiloStatus::Joining => "joining",
        SiloStatus::Active => "active",
        SiloStatus::ShuttingDown => "shutting-down",
        SiloStatus::Dead => "dead",
    }
}

pub(super) async fn grains(parts: &Parts) -> Result<Value, Problem> {
    let activations = activations(parts).await?;
    let count = |grain_type: &str| {
        let rows = activations.as_array().map(Vec::as_slice).unwrap_or_default();
        rows.iter().filter(|row| row.get("type").and_then(Value::as_str) == Some(grain_type)).count()
    };
    let loaded = parts.registry.loaded();
    let rows = loaded.iter().map(|(grain_type, entry)| {
        let info = entry.class.info();
        let silos = granary_grains::Types::silos_for(&*parts.registry, grain_type);
        let interfaces: Vec<String> =
            info.interfaces.iter().map(|it| format!("{}@{}", it.id, it.version)).collect();
        json!({
            "type": grain_type.as_str(),
            "interfaces": interfaces,
            "digest": info.digest.to_string(),
            "silos": silos.into_iter().map(|silo| parts.name_of(silo)).collect::<Vec<_>>(),
            "activations": count(grain_type.as_str()),
            "properties": info.properties,
        })
    });
    Ok(rows.collect())
}

/// The activations of all silos that may have some; a silo that does not answer is left out and noted in the log.
pub(super) async fn activations(parts: &Parts) -> Result<Value, Problem> {
    Ok(Value::Array(gather(parts, &SiloQuestion::Activations).await))
}

/// Puts the same question to all silos at once, and joins the lists that they answer.
async fn gather(parts: &Parts, question: &SiloQuestion) -> Vec<Value> {
    let view = parts.view();
    let hosting = view
        .members
        .iter()
        .filter(|(_, member)| matches!(member.status, SiloStatus::Active | SiloStatus::ShuttingDown))
        .map(|(silo, _): (&SiloAddress, _)| *silo);
    let answers = hosting.map(|silo| async move {
        match ask(parts, silo, question.clone(), ASK_TIMEOUT).await {
            Ok(Value::Array(rows)) => rows,
            Ok(_) => Vec::new(),
            Err(problem) => {
                tracing::warn!(%silo, problem = problem.detail, "a silo is missing in a listing");
                Vec::new()
            }
        }
    });
    futures_util::future::join_all(answers).await.into_iter().flatten().collect()
}

/// What each silo does, in numbers; a silo that does not answer is left out and noted in the log.
pub(super) async fn load(parts: &Parts) -> Value {
    Value::Array(gather(parts, &SiloQuestion::Load).await)
}

/// This silo's row, with its live activations added up by type.
pub(super) fn load_here(parts: &Parts) -> Value {
    #[derive(Default)]
    struct Sum {
        activations: u64,
        calls: u64,
        waiting: u64,
        running: u64,
    }
    let loaded = parts.registry.loaded();
    let mut types: BTreeMap<String, Sum> =
        loaded.keys().map(|grain_type| (grain_type.to_string(), Sum::default())).collect();
    let mut activations = 0_u64;
    for it in parts.grains.list_activations() {
        let sum = types.entry(it.grain.grain_type().to_string()).or_default();
        activations += 1;
        sum.activations += 1;
        sum.calls += it.calls;
        sum.waiting += it.mailbox as u64;
        sum.running += u64::from(it.running);
    }
    let types: Vec<Value> = types
        .into_iter()
        .map(|(name, sum)| {
            json!({
                "type": name,
                "activations": sum.activations,
                "calls": sum.calls,
                "waiting": sum.waiting,
                "running": sum.running,
            })
        })
        .collect();
    let metrics = parts.grains.metrics();
    json!([{
        "silo": parts.name,
        "activations": activations,
        "calls": metrics.calls,
        "calls_failed": metrics.calls_failed,
        "turns": metrics.turns,
        "memory_bytes": process::memory_bytes(),
        "cpu_seconds": process::cpu_seconds(),
        "types": types,
    }])
}

pub(super) fn activations_here(parts: &Parts) -> Value {
    parts.grains.list_activations().iter().map(row).collect()
}

fn row(it: &ActivationSummary) -> Value {
    json!({
        "grain": it.grain.to_string(),
        "type": it.grain.grain_type().as_str(),
        "key": it.grain.key(),
        "silo": it.silo_name,
        "silo_address": it.silo.to_string(),
        "activation": it.activation.to_string(),
        "state": it.state,
        "digest": it.digest.short(),
        "calls": it.calls,
        "waiting": it.mailbox,
        "running": it.running,
        "age_s": it.age.as_secs(),
        "idle_s": it.idle.as_secs(),
    })
}

pub(super) fn describe_here(parts: &Parts, grain: &GrainId) -> Value {
    parts.grains.describe(grain).map_or_else(
        || inactive(grain),
        |found| {
            let mut row = row(&found);
            if let Some(map) = row.as_object_mut() {
                map.insert("active".to_owned(), Value::Bool(true));
                let loaded = parts.registry.loaded();
                let grants = loaded.get(grain.grain_type()).map(|entry| grants_shown(&entry.grants));
                map.insert("grants".to_owned(), grants.unwrap_or_default());
            }
            row
        },
    )
}

/// What a deployment grants, for people: of the environment the names alone, since values may be secrets.
fn grants_shown(grants: &Grants) -> Value {
    json!({
        "env": grants.env_names().collect::<Vec<_>>(),
        "http": grants.http().map(ToString::to_string).collect::<Vec<_>>(),
        "http_private": grants.http_private(),
    })
}

/// What is said of a grain that has no activation.
pub(super) fn inactive(grain: &GrainId) -> Value {
    json!({
        "grain": grain.to_string(),
        "type": grain.grain_type().as_str(),
        "key": grain.key(),
        "active": false,
        "silo": null,
    })
}

pub(super) async fn deployments(parts: &Parts) -> Result<Value, Problem> {
    let records =
        parts.deployments.records().await.map_err(|error| Problem::unavailable(error.to_string()))?;
    let rows = records.into_iter().map(|record| {
        let properties: Value = serde_json::from_str(&record.properties).unwrap_or_default();
        json!({
            "type": record.grain_type,
            "revision": record.revision,
            "name": record.name,
            "bytes": record.bytes,
            "digest": record.digest.to_string(),
            "deployed_at": record.deployed_at,
            "properties": properties,
            "grants": Grants::from_record(&record.grants).map_or(Value::Null, |grants| grants_shown(&grants)),
            "error": parts.deployments.failure(&record.grain_type),
            "quarantine": parts.quarantine.why(&record.digest),
        })
    });
    Ok(rows.collect())
}

/// The newest lines of a grain on all silos, by time.
pub(super) async fn logs(parts: &Parts, grain: GrainId, lines: usize) -> Result<Value, Problem> {
    let mut rows = gather(parts, &SiloQuestion::Logs(grain, lines)).await;
    rows.sort_by_key(|row| row.get("at_us").and_then(Value::as_u64).unwrap_or_default());
    let surplus = rows.len().saturating_sub(lines);
    rows.drain(..surplus);
    Ok(Value::Array(rows))
}

pub(super) fn logs_here(parts: &Parts, grain: &GrainId, lines: usize) -> Value {
    let lines = parts.logs.tail(grain, lines);
    let rows = lines.into_iter().map(|line| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_micros(line.at_us);
        json!({
            "at_us": line.at_us,
            "time": humantime::format_rfc3339_millis(time).to_string(),
            "level": format!("{:?}", line.level).to_lowercase(),
            "silo": parts.name,
            "text": line.text,
        })
    });
    rows.collect()
}

pub(super) fn manifests(parts: &Parts) -> Value {
    let cluster = parts.registry.cluster();
    let rows = cluster.silos.iter().map(|(silo, published)| {
        let manifest = &published.manifest;
        json!({
            "silo": parts.name_of(*silo),
            "address": silo.to_string(),
            "generation": published.generation,
            "version": cluster.version.to_string(),
            "hash": manifest.hash().to_string(),
            "grains": section(manifest.grains()),
            "interfaces": section(manifest.interfaces()),
        })
    });
    rows.collect()
}

fn section(entries: &BTreeMap<Identifier, Properties>) -> Value {
    let mut section = Map::new();
    for (id, properties) in entries {
        let properties: Map<String, Value> = properties
            .iter()
            .map(|(key, value)| (key.to_string(), Value::from(value.as_ref().map(ToString::to_string))))
            .collect();
        section.insert(id.to_string(), Value::Object(properties));
    }
    Value::Object(section)
}

pub(super) fn unknown_type(parts: &Parts, grain_type: &str) -> String {
    let known: Vec<String> =
        granary_grains::Types::known_types(&*parts.registry).iter().map(ToString::to_string).collect();
    let known = if known.is_empty() {
        "none is deployed".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    format!("no grain type {} is deployed; {known}", grain_type.escape_debug())
}

pub(super) fn silo_names(parts: &Parts) -> String {
    let view = parts.view();
    let names: Vec<&str> = view
        .members
        .values()
        .filter(|member| member.status != SiloStatus::Dead)
        .map(|member| member.name.as_str())
        .collect();
    names.join(", ")
}
