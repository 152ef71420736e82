//! Sorts a component's exports: grain interfaces, the platform's hooks, and what is not ours.

use granary_wit::{Interface, TypeError};
use wit_parser::{InterfaceId, Resolve, WorldId, WorldItem, WorldKey};

use super::contract::{self, CONTRACT_PACKAGE};
use super::{ExportedInterface, InspectError};

/// The exports, sorted.
#[derive(Debug, Default)]
pub(super) struct Exports {
    pub(super) interfaces: Vec<ExportedInterface>,
    pub(super) lifecycle: Option<String>,
    pub(super) migration: Option<String>,
    pub(super) others: Vec<String>,
    /// Some method is an `async func`.
    pub(super) asynchronous: bool,
}

/// Reads the exports of a component's world.
pub(super) fn read(resolve: &Resolve, world: WorldId) -> Result<Exports, InspectError> {
    let mut exports = Exports::default();
    let mut functions = Vec::new();
    // componentize-py leaves its own start-up interface there; nobody can name it, so nobody can call it.
    let mut unnamed = Vec::new();
    for (key, item) in resolve.worlds.get(world).into_iter().flat_map(|world| &world.exports) {
        let name = resolve.name_world_key(key);
        match item {
            WorldItem::Function(function) => functions.push(function.name.clone()),
            WorldItem::Type { .. } => {}
            WorldItem::Interface { id, .. } => match key {
                WorldKey::Name(name) => unnamed.push(name.clone()),
                WorldKey::Interface(_) => exports.add(resolve, name, *id)?,
            },
        }
    }
    if !functions.is_empty() {
        return Err(InspectError::WorldFunctions { functions });
    }
    if exports.interfaces.is_empty() {
        if let Some(name) = unnamed.into_iter().next() {
            return Err(InspectError::UnnamedInterface(name));
        }
        let hooks = [exports.lifecycle, exports.migration].into_iter().flatten();
        return Err(InspectError::NoGrainInterface { exports: hooks.chain(exports.others).collect() });
    }
    exports.others.extend(unnamed);
    exports.interfaces.sort_by(|a, b| a.interface.id.cmp(&b.interface.id));
    let twice = exports
        .interfaces
        .iter()
        .zip(exports.interfaces.iter().skip(1))
        .find(|(one, next)| one.interface.id == next.interface.id);
    match twice {
        Some((one, _)) => Err(InspectError::TwoVersions(one.interface.id.clone())),
        None => Ok(exports),
    }
}

impl Exports {
    fn add(&mut self, resolve: &Resolve, export_name: String, id: InterfaceId) -> Result<(), InspectError> {
        let interface = resolve.interfaces.get(id).ok_or(TypeError::Unnamed)?;
        let package = interface.package.and_then(|package| resolve.packages.get(package));
        let (Some(package), Some(name)) = (package.map(|package| &package.name), &interface.name) else {
            return Err(TypeError::Unnamed.into());
        };
        let package = format!("{}:{}", package.namespace, package.name);
        if package == CONTRACT_PACKAGE {
            return self.add_hook(resolve, export_name, name, id);
        }
        let foreign = package.starts_with("wasi:") || package.starts_with("granary:");
        // An interface of types only is exported along with the interfaces that use it.
        let types_only = interface.functions.is_empty();
        if foreign || types_only {
            self.others.push(export_name);
            return Ok(());
        }
        let interface = Interface::from_resolve(resolve, id)?;
        self.asynchronous |= interface.functions.values().any(|signature| signature.is_async);
        self.interfaces.push(ExportedInterface { export_name, interface });
        Ok(())
    }

    fn add_hook(
        &mut self,
        resolve: &Resolve,
        export_name: String,
        name: &str,
        id: InterfaceId,
    ) -> Result<(), InspectError> {
        let interface = Interface::from_resolve(resolve, id)?;
        match name {
            "lifecycle" => {
                contract::check_export(name, &interface)?;
                self.lifecycle = Some(export_name);
            }
            "migration" => {
                contract::check_export(name, &interface)?;
                self.migration = Some(export_name);
            }
            _ if interface.functions.is_empty() => self.others.push(export_name),
            _ => {
                return Err(InspectError::Contract {
                    name: interface.id,
                    mismatch: "it is not an interface that a grain can export".to_owned(),
                });
            }
        }
        Ok(())
    }
}
