//! An inspection as data for people and scripts: `granary inspect --output json`.

use std::collections::BTreeMap;

use granary_core::id::Digest;
use granary_wit::Flavour;
use serde::{Serialize, Serializer};

use super::{Inspection, interface_info};

#[derive(Serialize)]
struct Report<'a> {
    grain_type: &'a str,
    digest: String,
    size_bytes: u64,
    interfaces: Vec<Interface>,
    references: Vec<Reference<'a>>,
    imports: &'a [String],
    needs_http: &'a [String],
    asynchronous: bool,
    reentrant: bool,
    lifecycle: bool,
    migration: bool,
    other_exports: &'a [String],
    properties: &'a BTreeMap<String, String>,
    limits: Limits,
    resources: Resources,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Interface {
    id: String,
    version: String,
    methods: BTreeMap<String, Method>,
}

#[derive(Serialize)]
struct Reference<'a> {
    import: &'a str,
    interface: &'a str,
    version: &'a str,
    one_way: bool,
    methods: BTreeMap<&'a str, Method>,
}

#[derive(Serialize)]
struct Method {
    signature: String,
    hash: String,
}

#[derive(Serialize)]
struct Limits {
    memory_bytes_max: u64,
    turn_cpu_ms_max: u64,
    value_bytes_max: u32,
    mailbox_max: u32,
    idle_age_s: Option<u64>,
}

#[derive(Serialize)]
struct Resources {
    modules: usize,
    code_bytes: u64,
    memory_bytes_min: u64,
    table_elements_min: u64,
}

impl Serialize for Inspection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let method = |signature: String, hash: Digest| Method { signature, hash: hash.to_string() };
        let interfaces = self.interfaces.iter().map(|exported| {
            let info = interface_info(&exported.interface);
            let methods = info.methods.into_iter().map(|(name, it)| (name, method(it.signature, it.hash)));
            Interface { id: info.id, version: info.version, methods: methods.collect() }
        });
        let references = self.references.iter().map(|reference| Reference {
            import: &reference.import_name,
            interface: &reference.interface,
            version: &reference.version,
            one_way: reference.flavour == Flavour::Send,
            methods: reference
                .methods
                .iter()
                .map(|(name, it)| (name.as_str(), method(it.to_string(), reference.hash(it))))
                .collect(),
        });
        Report {
            grain_type: self.grain_type.as_str(),
            digest: self.digest.to_string(),
            size_bytes: self.size_bytes,
            interfaces: interfaces.collect(),
            references: references.collect(),
            imports: &self.imports,
            needs_http: &self.needs_http,
            asynchronous: self.asynchronous,
            reentrant: self.reentrant,
            lifecycle: self.lifecycle.is_some(),
            migration: self.migration.is_some(),
            other_exports: &self.other_exports,
            properties: &self.properties,
            limits: Limits {
                memory_bytes_max: self.limits.memory_bytes_max,
                turn_cpu_ms_max: u64::try_from(self.limits.turn_cpu_max.as_millis()).unwrap_or(u64::MAX),
                value_bytes_max: self.limits.value_bytes_max,
                mailbox_max: self.limits.mailbox_max,
                idle_age_s: self.limits.idle_age.map(|age| age.as_secs()),
            },
            resources: Resources {
                modules: self.resources.modules,
                code_bytes: self.resources.code_bytes,
                memory_bytes_min: self.resources.memory_bytes_min,
                table_elements_min: self.resources.table_elements_min,
            },
            notes: &self.notes,
        }
        .serialize(serializer)
    }
}
