//! Sorts a component's imports: the platform's, the fixed WASI list, derived packages, and what is refused.

use granary_wit::{DerivedImport, DerivedShapeError, Flavour, Interface, Signature, TypeError, derived_of};
use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::Types;
use wit_parser::{InterfaceId, Resolve, TypeDefKind, WorldId, WorldItem, WorldKey};

use super::contract::{self, CONTRACT_PACKAGE};
use super::{ImportProblem, InspectError, Reference};

/// WASI interfaces of version 0.2 that are always linked (decision A10): what the standard libraries of guest
/// languages import whether they use it or not.
const WASI: [&str; 28] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/timezone",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// What a deployment's grant of outgoing HTTP adds to that list.
const HTTP: [&str; 2] = ["wasi:http/outgoing-handler", "wasi:http/types"];

/// The imports, sorted.
#[derive(Debug, Default)]
pub(super) struct Imports {
    pub(super) references: Vec<Reference>,
    pub(super) others: Vec<String>,
    pub(super) notes: Vec<String>,
    /// Those of the others that need a grant of outgoing HTTP.
    pub(super) needs_http: Vec<String>,
    /// The component exports an `async func`.
    asynchronous: bool,
}

/// Reads the imports of a component's world. All imports that are not offered are named in one error.
pub(super) fn read(
    resolve: &Resolve,
    world: WorldId,
    types: &Types,
    asynchronous: bool,
) -> Result<Imports, InspectError> {
    let mut imports = Imports { asynchronous, ..Imports::default() };
    let mut problems = Vec::new();
    for (key, item) in resolve.worlds.get(world).into_iter().flat_map(|world| &world.imports) {
        let name = resolve.name_world_key(key);
        match (item, key) {
            (WorldItem::Type { .. }, _) => {}
            (WorldItem::Function(_), _) | (WorldItem::Interface { .. }, WorldKey::Name(_)) => {
                problems.push(ImportProblem::Unnamed(name));
            }
            (WorldItem::Interface { id, .. }, WorldKey::Interface(_)) => {
                problems.extend(imports.add(resolve, types, name, *id)?);
            }
        }
    }
    if problems.is_empty() { Ok(imports) } else { Err(InspectError::Imports(problems)) }
}

impl Imports {
    fn add(
        &mut self,
        resolve: &Resolve,
        types: &Types,
        name: String,
        id: InterfaceId,
    ) -> Result<Option<ImportProblem>, InspectError> {
        let (bare, version) = name.split_once('@').unwrap_or((&name, ""));
        let interface = resolve.interfaces.get(id).ok_or(TypeError::Unnamed)?;
        let is_resource = |ty| resolve.types.get(ty).is_some_and(|ty| ty.kind == TypeDefKind::Resource);
        let has_resources = interface.types.values().any(|ty| is_resource(*ty));
        if !has_functions(types, &name) && !has_resources {
            // Types need nothing from the host, whoever's they are.
            return Ok(None);
        }
        if let Some(interface_name) =
            bare.strip_prefix(CONTRACT_PACKAGE).and_then(|rest| rest.strip_prefix('/'))
        {
            if !contract::has(interface_name)? {
                return Ok(Some(ImportProblem::Unknown(name)));
            }
            contract::check_import(interface_name, &Interface::from_resolve(resolve, id)?)?;
            self.others.push(name);
            return Ok(None);
        }
        if bare.starts_with("wasi:") {
            let http = HTTP.contains(&bare);
            if !(http || WASI.contains(&bare)) || !(version.starts_with("0.2.") || version == "0.2") {
                return Ok(Some(ImportProblem::Unknown(name)));
            }
            if http {
                self.needs_http.push(name.clone());
            }
            self.others.push(name);
            return Ok(None);
        }
        if bare.starts_with("granary:") {
            return Ok(Some(ImportProblem::Unknown(name)));
        }
        match derived_of(&name) {
            Some(derived) => self.add_derived(resolve, name, id, &derived),
            None => Ok(Some(ImportProblem::GrainInterface {
                derived: derived_name(bare, version),
                interface: name,
            })),
        }
    }

    fn add_derived(
        &mut self,
        resolve: &Resolve,
        import_name: String,
        id: InterfaceId,
        derived: &DerivedImport,
    ) -> Result<Option<ImportProblem>, InspectError> {
        // What has only synchronous exports would trap when it waits (decision A4).
        if derived.flavour == Flavour::Async && !self.asynchronous {
            return Ok(Some(ImportProblem::Async(import_name)));
        }
        let interface = Interface::from_resolve(resolve, id)?;
        let wanted = derived.flavour == Flavour::Async;
        if let Some((function, _)) = interface.functions.iter().find(|(_, it)| it.is_async != wanted) {
            let what = if wanted { "it must be an `async func`" } else { "it must be a plain `func`" };
            let (function, what) = (function.clone(), what.to_owned());
            return Err(DerivedShapeError { import: import_name, function, what }.into());
        }
        let methods = interface
            .functions
            .iter()
            .map(|(name, signature)| Ok((name.clone(), derived.method(name, signature)?)))
            .collect::<Result<std::collections::BTreeMap<String, Signature>, InspectError>>()?;
        self.references.push(Reference {
            import_name,
            interface: derived.interface.clone(),
            version: interface.version,
            flavour: derived.flavour,
            methods,
        });
        Ok(None)
    }
}

/// Whether the imported instance has functions. The decoded interface does not say it: it is the exported one too
/// where a grain refers to grains of its own type, and then has the functions of the export.
fn has_functions(types: &Types, import: &str) -> bool {
    let item = types.as_ref().component_item_for_import(import).map(|item| &item.ty);
    let Some(ComponentEntityType::Instance(id)) = item else { return true };
    let Some(instance) = types.as_ref().get(*id) else { return true };
    instance.exports.values().any(|item| matches!(item.ty, ComponentEntityType::Func(_)))
}

/// The derived interface of a grain interface: `acme:bank/account@1.0.0` gives `acme:bank-refs/account@1.0.0`.
fn derived_name(bare: &str, version: &str) -> String {
    let derived = match bare.split_once('/') {
        Some((package, interface)) => format!("{package}-refs/{interface}"),
        None => bare.to_owned(),
    };
    if version.is_empty() { derived } else { format!("{derived}@{version}") }
}
