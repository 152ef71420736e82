//! Reads a component's bytes and says what grain type it is, or why it is none. Never runs guest code.
//!
//! Everything here is bounded by the component's size, which is checked first. The order is: sniff the format,
//! walk the binary (nesting, declarations, custom sections, memories), validate, decode the types, then judge exports, imports and
//! properties. The first problem is the error, except that all unknown imports are named together.

mod contract;
mod declarations;
mod error;
mod exports;
mod imports;
mod properties;
mod report;
mod scan;
mod sniff;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use granary_core::hosting::{ClassInfo, InterfaceInfo, Limits, MethodInfo};
use granary_core::id::{Digest, GrainType};
use granary_wit::{Flavour, Interface, Signature, method_hash, params_hash};
use wasmparser::types::Types;
use wasmparser::{Validator, WasmFeatures};
use wit_component::DecodedWasm;
use wit_parser::{Resolve, WorldId};

use crate::engine::{EngineVariant, MemoryLayout};

pub(crate) use contract::CONTRACT_PACKAGE;
pub use declarations::{DECLARATIONS_MAX, NESTING_MAX};
pub use error::{ImportProblem, InspectError};
pub use properties::{PropertyError, apply_properties, known_properties};

/// The largest component, in bytes.
pub const COMPONENT_BYTES_MAX: u64 = 50 << 20;

/// What a component is.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// SHA-256 of the component's bytes.
    pub digest: Digest,
    /// Size of the component in bytes.
    pub size_bytes: u64,
    /// The property `grain-type`, else the name of the only grain interface.
    pub grain_type: GrainType,
    /// The grain interfaces that it exports, by id.
    pub interfaces: Vec<ExportedInterface>,
    /// The derived interfaces that it imports.
    pub references: Vec<Reference>,
    /// It exports a method that is an `async func`, and so needs the asynchronous engine.
    pub asynchronous: bool,
    /// It states that its turns may overlap.
    pub reentrant: bool,
    /// All other imports that have functions, with their versions.
    pub imports: Vec<String>,
    /// Those of them that only a deployment with a grant of outgoing HTTP gives it.
    pub needs_http: Vec<String>,
    /// The export name of `granary:grain/lifecycle`, if it exports that.
    pub lifecycle: Option<String>,
    /// The export name of `granary:grain/migration`, if it exports that.
    pub migration: Option<String>,
    /// Other exports, which Granary does not use.
    pub other_exports: Vec<String>,
    /// The properties that the component states.
    pub properties: BTreeMap<String, String>,
    /// The limits that follow from the properties.
    pub limits: Limits,
    /// What its core modules are made of.
    pub resources: Resources,
    /// Remarks that refuse nothing.
    pub notes: Vec<String>,
}

/// A grain interface that a component exports.
#[derive(Debug, Clone)]
pub struct ExportedInterface {
    /// The name of the export, with its version.
    pub export_name: String,
    /// Its methods and their types.
    pub interface: Interface,
}

/// A derived interface that a component imports: the part of a grain interface that it calls.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The name of the import, with its version: `acme:bank-refs/account@1.0.0`.
    pub import_name: String,
    /// The grain interface, without version: `acme:bank/account`.
    pub interface: String,
    /// The version of the derived package.
    pub version: String,
    /// How it calls.
    pub flavour: Flavour,
    /// The methods that it calls; for one-way calls without their results.
    pub methods: BTreeMap<String, Signature>,
}

/// Sizes of a component's parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// Core modules.
    pub modules: usize,
    /// Bytes of machine-independent code.
    pub code_bytes: u64,
    /// The largest linear memory that is there from the start, in bytes.
    pub memory_bytes_min: u64,
    /// The largest table that is there from the start, in elements.
    pub table_elements_min: u64,
}

impl Reference {
    /// The hash that a call of `signature` carries.
    pub(crate) fn hash(&self, signature: &Signature) -> Digest {
        Digest(self.flavour.hash(signature))
    }
}

/// Inspects a component.
///
/// # Errors
/// [`InspectError`]: what is wrong, where, and what would be right.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, InspectError> {
    let size_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size_bytes > COMPONENT_BYTES_MAX {
        return Err(InspectError::TooLarge { size_bytes });
    }
    sniff::require_component(bytes)?;
    let scan = scan::scan(bytes)?;
    // Asynchronous types are let through here, so that what uses them can be named below.
    let types = validate(bytes, crate::engine::asynchronous_features())?;
    let (resolve, world) = decode(bytes)?;

    let exports = exports::read(&resolve, world)?;
    let imports = imports::read(&resolve, world, &types, exports.asynchronous)?;
    if !exports.asynchronous {
        validate(bytes, crate::engine::features())?;
    }

    let properties = properties::from_sections(&scan.manifests)?;
    let mut limits = Limits::default();
    let mut notes = properties::apply(&properties, &mut limits)?;
    let reentrant = properties::reentrant(&properties, exports.asynchronous)?;
    notes.extend(imports.notes);
    notes.extend(overlap_notes(&imports.references, reentrant));
    if scan.resources.memory_bytes_min > limits.memory_bytes_max {
        return Err(InspectError::Memory {
            bytes_min: scan.resources.memory_bytes_min,
            bytes_max: limits.memory_bytes_max,
        });
    }
    let grain_type = grain_type(&properties, &exports.interfaces)?;
    Ok(Inspection {
        digest: Digest::of(bytes),
        size_bytes,
        grain_type,
        interfaces: exports.interfaces,
        references: imports.references,
        asynchronous: exports.asynchronous,
        reentrant,
        imports: imports.others,
        needs_http: imports.needs_http,
        lifecycle: exports.lifecycle,
        migration: exports.migration,
        other_exports: exports.others,
        properties,
        limits,
        resources: scan.resources,
        notes,
    })
}

impl Inspection {
    /// The class that the component makes, with the deployment's properties in place of the component's own.
    ///
    /// # Errors
    /// [`PropertyError`] when a property of the deployment has a bad value, or one that this component cannot have.
    pub fn class_info(&self, overrides: &BTreeMap<String, String>) -> Result<ClassInfo, PropertyError> {
        let mut properties = self.properties.clone();
        properties.extend(overrides.iter().map(|(key, value)| (key.clone(), value.clone())));
        let mut limits = Limits::default();
        properties::apply(&properties, &mut limits)?;
        let reentrant = properties::reentrant(&properties, self.asynchronous)?;
        let grain_type = match overrides.get(properties::GRAIN_TYPE) {
            Some(name) => GrainType::new(name).map_err(|error| PropertyError::grain_type(name, &error))?,
            None => self.grain_type.clone(),
        };
        Ok(ClassInfo {
            grain_type,
            digest: self.digest,
            interfaces: self.interfaces.iter().map(|exported| interface_info(&exported.interface)).collect(),
            references: self.reference_infos(),
            has_lifecycle: self.lifecycle.is_some(),
            has_migration: self.migration.is_some(),
            asynchronous: self.asynchronous,
            reentrant,
            properties,
            limits,
        })
    }

    /// Which engine compiles and runs it, with the deployment's properties in place of the component's own.
    #[must_use]
    pub fn engine(&self, overrides: &BTreeMap<String, String>) -> EngineVariant {
        let layout = overrides
            .get(properties::MEMORY_LAYOUT)
            .or_else(|| self.properties.get(properties::MEMORY_LAYOUT));
        let reserved = layout.is_some_and(|layout| layout == properties::RESERVED);
        EngineVariant {
            asynchronous: self.asynchronous,
            memory: if reserved { MemoryLayout::Reserved } else { MemoryLayout::Compact },
        }
    }

    /// Remarks that follow from properties of the deployment, and are not among the component's own.
    #[must_use]
    pub fn notes_of(&self, info: &ClassInfo) -> Vec<String> {
        if self.reentrant { Vec::new() } else { overlap_notes(&self.references, info.reentrant) }
    }

    /// The grain interfaces that it calls. Where a method is called both ways, the hash is that of the whole
    /// method, which is the stricter one.
    fn reference_infos(&self) -> Vec<InterfaceInfo> {
        let mut infos: BTreeMap<(&str, &str), BTreeMap<String, MethodInfo>> = BTreeMap::new();
        for reference in &self.references {
            let methods = infos.entry((&reference.interface, &reference.version)).or_default();
            for (name, signature) in &reference.methods {
                let mut info = method_info(signature);
                info.hash = reference.hash(signature);
                if reference.flavour == Flavour::Send {
                    methods.entry(name.clone()).or_insert(info);
                } else {
                    methods.insert(name.clone(), info);
                }
            }
        }
        infos
            .into_iter()
            .map(|((id, version), methods)| InterfaceInfo {
                id: id.to_owned(),
                version: version.to_owned(),
                methods,
            })
            .collect()
    }
}

pub(crate) fn interface_info(interface: &Interface) -> InterfaceInfo {
    let methods =
        interface.functions.iter().map(|(name, signature)| (name.clone(), method_info(signature))).collect();
    InterfaceInfo { id: interface.id.clone(), version: interface.version.clone(), methods }
}

fn method_info(signature: &Signature) -> MethodInfo {
    MethodInfo {
        hash: Digest(method_hash(signature)),
        params_hash: Digest(params_hash(signature)),
        signature: signature.to_string(),
        no_result: signature.result.is_none(),
    }
}

/// A call through the synchronous form holds all turns of a reentrant grain (decision A4).
fn overlap_notes(references: &[Reference], reentrant: bool) -> Vec<String> {
    let holding = references.iter().filter(|reference| reentrant && reference.flavour == Flavour::Call);
    holding
        .map(|reference| {
            let (name, version) =
                reference.import_name.split_once('@').unwrap_or((&reference.import_name, ""));
            let version = if version.is_empty() { String::new() } else { format!("@{version}") };
            format!(
                "the grain is reentrant, but while a call through {} waits none of its turns goes on; import \
                 {name}-async{version} instead",
                reference.import_name
            )
        })
        .collect()
}

fn validate(bytes: &[u8], features: WasmFeatures) -> Result<Types, InspectError> {
    Validator::new_with_features(features).validate_all(bytes).map_err(|error| InspectError::Invalid {
        offset: u64::try_from(error.offset()).unwrap_or(u64::MAX),
        message: crate::text::first_line(error.message()),
    })
}

/// The component's types. The decoder is a large library over untrusted bytes: a panic in it is an error too.
fn decode(bytes: &[u8]) -> Result<(Resolve, WorldId), InspectError> {
    let decoded = catch_unwind(AssertUnwindSafe(|| wit_component::decode(bytes)))
        .map_err(|_| InspectError::Undecodable("the decoder failed on it".to_owned()))?
        .map_err(|error| InspectError::Undecodable(crate::text::first_line(&format!("{error:#}"))))?;
    match decoded {
        DecodedWasm::Component(resolve, world) => Ok((resolve, world)),
        DecodedWasm::WitPackage(..) => Err(InspectError::NotAComponent(
            "a WIT package in binary form, which has types and no code".to_owned(),
        )),
    }
}

fn grain_type(
    properties: &BTreeMap<String, String>,
    interfaces: &[ExportedInterface],
) -> Result<GrainType, InspectError> {
    if let Some(name) = properties.get(properties::GRAIN_TYPE) {
        return GrainType::new(name).map_err(|error| PropertyError::grain_type(name, &error).into());
    }
    let names: Vec<&str> = interfaces
        .iter()
        .map(|exported| exported.interface.id.rsplit('/').next().unwrap_or(&exported.interface.id))
        .collect();
    match names.as_slice() {
        [name] => GrainType::new(name).map_err(|error| PropertyError::grain_type(name, &error).into()),
        _ => Err(InspectError::GrainTypeUnclear { choices: names.into_iter().map(str::to_owned).collect() }),
    }
}

#[cfg(test)]
mod tests;
