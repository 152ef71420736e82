//! Writes the text of derived packages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use wit_parser::{Function, InterfaceId, PackageId, PackageName, Resolve, TypeDefKind, TypeId, TypeOwner};

use super::{Flavour, PACKAGE_SUFFIX, definition, is_users};
use crate::grain::GRAIN_VERSION;
use crate::types::{Interface, TYPE_DEPTH_MAX};

/// The derived package of one contract package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedPackage {
    /// The contract package's name with version: `acme:bank@1.0.0`.
    pub contract: String,
    /// The derived package's name with version: `acme:bank-refs@1.0.0`.
    pub name: String,
    /// A file name for it: `acme-bank-refs.wit`.
    pub file_name: String,
    /// The package's text; it needs `granary:grain`, and the contract unless it has copies of its types.
    pub text: String,
    /// The names of the grain interfaces in it: `account`.
    pub interfaces: Vec<String>,
    /// The contract's interfaces that have functions and get no references, each with the reason.
    pub skipped: Vec<(String, String)>,
}

/// Where a derived package has the contract's types from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContractTypes {
    /// From the contract. Its types are then the same in the callee and in the caller, and the caller's tools have to
    /// leave the contract's functions out of the component's imports.
    Used,
    /// From copies of its own, so that it needs `granary:grain` alone. What imports it imports no contract, whatever
    /// its tools do.
    Copied,
}

/// The derived package of one contract; `None` when it has no interfaces with functions, or is itself
/// Granary's, WASI's or derived.
///
/// [`DerivedPackage::interfaces`] is empty, and so the text of no use, when all interfaces were skipped.
#[must_use]
pub fn derive_package(resolve: &Resolve, package: PackageId, types: ContractTypes) -> Option<DerivedPackage> {
    let contract = resolve.packages.get(package)?;
    if !is_users(&contract.name.namespace) || contract.name.name.ends_with(PACKAGE_SUFFIX) {
        return None;
    }
    let name =
        PackageName { name: format!("{}{PACKAGE_SUFFIX}", contract.name.name), ..contract.name.clone() };
    let mut text = format!(
        "// Derived from {}: how grains call the grains that implement its interfaces.\n\
         // Do not edit; `granary wit refs` writes it again.\npackage {};\n",
        contract.name,
        escaped_package(&name)
    );
    let (mut interfaces, mut skipped) = (Vec::new(), Vec::new());
    for (interface_name, id) in &contract.interfaces {
        if resolve.interfaces.get(*id).is_none_or(|interface| interface.functions.is_empty()) {
            continue;
        }
        match write_interface(resolve, *id, interface_name, types, &mut text) {
            Ok(()) => interfaces.push(interface_name.clone()),
            Err(reason) => skipped.push((interface_name.clone(), reason)),
        }
    }
    if interfaces.is_empty() && skipped.is_empty() {
        return None;
    }
    Some(DerivedPackage {
        contract: contract.name.to_string(),
        file_name: format!("{}-{}.wit", name.namespace, name.name),
        name: name.to_string(),
        text,
        interfaces,
        skipped,
    })
}

/// Appends the three interfaces derived from one; the reason when there can be none, and nothing is appended.
fn write_interface(
    resolve: &Resolve,
    id: InterfaceId,
    name: &str,
    types: ContractTypes,
    text: &mut String,
) -> Result<(), String> {
    for flavour in [Flavour::Send, Flavour::Async] {
        if name.ends_with(flavour.suffix()) {
            return Err(format!(
                "the name of a grain interface may not end in `{}`, which names derived interfaces",
                flavour.suffix()
            ));
        }
    }
    let interface = Interface::from_resolve(resolve, id).map_err(|error| error.to_string())?;
    let mut all = String::new();
    for flavour in Flavour::ALL {
        let mut writer = Writer { resolve, flavour, types, names: Names::default() };
        let body = writer.write(id, name, &interface.id).ok_or_else(|| {
            format!("its types cannot be named, or nest deeper than {TYPE_DEPTH_MAX}, from another package")
        })?;
        all.push_str(&body);
    }
    text.push_str(&all);
    Ok(())
}

/// Local names of the types that an interface uses.
#[derive(Default)]
struct Names {
    taken: BTreeSet<String>,
    /// Local names by interface and type name there.
    uses: BTreeMap<String, BTreeMap<String, String>>,
    /// Local names by definition.
    by_id: HashMap<TypeId, String>,
    /// The types that are copied.
    copied: Vec<TypeId>,
}

impl Names {
    /// The local name for a type that is used; a name that is taken already gets `prefix` in front.
    fn local(&mut self, path: &str, name: &str, prefix: &str) -> String {
        if let Some(local) = self.uses.get(path).and_then(|names| names.get(name)) {
            return local.clone();
        }
        let local = self.take(name, prefix);
        self.uses.entry(path.to_owned()).or_default().insert(name.to_owned(), local.clone());
        local
    }

    /// Takes a name; one that is taken already gets `prefix` in front.
    fn take(&mut self, name: &str, prefix: &str) -> String {
        let mut local = name.to_owned();
        while !self.taken.insert(local.clone()) {
            local = format!("{prefix}-{local}");
        }
        local
    }
}

pub(super) struct Writer<'a> {
    pub(super) resolve: &'a Resolve,
    flavour: Flavour,
    types: ContractTypes,
    names: Names,
}

impl Writer<'_> {
    /// The text of one derived interface; `None` when a type has no name that can be used from outside.
    fn write(&mut self, id: InterfaceId, name: &str, contract_id: &str) -> Option<String> {
        let resolve = self.resolve;
        let functions = &resolve.interfaces.get(id)?.functions;
        self.names.taken.extend(functions.keys().cloned());
        // The contract's types come first, so that they keep their names.
        for function in functions.values() {
            for ty in function.params.iter().map(|param| &param.ty).chain(self.wanted_result(function)) {
                self.collect(ty, 1)?;
            }
        }
        let grain_types = granary_types();
        let grain_ref = self.names.local(&grain_types, "grain-ref", "granary");
        let call_error = self.names.local(&grain_types, "call-error", "granary");
        let mut text = String::new();
        let what = match self.flavour {
            Flavour::Call => "Calls",
            Flavour::Send => "One-way calls",
            Flavour::Async => "Asynchronous calls",
        };
        let suffix = self.flavour.suffix();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\n/// {what} to grains that implement `{contract_id}`.\ninterface {} {{",
            escaped(&format!("{name}{suffix}"))
        );
        for (path, names) in &self.names.uses {
            let names: Vec<String> = names.iter().map(|(name, local)| use_item(name, local)).collect();
            let _ = writeln!(text, "    use {path}.{{{}}};", names.join(", "));
        }
        for id in &self.names.copied {
            text.push('\n');
            self.write_definition(&mut text, *id, self.names.by_id.get(id)?)?;
        }
        for (function_name, function) in functions {
            text.push('\n');
            self.write_function(&mut text, function_name, function, &grain_ref, &call_error)?;
        }
        text.push_str("}\n");
        Some(text)
    }

    fn write_function(
        &self,
        text: &mut String,
        name: &str,
        function: &Function,
        grain_ref: &str,
        call_error: &str,
    ) -> Option<()> {
        if self.flavour == Flavour::Call {
            for line in function.docs.contents.as_deref().unwrap_or_default().lines() {
                let _ = writeln!(text, "    {}", format!("/// {line}").trim_end());
            }
        }
        let mut to = "to".to_owned();
        while function.params.iter().any(|param| param.name == to) {
            to.push_str("-grain");
        }
        let keyword = if self.flavour == Flavour::Async { "async func" } else { "func" };
        let _ = write!(text, "    {}: {keyword}({to}: {}", escaped(name), escaped(grain_ref));
        for param in &function.params {
            let _ = write!(text, ", {}: {}", escaped(&param.name), self.type_text(&param.ty, 1)?);
        }
        let inner = match self.wanted_result(function) {
            Some(ty) => self.type_text(ty, 1)?,
            None => "_".to_owned(),
        };
        let _ = writeln!(text, ") -> result<{inner}, {}>;", escaped(call_error));
        Some(())
    }

    fn wanted_result<'f>(&self, function: &'f Function) -> Option<&'f wit_parser::Type> {
        function.result.as_ref().filter(|_| self.flavour != Flavour::Send)
    }

    /// Gives local names to the named types in `ty`.
    fn collect(&mut self, ty: &wit_parser::Type, level: usize) -> Option<()> {
        let wit_parser::Type::Id(id) = ty else { return Some(()) };
        if self.names.by_id.contains_key(id) {
            return Some(());
        }
        if self.resolve.types.get(*id)?.name.is_some() {
            let (path, name) = self.path_of(*id)?;
            if self.types == ContractTypes::Copied && path != granary_types() {
                return self.copy(*id, &name, level);
            }
            let local = self.names.local(&path, &name, "contract");
            self.names.by_id.insert(*id, local);
            return Some(());
        }
        if level > TYPE_DEPTH_MAX {
            return None;
        }
        for part in parts(&self.resolve.types.get(*id)?.kind)? {
            self.collect(part, level + 1)?;
        }
        Some(())
    }

    /// Has a named type copied, and what it is made of. Types that only rename it are the same type.
    fn copy(&mut self, id: TypeId, name: &str, level: usize) -> Option<()> {
        let definition = self.definition(id)?;
        let local = match self.names.by_id.get(&definition) {
            Some(local) => local.clone(),
            None => {
                if level > TYPE_DEPTH_MAX {
                    return None;
                }
                let local = self.names.take(name, "contract");
                self.names.by_id.insert(definition, local.clone());
                for part in definition::parts(&self.resolve.types.get(definition)?.kind)? {
                    self.collect(part, level + 1)?;
                }
                self.names.copied.push(definition);
                local
            }
        };
        self.names.by_id.insert(id, local);
        Some(())
    }

    /// The type that a name stands for in the end.
    fn definition(&self, id: TypeId) -> Option<TypeId> {
        let mut at = id;
        for _ in 0..=self.resolve.types.len() {
            match self.resolve.types.get(at)?.kind {
                TypeDefKind::Type(wit_parser::Type::Id(next))
                    if self.resolve.types.get(next)?.name.is_some() =>
                {
                    at = next;
                }
                _ => break,
            }
        }
        Some(at)
    }

    /// Where a named type can be used from: interface and name. Granary's own types are taken from Granary,
    /// whatever they are called in the contract.
    fn path_of(&self, id: TypeId) -> Option<(String, String)> {
        let mut at = id;
        for _ in 0..=self.resolve.types.len() {
            let definition = self.resolve.types.get(at)?;
            if let (TypeOwner::Interface(owner), Some(name)) = (definition.owner, &definition.name) {
                let path = self.interface_path(owner)?;
                if path == granary_types() {
                    return Some((path, name.clone()));
                }
            }
            match definition.kind {
                TypeDefKind::Type(wit_parser::Type::Id(next)) => at = next,
                _ => break,
            }
        }
        let definition = self.resolve.types.get(id)?;
        let TypeOwner::Interface(owner) = definition.owner else { return None };
        Some((self.interface_path(owner)?, definition.name.clone()?))
    }

    fn interface_path(&self, id: InterfaceId) -> Option<String> {
        let interface = self.resolve.interfaces.get(id)?;
        let package = &self.resolve.packages.get(interface.package?)?.name;
        let version = package.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
        Some(format!(
            "{}:{}/{}{version}",
            escaped(&package.namespace),
            escaped(&package.name),
            escaped(interface.name.as_ref()?)
        ))
    }

    pub(super) fn type_text(&self, ty: &wit_parser::Type, level: usize) -> Option<String> {
        let plain = match ty {
            wit_parser::Type::Bool => "bool",
            wit_parser::Type::U8 => "u8",
            wit_parser::Type::U16 => "u16",
            wit_parser::Type::U32 => "u32",
            wit_parser::Type::U64 => "u64",
            wit_parser::Type::S8 => "s8",
            wit_parser::Type::S16 => "s16",
            wit_parser::Type::S32 => "s32",
            wit_parser::Type::S64 => "s64",
            wit_parser::Type::F32 => "f32",
            wit_parser::Type::F64 => "f64",
            wit_parser::Type::Char => "char",
            wit_parser::Type::String => "string",
            wit_parser::Type::ErrorContext => return None,
            wit_parser::Type::Id(id) => return self.id_text(*id, level),
        };
        Some(plain.to_owned())
    }

    fn id_text(&self, id: TypeId, level: usize) -> Option<String> {
        if let Some(local) = self.names.by_id.get(&id) {
            return Some(escaped(local));
        }
        if level > TYPE_DEPTH_MAX {
            return None;
        }
        self.kind_text(&self.resolve.types.get(id)?.kind, level)
    }

    /// A type that is written in place.
    pub(super) fn kind_text(&self, kind: &TypeDefKind, level: usize) -> Option<String> {
        let texts = parts(kind)?
            .into_iter()
            .map(|part| self.type_text(part, level + 1))
            .collect::<Option<Vec<String>>>()?;
        let keyword = kind.as_str();
        Some(match kind {
            TypeDefKind::Result(result) => match (&result.ok, &result.err, texts.as_slice()) {
                (None, Some(_), [err]) => format!("result<_, {err}>"),
                (_, _, []) => keyword.to_owned(),
                _ => format!("result<{}>", texts.join(", ")),
            },
            _ => format!("{keyword}<{}>", texts.join(", ")),
        })
    }
}

/// The types that an unnamed type is made of; `None` when it is of a kind that WIT cannot write in place.
pub(super) fn parts(kind: &TypeDefKind) -> Option<Vec<&wit_parser::Type>> {
    Some(match kind {
        TypeDefKind::List(ty) | TypeDefKind::Option(ty) => vec![ty],
        TypeDefKind::Tuple(tuple) => tuple.types.iter().collect(),
        TypeDefKind::Result(result) => result.ok.iter().chain(&result.err).collect(),
        _ => return None,
    })
}

/// The interface of Granary's own types.
fn granary_types() -> String {
    format!("granary:grain/types@{GRAIN_VERSION}")
}

fn use_item(name: &str, local: &str) -> String {
    if name == local { escaped(name) } else { format!("{} as {}", escaped(name), escaped(local)) }
}

fn escaped_package(name: &PackageName) -> String {
    let version = name.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
    format!("{}:{}{version}", escaped(&name.namespace), escaped(&name.name))
}

/// An identifier as it must be written: the words of WIT's own grammar get a `%`.
pub(super) fn escaped(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("%{name}") } else { name.to_owned() }
}

/// The words that WIT's grammar reserves; a `%` before any other word would do no harm.
pub(super) const KEYWORDS: &[&str] = &[
    "as",
    "async",
    "bool",
    "borrow",
    "char",
    "constructor",
    "enum",
    "error-context",
    "export",
    "f32",
    "f64",
    "flags",
    "from",
    "func",
    "future",
    "import",
    "include",
    "interface",
    "list",
    "map",
    "option",
    "own",
    "package",
    "record",
    "resource",
    "result",
    "s16",
    "s32",
    "s64",
    "s8",
    "static",
    "stream",
    "string",
    "tuple",
    "type",
    "u16",
    "u32",
    "u64",
    "u8",
    "use",
    "variant",
    "with",
    "world",
];
