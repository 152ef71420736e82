//! The contract: the WIT files of the project, Granary's own package, the packages of references derived from
//! the contract, and a world around them. The world stands in a package of its own, since WIT packages may not
//! depend on each other in a circle (decision A3).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use granary_wit::{
    ContractTypes, GRAIN_VERSION, Interface, derive_package, is_grain_interface, push_grain_package,
};
use proc_macro2::Span;
use syn::{Error, LitStr};
use wit_parser::{Function, FunctionKind, InterfaceId, PackageId, PackageName, Resolve, WorldId};

use crate::args::Args;
use crate::client::ClientArgs;
use crate::sdk::Sdk;

/// Where the contract lies when the user does not say.
const WIT_DIR: &str = "wit";

/// The package that the generated world stands in.
const WORLD_PACKAGE: &str = "granary-component:grain";

/// An interface that other grains are called by, and what was derived from it.
pub(crate) struct Reference {
    pub(crate) interface: InterfaceId,
    pub(crate) calls: InterfaceId,
    pub(crate) sends: InterfaceId,
    /// Only where the grain can await: some function that it exports is asynchronous.
    pub(crate) awaits: Option<InterfaceId>,
}

impl Reference {
    /// Whether an interface is one of those that were derived.
    pub(crate) fn has(&self, id: InterfaceId) -> bool {
        self.calls == id || self.sends == id || self.awaits == Some(id)
    }
}

/// Everything that code is generated from.
pub(crate) struct Contract {
    pub(crate) sdk: Sdk,
    pub(crate) resolve: Resolve,
    pub(crate) world: WorldId,
    pub(crate) exports: Vec<InterfaceId>,
    pub(crate) refs: Vec<Reference>,
    /// The WIT files that were read, absolute.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) grain_type: String,
}

impl Contract {
    /// Reads the project's WIT files, and builds the world that the arguments ask for.
    pub(crate) fn load(args: &Args) -> Result<Self, Error> {
        let span = args.wit.as_ref().map_or_else(Span::call_site, LitStr::span);
        let dir = args.wit.as_ref().map_or_else(|| WIT_DIR.to_owned(), LitStr::value);
        let (mut resolve, main, files) = read(&dir).map_err(|message| Error::new(span, message))?;
        let exports = exports(&resolve, main, args, &dir)?;
        let asynchronous = has_async(&resolve, &exports);
        if let (Some(span), false) = (args.reentrant, asynchronous) {
            return Err(Error::new(
                span,
                "only a grain with an `async func` among its methods can be reentrant",
            ));
        }
        let refs = args
            .refs
            .iter()
            .map(|name| reference(&mut resolve, main, name, &dir, asynchronous))
            .collect::<Result<Vec<_>, Error>>()?;
        let grain_type = match (&args.grain_type, exports.first()) {
            (Some(name), _) => name.value(),
            (None, Some(interface)) => interface_name(&resolve, *interface).to_owned(),
            (None, None) => return Err(Error::new(span, "a grain needs an interface")),
        };
        let text = world_text(&resolve, &exports, &refs, args);
        let world = push_world(&mut resolve, &text, span)?;
        Ok(Self { sdk: Sdk::Guest, resolve, world, exports, refs, files, grain_type })
    }

    /// Reads the WIT files for a program outside the cluster: a world that imports the interfaces, of which only the
    /// types are used.
    pub(crate) fn for_client(args: &ClientArgs) -> Result<Self, Error> {
        let span = args.wit.as_ref().map_or_else(Span::call_site, LitStr::span);
        let dir = args.wit.as_ref().map_or_else(|| WIT_DIR.to_owned(), LitStr::value);
        let (mut resolve, main, files) = read(&dir).map_err(|message| Error::new(span, message))?;
        let interfaces = if args.interfaces.is_empty() {
            let own = own_interfaces(&resolve, main);
            own.iter().try_for_each(|id| check(&resolve, *id, span))?;
            own
        } else {
            let named = args.interfaces.iter().map(|name| interface(&resolve, main, name, &dir));
            named.collect::<Result<Vec<_>, Error>>()?
        };
        if interfaces.is_empty() {
            return Err(Error::new(span, format!("there is nothing to call; {}", found(&resolve, &dir))));
        }
        let mut text = format!("package {WORLD_PACKAGE};\nworld client {{\n");
        for interface in &interfaces {
            let _ = writeln!(text, "import {};", escaped(&resolve, *interface));
        }
        text.push_str("}\n");
        let world = push_world(&mut resolve, &text, span)?;
        let (exports, refs) = (Vec::new(), Vec::new());
        Ok(Self { sdk: Sdk::Client, resolve, world, exports, refs, files, grain_type: String::new() })
    }
}

fn push_world(resolve: &mut Resolve, text: &str, span: Span) -> Result<WorldId, Error> {
    resolve
        .push_source("granary-component.wit", text)
        .and_then(|package| resolve.select_world(&[package], None))
        .map_err(|error| Error::new(span, resolve.render_error(&error)))
}

/// The grain interfaces of the main package.
fn own_interfaces(resolve: &Resolve, main: PackageId) -> Vec<InterfaceId> {
    grain_interfaces(resolve)
        .filter(|id| resolve.interfaces.get(*id).is_some_and(|it| it.package == Some(main)))
        .collect()
}

/// The packages under a folder, and Granary's own, which the folder may hold too.
fn read(dir: &str) -> Result<(Resolve, PackageId, Vec<PathBuf>), String> {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let path = root.join(dir);
    if !path.is_dir() {
        return Err(format!(
            "there is no folder `{dir}` beside Cargo.toml to read the grain's WIT package from; \
             make it, or name another by `wit = \"…\"`"
        ));
    }
    // Canonical, so that the files are tracked wherever the compiler is started.
    let path = path.canonicalize().map_err(|error| format!("the folder `{dir}` cannot be read: {error}"))?;
    let mut resolve = Resolve::default();
    let with_ours = push_grain_package(&mut resolve)
        .map_err(|error| error.to_string())
        .and_then(|_| push(&mut resolve, &path));
    match with_ours {
        Ok((main, files)) => Ok((resolve, main, files)),
        Err(first) => {
            let mut resolve = Resolve::default();
            let Ok((main, files)) = push(&mut resolve, &path) else { return Err(first) };
            let has_ours = resolve
                .packages
                .iter()
                .any(|(_, package)| package.name.namespace == "granary" && package.name.name == "grain");
            if has_ours { Ok((resolve, main, files)) } else { Err(first) }
        }
    }
}

/// Errors name files from the folder on, as the user knows them.
fn push(resolve: &mut Resolve, path: &Path) -> Result<(PackageId, Vec<PathBuf>), String> {
    match resolve.push_dir(path) {
        Ok((main, sources)) => Ok((main, sources.paths().map(Path::to_owned).collect())),
        Err(error) => {
            let above = path.parent().map(|above| format!("{}/", above.display())).unwrap_or_default();
            Err(resolve.render_error(&error).replace(&above, ""))
        }
    }
}

fn exports(resolve: &Resolve, main: PackageId, args: &Args, dir: &str) -> Result<Vec<InterfaceId>, Error> {
    if !args.interfaces.is_empty() {
        return args.interfaces.iter().map(|name| interface(resolve, main, name, dir)).collect();
    }
    let own = own_interfaces(resolve, main);
    match own.as_slice() {
        [only] => {
            check(resolve, *only, Span::call_site())?;
            Ok(own)
        }
        _ => Err(Error::new(
            Span::call_site(),
            format!("say which interface the grain implements: `interface = \"…\"`; {}", found(resolve, dir)),
        )),
    }
}

/// The interface that the user names, with or without version, or by its own name in the main package.
fn interface(resolve: &Resolve, main: PackageId, name: &LitStr, dir: &str) -> Result<InterfaceId, Error> {
    let text = name.value();
    let matching: Vec<InterfaceId> = grain_interfaces(resolve)
        .filter(|id| {
            let full = full_name(resolve, *id);
            let in_main = resolve.interfaces.get(*id).is_some_and(|it| it.package == Some(main));
            full == text
                || without_version(&full) == text
                || (in_main && interface_name(resolve, *id) == text)
        })
        .collect();
    match matching.as_slice() {
        [only] => {
            check(resolve, *only, name.span())?;
            Ok(*only)
        }
        [] => Err(Error::new(
            name.span(),
            format!("there is no grain interface `{text}`; {}", found(resolve, dir)),
        )),
        several => {
            let names: Vec<String> =
                several.iter().map(|id| format!("`{}`", full_name(resolve, *id))).collect();
            Err(Error::new(name.span(), format!("`{text}` may be any of {}", names.join(", "))))
        }
    }
}

fn check(resolve: &Resolve, id: InterfaceId, span: Span) -> Result<(), Error> {
    Interface::from_resolve(resolve, id).map(|_| ()).map_err(|error| Error::new(span, error.to_string()))
}

/// Whether a function is asynchronous: the SDK's `async fn` for WIT's `async func`.
pub(crate) fn is_async(function: &Function) -> bool {
    use FunctionKind as K;
    matches!(function.kind, K::AsyncFreestanding | K::AsyncMethod(_) | K::AsyncStatic(_))
}

fn has_async(resolve: &Resolve, exports: &[InterfaceId]) -> bool {
    let interfaces = exports.iter().filter_map(|id| resolve.interfaces.get(*id));
    interfaces.flat_map(|interface| interface.functions.values()).any(is_async)
}

/// The package of references for an interface, made unless the project holds it already.
fn reference(
    resolve: &mut Resolve,
    main: PackageId,
    name: &LitStr,
    dir: &str,
    asynchronous: bool,
) -> Result<Reference, Error> {
    let id = interface(resolve, main, name, dir)?;
    let refuse = |message: String| Error::new(name.span(), message);
    let short = interface_name(resolve, id).to_owned();
    let package = resolve.interfaces.get(id).and_then(|interface| interface.package);
    let package = package.ok_or_else(|| refuse("the interface is in no package".to_owned()))?;
    let derived = derive_package(resolve, package, ContractTypes::Used)
        .ok_or_else(|| refuse(format!("no references can be made for `{}`", name.value())))?;
    if let Some((_, reason)) = derived.skipped.iter().find(|(skipped, _)| *skipped == short) {
        return Err(refuse(format!("no references can be made for `{}`: {reason}", name.value())));
    }
    let there = resolve.packages.iter().find(|(_, it)| it.name.to_string() == derived.name).map(|(id, _)| id);
    let derived_package = match there {
        Some(there) => there,
        None => resolve
            .push_source(&derived.file_name, &derived.text)
            .map_err(|error| refuse(resolve.render_error(&error)))?,
    };
    let interfaces = resolve.packages.get(derived_package).map(|package| &package.interfaces);
    let of = |name: String| {
        interfaces
            .and_then(|interfaces| interfaces.get(&name).copied())
            .ok_or_else(|| refuse(format!("the package {} has no interface `{name}`", derived.name)))
    };
    let awaits = asynchronous.then(|| of(format!("{short}-async"))).transpose()?;
    Ok(Reference { interface: id, calls: of(short.clone())?, sends: of(format!("{short}-send"))?, awaits })
}

/// The interfaces with functions that are neither Granary's, nor WASI's, nor derived.
fn grain_interfaces(resolve: &Resolve) -> impl Iterator<Item = InterfaceId> {
    resolve.interfaces.iter().filter_map(|(id, interface)| {
        let full = resolve.id_of(id)?;
        let package = &resolve.packages.get(interface.package?)?.name.name;
        let users = is_grain_interface(&full) && !package.ends_with("-refs");
        (users && !interface.functions.is_empty()).then_some(id)
    })
}

fn found(resolve: &Resolve, dir: &str) -> String {
    let mut names: Vec<String> =
        grain_interfaces(resolve).map(|id| format!("`{}`", full_name(resolve, id))).collect();
    names.sort();
    match names.as_slice() {
        [] => format!("the folder `{dir}` has no interface with functions"),
        names => format!("the folder `{dir}` has {}", names.join(", ")),
    }
}

/// `acme:bank/account@1.0.0`.
fn full_name(resolve: &Resolve, id: InterfaceId) -> String {
    resolve.id_of(id).unwrap_or_default()
}

/// `acme:bank/account` (decision A6).
pub(crate) fn id_text(resolve: &Resolve, id: InterfaceId) -> String {
    without_version(&full_name(resolve, id)).to_owned()
}

fn without_version(full: &str) -> &str {
    full.split('@').next().unwrap_or(full)
}

/// `account`.
pub(crate) fn interface_name(resolve: &Resolve, id: InterfaceId) -> &str {
    resolve.interfaces.get(id).and_then(|interface| interface.name.as_deref()).unwrap_or_default()
}

fn world_text(resolve: &Resolve, exports: &[InterfaceId], refs: &[Reference], args: &Args) -> String {
    let mut text = format!("package {WORLD_PACKAGE};\nworld grain {{\n");
    // Writing to a string cannot fail.
    for reference in refs {
        let _ = writeln!(text, "import {};", escaped(resolve, reference.calls));
        let _ = writeln!(text, "import {};", escaped(resolve, reference.sends));
        if let Some(awaits) = reference.awaits {
            let _ = writeln!(text, "import {};", escaped(resolve, awaits));
        }
    }
    for interface in exports {
        let _ = writeln!(text, "export {};", escaped(resolve, *interface));
    }
    // Always, since persistent fields are read and logging is connected there.
    let _ = writeln!(text, "export granary:grain/lifecycle@{GRAIN_VERSION};");
    if args.migration.is_some() {
        let _ = writeln!(text, "export granary:grain/migration@{GRAIN_VERSION};");
    }
    text.push_str("}\n");
    text
}

/// The name with every word marked as no keyword.
fn escaped(resolve: &Resolve, id: InterfaceId) -> String {
    let package = resolve.interfaces.get(id).and_then(|interface| interface.package);
    let Some(PackageName { namespace, name, version }) =
        package.and_then(|package| resolve.packages.get(package)).map(|package| &package.name)
    else {
        return String::new();
    };
    let version = version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
    format!("%{namespace}:%{name}/%{}{version}", interface_name(resolve, id))
}
