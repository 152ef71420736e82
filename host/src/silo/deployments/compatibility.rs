//! Whether a new component fits what is deployed (decisions A5, A6).

use std::collections::BTreeMap;

use granary_core::hosting::{ClassInfo, InterfaceInfo};
use granary_core::id::GrainType;

use crate::silo::types::LoadedType;

/// Compares the methods that the new component calls with those that are deployed, and the methods that deployed
/// components call with those that the new one has.
///
/// Gives remarks; a contradiction is an error unless `force`, and then a remark.
pub(crate) fn check(
    info: &ClassInfo,
    loaded: &BTreeMap<GrainType, LoadedType>,
    force: bool,
) -> Result<Vec<String>, String> {
    let others: Vec<&ClassInfo> =
        loaded.iter().filter(|(name, _)| **name != info.grain_type).map(|(_, it)| it.class.info()).collect();
    let (mut notes, mut contradictions) = (Vec::new(), Vec::new());
    for reference in &info.references {
        let own = info.interfaces.iter().filter(|interface| interface.id == reference.id);
        let targets: Vec<(&GrainType, &InterfaceInfo)> = own
            .map(|interface| (&info.grain_type, interface))
            .chain(implementers(&others, &reference.id))
            .collect();
        if targets.is_empty() {
            notes.push(format!("it calls {}, which nothing deployed implements yet", reference.id));
        }
        for (grain_type, interface) in targets {
            contradictions.extend(differences(reference, interface).into_iter().map(|difference| {
                format!("it calls {} of grain type {grain_type}: {difference}", reference.id)
            }));
        }
    }
    for interface in &info.interfaces {
        for caller in &others {
            for reference in caller.references.iter().filter(|reference| reference.id == interface.id) {
                contradictions.extend(differences(reference, interface).into_iter().map(|difference| {
                    format!("grain type {} calls {}: {difference}", caller.grain_type, interface.id)
                }));
            }
        }
    }
    if let Some(earlier) = loaded.get(&info.grain_type) {
        notes.extend(changes(earlier.class.info(), info));
    }
    if contradictions.is_empty() || force {
        notes.extend(contradictions);
        return Ok(notes);
    }
    Err(format!("{}; deploy with --force if that is meant", contradictions.join("; ")))
}

fn implementers<'a>(
    infos: &'a [&ClassInfo],
    interface: &'a str,
) -> impl Iterator<Item = (&'a GrainType, &'a InterfaceInfo)> {
    infos.iter().flat_map(move |info| {
        info.interfaces.iter().filter(move |it| it.id == interface).map(|it| (&info.grain_type, it))
    })
}

/// The methods that a caller uses and that are not there, or of another type; both types named.
fn differences(used: &InterfaceInfo, there: &InterfaceInfo) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, method) in &used.methods {
        match there.methods.get(name) {
            None => differences.push(format!("it has no method {name}")),
            Some(found) if !found.accepts(&method.hash) => differences
                .push(format!("method {name} is called as {}, and is {}", method.signature, found.signature)),
            Some(_) => {}
        }
    }
    differences
}

/// What a newer component changes for callers that are not deployed, such as programs at the gateway.
fn changes(earlier: &ClassInfo, later: &ClassInfo) -> Vec<String> {
    let mut notes = Vec::new();
    for old in &earlier.interfaces {
        let Some(new) = later.interfaces.iter().find(|interface| interface.id == old.id) else {
            notes.push(format!("interface {} is gone", old.id));
            continue;
        };
        if compatible_versions(&old.version, &new.version) {
            notes.extend(
                differences(old, new)
                    .into_iter()
                    .map(|difference| format!("{} keeps version {}, but {difference}", old.id, new.version)),
            );
        }
    }
    notes
}

/// Same major version, or same minor below 1.0: callers may expect what was there (decision A6).
fn compatible_versions(old: &str, new: &str) -> bool {
    let parse = |text: &str| -> Option<(u64, u64)> {
        let mut parts = text.split(['.', '-', '+']);
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    match (parse(old), parse(new)) {
        (Some((0, old)), Some((0, new))) => old == new,
        (Some((old, _)), Some((new, _))) => old == new,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_below_one_are_compatible_within_a_minor() {
        assert!(compatible_versions("1.2.0", "1.9.3"));
        assert!(!compatible_versions("1.2.0", "2.0.0"));
        assert!(compatible_versions("0.1.0", "0.1.7"));
        assert!(!compatible_versions("0.1.0", "0.2.0"));
    }
}
