//! The package `granary:grain` of this host, against which a component's imports and exports are checked: a
//! component that was built against another contract is refused by name, instead of failing obscurely later.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use granary_wit::{GRAIN_VERSION, Interface, compare, push_grain_package};
use wit_parser::Resolve;

use super::InspectError;

/// The package without its version.
pub(crate) const CONTRACT_PACKAGE: &str = "granary:grain";

/// The interfaces of the contract by name; the reason when the host's own files do not parse, which a test rules
/// out.
fn interfaces() -> Result<&'static BTreeMap<String, Interface>, InspectError> {
    static CONTRACT: OnceLock<Result<BTreeMap<String, Interface>, String>> = OnceLock::new();
    CONTRACT
        .get_or_init(parse)
        .as_ref()
        .map_err(|error| InspectError::Undecodable(format!("this host's own contract: {error}")))
}

fn parse() -> Result<BTreeMap<String, Interface>, String> {
    let mut resolve = Resolve::default();
    push_grain_package(&mut resolve).map_err(|error| error.to_string())?;
    let mut interfaces = BTreeMap::new();
    for (id, interface) in resolve.interfaces.iter() {
        let Some(name) = &interface.name else { continue };
        let interface = Interface::from_resolve(&resolve, id).map_err(|error| error.to_string())?;
        interfaces.insert(name.clone(), interface);
    }
    Ok(interfaces)
}

/// Whether the contract has an interface of this name.
pub(super) fn has(name: &str) -> Result<bool, InspectError> {
    Ok(interfaces()?.contains_key(name))
}

/// Compares an import of the contract: each function that the component uses must be the host's.
pub(super) fn check_import(name: &str, found: &Interface) -> Result<(), InspectError> {
    let problem = |mismatch: String| InspectError::Contract { name: found.id.clone(), mismatch };
    let contract = interfaces()?;
    let host = contract.get(name).ok_or_else(|| problem("there is no such interface".to_owned()))?;
    check_version(found)?;
    for (function, signature) in &found.functions {
        let expected = host
            .functions
            .get(function)
            .ok_or_else(|| problem(format!("there is no function `{function}`, it has `{signature}`")))?;
        if signature.is_async != expected.is_async {
            return Err(problem(format!("`{function}` is `{signature}`, and here `{expected}`")));
        }
        if let Some(mismatch) = compare(function, expected, signature) {
            return Err(problem(mismatch.to_string()));
        }
    }
    Ok(())
}

/// Compares an export that the host calls: all of the contract's functions must be there.
pub(super) fn check_export(name: &str, found: &Interface) -> Result<(), InspectError> {
    check_import(name, found)?;
    let contract = interfaces()?;
    let missing = contract
        .get(name)
        .and_then(|host| host.functions.keys().find(|function| !found.functions.contains_key(*function)));
    match missing {
        Some(function) => Err(InspectError::Contract {
            name: found.id.clone(),
            mismatch: format!("the function `{function}` is missing"),
        }),
        None => Ok(()),
    }
}

/// Patch versions are compatible; below 1.0 the minor version decides (decision A6).
fn check_version(found: &Interface) -> Result<(), InspectError> {
    let series = |version: &str| {
        let mut parts = version.split('.').map(str::to_owned);
        (parts.next(), parts.next())
    };
    if series(&found.version) == series(GRAIN_VERSION) {
        return Ok(());
    }
    Err(InspectError::Contract {
        name: found.id.clone(),
        mismatch: format!("the component was built against version {}", found.version),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_contract_parses() {
        let interfaces = interfaces().unwrap();
        for name in ["calls", "context", "lifecycle", "logging", "migration", "state"] {
            assert!(!interfaces[name].functions.is_empty(), "{name}");
            assert_eq!(interfaces[name].version, GRAIN_VERSION);
        }
    }
}
