//! The package `granary:grain`: its text, and the two of its types that derived packages are made with.

use std::sync::{Arc, LazyLock};

use wit_parser::{PackageId, Resolve, SourceMap};

use crate::types::{Case, Field, Type};

/// The version of the package `granary:grain` that this build speaks.
pub const GRAIN_VERSION: &str = "0.1.0";

/// The files of the package `granary:grain`: name and text.
pub const GRAIN_WIT: &[(&str, &str)] = &[
    ("calls.wit", include_str!("../../../../wit/calls.wit")),
    ("context.wit", include_str!("../../../../wit/context.wit")),
    ("lifecycle.wit", include_str!("../../../../wit/lifecycle.wit")),
    ("logging.wit", include_str!("../../../../wit/logging.wit")),
    ("migration.wit", include_str!("../../../../wit/migration.wit")),
    ("state.wit", include_str!("../../../../wit/state.wit")),
    ("types.wit", include_str!("../../../../wit/types.wit")),
    ("world.wit", include_str!("../../../../wit/world.wit")),
];

/// `granary:grain` could not be added to a set of packages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot add the package granary:grain@{GRAIN_VERSION}: {0}")]
pub struct GrainPackageError(String);

/// Adds the package `granary:grain` to a set of packages; gives the one that is there when the set has it.
///
/// # Errors
/// Fails when the set has something that the package's text does not go together with.
pub fn push_grain_package(resolve: &mut Resolve) -> Result<PackageId, GrainPackageError> {
    let mut sources = SourceMap::new();
    for (name, text) in GRAIN_WIT {
        sources.push_str(name, *text);
    }
    let group = sources.parse().map_err(|(_, error)| GrainPackageError(error.to_string()))?;
    // Adding a package twice is no error to the parser but a panic.
    if let Some(id) = resolve.package_names.get(&group.main.name) {
        return Ok(*id);
    }
    resolve.push_group(group).map_err(|error| GrainPackageError(error.to_string()))
}

/// The structure of `granary:grain/types.grain-ref`.
#[must_use]
pub fn grain_ref_type() -> &'static Type {
    static TYPE: LazyLock<Type> = LazyLock::new(|| {
        let field = |name: &str| Field { name: name.into(), ty: Type::String };
        Type::Record(Arc::new([field("grain-type"), field("key")]))
    });
    &TYPE
}

/// The structure of `granary:grain/types.call-error`.
#[must_use]
pub fn call_error_type() -> &'static Type {
    static TYPE: LazyLock<Type> = LazyLock::new(|| {
        let case = |name: &str, ty: Option<Type>| Case { name: name.into(), ty };
        let text = |name: &str| case(name, Some(Type::String));
        Type::Variant(Arc::new([
            text("not-delivered"),
            text("unknown-outcome"),
            case("overloaded", Some(Type::U32)),
            text("not-found"),
            text("incompatible"),
            case("timed-out", None),
            text("failed"),
            case("cancelled", None),
            case("deadlock", Some(Type::List(Arc::new(Type::String)))),
            case("fenced", None),
        ]))
    });
    &TYPE
}

#[cfg(test)]
mod tests {
    use wit_parser::Resolve;

    use super::{GRAIN_VERSION, GRAIN_WIT, call_error_type, grain_ref_type, push_grain_package};
    use crate::testing::find;

    #[test]
    fn types_are_those_of_the_package() {
        let mut resolve = Resolve::default();
        let package = push_grain_package(&mut resolve).unwrap();
        let version = resolve.packages[package].name.version.as_ref().unwrap();
        assert_eq!(version.to_string(), GRAIN_VERSION);
        resolve
            .push_source(
                "t.wit",
                "package t:t;\ninterface i { use granary:grain/types@0.1.0.{grain-ref, call-error};
                 f: func(a: grain-ref) -> call-error; }",
            )
            .unwrap();
        let interface = crate::Interface::from_resolve(&resolve, find(&resolve, "t:t/i")).unwrap();
        let signature = &interface.functions["f"];
        assert_eq!(&signature.params[0].1, grain_ref_type());
        assert_eq!(signature.result.as_ref(), Some(call_error_type()));
    }

    #[test]
    fn every_file_of_the_package_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../wit");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".wit"))
            .collect();
        names.sort();
        let listed: Vec<&str> = GRAIN_WIT.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, listed);
    }

    #[test]
    fn pushing_twice_gives_the_same_package() {
        let mut resolve = Resolve::default();
        let first = push_grain_package(&mut resolve).unwrap();
        assert_eq!(push_grain_package(&mut resolve).unwrap(), first);
    }
}
