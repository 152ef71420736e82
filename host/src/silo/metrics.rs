//! The metrics of a silo, in OpenMetrics text. Every name is here or derived from a counter's field.

use std::fmt;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::parts::Parts;

/// One reading of all counters: name without prefix, help, value.
#[derive(Debug)]
struct Reading {
    counters: Vec<(String, u64)>,
    gauges: Vec<(&'static str, &'static str, i64)>,
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, value) in &self.counters {
            let help = name.replace('_', " ");
            let encoder = encoder.encode_descriptor(name, &help, None, MetricType::Counter)?;
            ConstCounter::new(*value).encode(encoder)?;
        }
        for (name, help, value) in &self.gauges {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(*value).encode(encoder)?;
        }
        Ok(())
    }
}

/// All metrics now.
pub(crate) fn text(parts: &Parts) -> String {
    let mut registry = Registry::with_prefix("granary");
    registry.register_collector(Box::new(read(parts)));
    let mut out = String::new();
    // Writing into a string does not fail; an empty page would say so if it did.
    let _ = text::encode(&mut out, &registry);
    out
}

fn read(parts: &Parts) -> Reading {
    let mut counters = Vec::new();
    if let Ok(Value::Object(grains)) = serde_json::to_value(parts.grains.metrics()) {
        let named =
            grains.into_iter().filter_map(|(name, value)| Some((format!("grains_{name}"), value.as_u64()?)));
        counters.extend(named);
    }
    let net = parts.network.stats().snapshot();
    for (name, value) in [
        ("frames_in", net.frames_in),
        ("bytes_in", net.bytes_in),
        ("frames_out", net.frames_out),
        ("bytes_out", net.bytes_out),
        ("connections_accepted", net.connections_accepted),
        ("connections_refused", net.connections_refused),
        ("connects_failed", net.connects_failed),
        ("one_ways_dropped", net.one_ways_dropped),
        ("requests_not_queued", net.requests_not_queued),
        ("requests_overloaded", net.requests_overloaded),
    ] {
        counters.push((format!("networking_{name}"), value));
    }
    let outgoing = parts.deployments.outgoing_stats();
    for (name, value) in [
        ("requests", outgoing.requests),
        ("denied", outgoing.denied),
        ("limited", outgoing.limited),
        ("failed", outgoing.failed),
    ] {
        counters.push((format!("outgoing_http_{name}"), value));
    }
    counters.push(("host_turn_panics".to_owned(), parts.turn_panics.load(Ordering::Relaxed)));
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let view = parts.view();
    let version = i64::try_from(view.version).unwrap_or(i64::MAX);
    Reading {
        counters,
        gauges: vec![
            ("catalog_activations", "activations on this silo", number(parts.grains.activation_count())),
            ("catalog_types", "grain types that this silo serves", number(parts.registry.loaded().len())),
            (
                "catalog_quarantined_components",
                "components that no silo runs because silos died of them",
                number(parts.quarantine.count()),
            ),
            ("membership_active_silos", "active silos in this silo's view", number(view.active().count())),
            ("membership_version", "version of this silo's view", version),
        ],
    }
}
