//! Links a component: defines exactly what it imports, each under the name by which it imports it.
//!
//! Inspection has judged the imports; here they get their functions. An import that comes to life here without
//! having been judged is an error, never a trap later.

use granary_wit::Flavour;
use wasmtime::Engine;
use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{Component, InstancePre, Linker, ResourceType};

use crate::imports::denied::DeniedResources;
use crate::imports::{
    Instance, calls, context, derived, logging, state, wasi_cli, wasi_clocks, wasi_http, wasi_io, wasi_random,
};
use crate::inspect::{CONTRACT_PACKAGE, Inspection};
use crate::state::HostState;

/// What linking one component keeps in mind from import to import.
struct Linking<'a> {
    engine: &'a Engine,
    inspection: &'a Inspection,
    /// Resources that are defined already: an interface that uses another one's resource lists it again.
    defined: Vec<ResourceType>,
    denied: DeniedResources,
}

/// Links a component of which `inspection` speaks.
///
/// # Errors
/// Fails when wasmtime finds that an import's type is not what the host has.
pub(crate) fn link(
    engine: &Engine,
    component: &Component,
    inspection: &Inspection,
) -> wasmtime::Result<InstancePre<HostState>> {
    let mut linker = Linker::new(engine);
    let mut linking = Linking { engine, inspection, defined: Vec::new(), denied: DeniedResources::default() };
    let types = component.component_type();
    // Imports come in the order of their definition, so that a resource's owner precedes its users.
    for (name, import) in types.imports(engine) {
        if let ComponentItem::ComponentInstance(imported) = import.ty {
            linking.instance(&mut linker.instance(name)?, name, &imported)?;
        }
    }
    linker.instantiate_pre(component)
}

impl Linking<'_> {
    fn instance(
        &mut self,
        instance: &mut Instance<'_>,
        name: &str,
        imported: &ComponentInstance,
    ) -> wasmtime::Result<()> {
        let bare = name.split('@').next().unwrap_or(name);
        if bare.starts_with("wasi:") {
            return self.wasi(instance, bare, imported);
        }
        if let Some(reference) = self.inspection.references.iter().find(|it| it.import_name == name) {
            return match (reference.flavour, self.inspection.asynchronous) {
                (Flavour::Async, _) => derived::link_concurrent(instance, reference),
                (_, true) => derived::link_dynamic(instance, reference),
                (_, false) => derived::link(instance, reference),
            };
        }
        match bare.strip_prefix(CONTRACT_PACKAGE) {
            Some("/calls") => calls::link(instance),
            Some("/context") => context::link(instance),
            Some("/logging") => logging::link(instance),
            Some("/state") => state::link(instance),
            // Types only: nothing to define.
            _ => Ok(()),
        }
    }

    fn wasi(
        &mut self,
        instance: &mut Instance<'_>,
        bare: &str,
        imported: &ComponentInstance,
    ) -> wasmtime::Result<()> {
        for (name, item) in imported.exports(self.engine) {
            match item.ty {
                ComponentItem::Resource(ty) if self.defined.contains(&ty) => {}
                ComponentItem::Resource(ty) => {
                    self.defined.push(ty);
                    let real = match bare {
                        "wasi:http/types" => wasi_http::link_resource(instance, name)?,
                        _ => bare.starts_with("wasi:io/") && wasi_io::link_resource(instance, name)?,
                    };
                    if !real {
                        self.denied.link_resource(instance, name, ty)?;
                    }
                }
                ComponentItem::ComponentFunc(function) => {
                    let real = real_function(instance, bare, name)?;
                    if !real {
                        self.denied.link_function(instance, bare, name, &function)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Defines a WASI function that does something; false when it is to be denied.
fn real_function(instance: &mut Instance<'_>, interface: &str, name: &str) -> wasmtime::Result<bool> {
    match interface {
        "wasi:cli/environment"
        | "wasi:cli/stdin"
        | "wasi:cli/stdout"
        | "wasi:cli/stderr"
        | "wasi:cli/exit" => wasi_cli::link(instance, name),
        "wasi:clocks/monotonic-clock" => wasi_clocks::link_monotonic(instance, name),
        "wasi:clocks/wall-clock" => wasi_clocks::link_wall(instance, name),
        "wasi:http/outgoing-handler" => wasi_http::link_handler(instance, name),
        "wasi:http/types" => wasi_http::link_types(instance, name),
        "wasi:io/error" => wasi_io::link_error(instance, name),
        "wasi:io/poll" => wasi_io::link_poll(instance, name),
        "wasi:io/streams" => wasi_io::link_streams(instance, name),
        "wasi:random/random" | "wasi:random/insecure" | "wasi:random/insecure-seed" => {
            wasi_random::link(instance, name)
        }
        _ => Ok(false),
    }
}
