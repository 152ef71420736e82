//! WASI interfaces that every ordinary guest imports and that give it nothing: linked by the import's own type.
//!
//! Lists are empty, options are none, a result is its error case for "no access", and a resource that has to be
//! returned is a handle on nothing, with which everything is denied in turn. Only a function whose type offers
//! no way to say no traps, and says so.

use std::sync::Arc;

use wasmtime::component::types::{ComponentFunc, Type};
use wasmtime::component::{ResourceAny, ResourceDynamic, ResourceType, Val};
use wasmtime::{StoreContextMut, bail};

use super::Instance;
use crate::state::{HANDLES_MAX, HostState};

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
        let denied = Arc::new((self.denial(ty), format!("{interface}#{name}")));
        instance.func_new_async(name, move |store, _, params, results| {
            let denied = Arc::clone(&denied);
            Box::new(async move {
                let (denial, what) = &*denied;
                let value = deny(store, denial, what, params).await?;
                if let (Some(result), Some(value)) = (results.first_mut(), value) {
                    *result = value;
                }
                Ok(())
            })
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

async fn deny(
    mut store: StoreContextMut<'_, HostState>,
    denial: &Denial,
    what: &str,
    params: &[Val],
) -> wasmtime::Result<Option<Val>> {
    let mut handles = Vec::new();
    collect_handles(params, &mut handles);
    for handle in handles {
        // Handed over or lent, it is not kept; a lent one that is not given back is a trap.
        handle.resource_drop_async(&mut store).await?;
    }
    Ok(match denial {
        Denial::Nothing => None,
        Denial::Value(value) => Some(value.clone()),
        Denial::Handle(tag) => {
            let state = store.data_mut();
            if state.denied_handles >= HANDLES_MAX {
                bail!("the grain holds more than {HANDLES_MAX} handles");
            }
            state.denied_handles += 1;
            Some(Val::Resource(ResourceDynamic::new_own(0, *tag).try_into_resource_any(&mut store)?))
        }
        Denial::Trap => bail!("this host does not offer {what}"),
    })
}

/// All handles in some values. The recursion is as deep as the component's types, which validation bounds.
fn collect_handles(values: &[Val], handles: &mut Vec<ResourceAny>) {
    for value in values {
        match value {
            Val::Resource(handle) => handles.push(*handle),
            Val::List(values) | Val::Tuple(values) => collect_handles(values, handles),
            Val::Record(fields) => {
                fields.iter().for_each(|(_, value)| collect_handles(std::slice::from_ref(value), handles));
            }
            Val::Variant(_, Some(value))
            | Val::Option(Some(value))
            | Val::Result(Ok(Some(value)) | Err(Some(value))) => {
                collect_handles(std::slice::from_ref(value), handles);
            }
            _ => {}
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
