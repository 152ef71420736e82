//! WASI interfaces that every ordinary guest imports and that give it nothing: linked by the import's own type.
//!
//! Lists are empty, options are none, a result is its error case for "no access", and a resource that has to be
//! returned is a handle on nothing, with which everything is denied in turn. Only a function whose type offers
//! no way to say no traps, and says so.

use wasmtime::bail;
use wasmtime::component::types::{ComponentFunc, Type};
use wasmtime::component::{ResourceDynamic, ResourceType, Val};

use super::Instance;
use crate::state::HANDLES_MAX;

/// Names of error cases that mean "you may not", best first.
const NO_ACCESS: [&str; 5] = ["access", "access-denied", "not-permitted", "not-supported", "unsupported"];

/// The resource types that were defined as denied, with the tags of their handles.
#[derive(Debug, Default)]
pub(crate) struct DeniedResources(Vec<(ResourceType, u32)>);

/// How one function says no.
#[derive(Debug, Clone)]
enum Denial {
    Nothing,
    Value(Val),
    Handle(u32),
    Trap,
}

impl DeniedResources {
    /// Defines a resource whose handles stand for nothing.
    pub(crate) fn link_resource(
        &mut self,
        instance: &mut Instance<'_>,
        name: &str,
        ty: ResourceType,
    ) -> wasmtime::Result<()> {
        let tag = u32::try_from(self.0.len())?;
        self.0.push((ty, tag));
        instance.resource(name, ResourceType::host_dynamic(tag), |mut store, _| {
            let state = store.data_mut();
            state.denied_handles = state.denied_handles.saturating_sub(1);
            Ok(())
        })
    }

    /// Defines a function that denies.
    pub(crate) fn link_function(
        &self,
        instance: &mut Instance<'_>,
        interface: &str,
        name: &str,
        ty: &ComponentFunc,
    ) -> wasmtime::Result<()> {
        let denial = self.denial(ty);
        let what = format!("{interface}#{name}");
        instance.func_new(name, move |mut store, _, _, results| {
            let value = match &denial {
                Denial::Nothing => return Ok(()),
                Denial::Value(value) => value.clone(),
                Denial::Handle(tag) => {
                    let state = store.data_mut();
                    if state.denied_handles >= HANDLES_MAX {
                        bail!("the grain holds more than {HANDLES_MAX} handles");
                    }
                    state.denied_handles += 1;
                    Val::Resource(ResourceDynamic::new_own(0, *tag).try_into_resource_any(&mut store)?)
                }
                Denial::Trap => bail!("this host does not offer {what}"),
            };
            if let Some(result) = results.first_mut() {
                *result = value;
            }
            Ok(())
        })
    }

    fn denial(&self, ty: &ComponentFunc) -> Denial {
        let mut results = ty.results();
        let Some(result) = results.next() else { return Denial::Nothing };
        match &result {
            Type::List(_) => Denial::Value(Val::List(Vec::new())),
            Type::Option(_) => Denial::Value(Val::Option(None)),
            Type::Result(result) => match result.err() {
                None => Denial::Value(Val::Result(Err(None))),
                Some(error) => no_access(&error)
                    .map_or(Denial::Trap, |error| Denial::Value(Val::Result(Err(Some(Box::new(error)))))),
            },
            Type::Own(resource) => {
                let tag = self.0.iter().find(|(ty, _)| ty == resource).map(|(_, tag)| *tag);
                tag.map_or(Denial::Trap, Denial::Handle)
            }
            _ => Denial::Trap,
        }
    }
}

/// The value of an error type that means "no access", if it has one.
fn no_access(error: &Type) -> Option<Val> {
    match error {
        Type::Enum(cases) => {
            let name = NO_ACCESS.into_iter().find(|name| cases.names().any(|case| case == *name))?;
            Some(Val::Enum(name.to_owned()))
        }
        Type::Variant(cases) => {
            let plain = |name: &str| cases.cases().any(|case| case.name == name && case.ty.is_none());
            let name = NO_ACCESS.into_iter().find(|name| plain(name))?;
            Some(Val::Variant(name.to_owned(), None))
        }
        _ => None,
    }
}
