//! What the tests of several modules need.

use wit_parser::{InterfaceId, Resolve};

use crate::{Interface, Signature};

/// Parses packages in order, each of which may use those before it.
pub(crate) fn resolve(packages: &[&str]) -> Resolve {
    let mut resolve = Resolve::default();
    for (index, text) in packages.iter().enumerate() {
        if let Err(error) = resolve.push_source(&format!("package-{index}.wit"), text) {
            panic!("{}\n{text}", resolve.render_error(&error));
        }
    }
    resolve
}

/// The interface of this id, with or without version.
pub(crate) fn find(resolve: &Resolve, name: &str) -> InterfaceId {
    resolve
        .interfaces
        .iter()
        .map(|(id, _)| id)
        .find(|id| resolve.id_of(*id).is_some_and(|found| found.split('@').next() == Some(name)))
        .unwrap_or_else(|| panic!("no interface {name}"))
}

/// The one function of an interface made of type definitions and a function type.
pub(crate) fn signature(types: &str, function: &str) -> Signature {
    let resolve = resolve(&[&format!("package t:t;\ninterface i {{ {types}\n f: {function}; }}")]);
    let interface = Interface::from_resolve(&resolve, find(&resolve, "t:t/i")).unwrap();
    interface.functions["f"].clone()
}

/// The one-parameter signature's parameter type.
pub(crate) fn param(types: &str, ty: &str) -> crate::Type {
    signature(types, &format!("func(a: {ty})")).params.remove(0).1
}
