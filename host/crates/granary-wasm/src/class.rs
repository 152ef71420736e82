//! A deployed component, ready to be instantiated: what `granary-grains` sees of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use granary_core::hosting::{
    ActivationHost, BoxFuture, ClassError, ClassInfo, GrainClass, GrainInstance, MethodRef, TextFormat,
    TurnFailure,
};
use granary_wit::Signature;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre};

use crate::engine::WasmEngine;
use crate::inspect::{Inspection, PropertyError, interface_info};
use crate::instance::Instance;
use crate::linker;
use crate::state::HostState;
use crate::text::first_line;
use crate::value;

/// A component did not become a class.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassBuildError {
    /// A property of the deployment has a bad value.
    #[error("{0}")]
    Property(#[from] PropertyError),
    /// wasmtime found an import or export that does not fit, although inspection did not.
    #[error("the component cannot be linked: {0}")]
    Link(String),
}

/// A method, ready to be called.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) reference: MethodRef,
    pub(crate) signature: Signature,
    pub(crate) export: ComponentExportIndex,
    /// What one-way calls carry instead of the hash in `reference`.
    params_hash: granary_core::id::Digest,
}

/// The exports of `granary:grain` that the component has.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) activate: Option<ComponentExportIndex>,
    pub(crate) deactivate: Option<ComponentExportIndex>,
    pub(crate) dehydrate: Option<ComponentExportIndex>,
    pub(crate) rehydrate: Option<ComponentExportIndex>,
}

/// A component with everything that its instances share.
pub struct Class {
    pub(crate) shared: Arc<Shared>,
}

/// What instances keep of their class.
pub(crate) struct Shared {
    pub(crate) engine: WasmEngine,
    pub(crate) info: ClassInfo,
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) hooks: Hooks,
    /// Sorted by interface and name.
    pub(crate) methods: Vec<Method>,
}

impl std::fmt::Debug for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Class").field("info", &self.shared.info).finish_non_exhaustive()
    }
}

impl Class {
    /// Links a compiled component. `component` must be the native code of the component that was inspected;
    /// `overrides` are the deployment's properties, which stand in place of the component's own.
    ///
    /// # Errors
    /// [`ClassBuildError`] when a property is bad or the component does not fit the host.
    pub fn new(
        engine: WasmEngine,
        inspection: &Inspection,
        component: &Component,
        overrides: &BTreeMap<String, String>,
    ) -> Result<Arc<Self>, ClassBuildError> {
        let info = inspection.class_info(overrides)?;
        let pre = linker::link(engine.of(inspection.engine(overrides)), component, inspection)
            .map_err(|error| ClassBuildError::Link(first_line(&format!("{error:#}"))))?;
        let hooks = hooks(component, inspection)?;
        let methods = methods(component, inspection)?;
        Ok(Arc::new(Self { shared: Arc::new(Shared { engine, info, pre, hooks, methods }) }))
    }
}

fn export(
    component: &Component,
    interface: &str,
    name: &str,
) -> Result<ComponentExportIndex, ClassBuildError> {
    component
        .get_export_index(None, interface)
        .and_then(|instance| component.get_export_index(Some(&instance), name))
        .ok_or_else(|| ClassBuildError::Link(format!("the compiled code has no export {interface} {name}")))
}

fn hooks(component: &Component, inspection: &Inspection) -> Result<Hooks, ClassBuildError> {
    let mut hooks = Hooks::default();
    if let Some(lifecycle) = &inspection.lifecycle {
        hooks.activate = Some(export(component, lifecycle, "activate")?);
        hooks.deactivate = Some(export(component, lifecycle, "deactivate")?);
    }
    if let Some(migration) = &inspection.migration {
        hooks.dehydrate = Some(export(component, migration, "dehydrate")?);
        hooks.rehydrate = Some(export(component, migration, "rehydrate")?);
    }
    Ok(hooks)
}

fn methods(component: &Component, inspection: &Inspection) -> Result<Vec<Method>, ClassBuildError> {
    let mut methods = Vec::new();
    for exported in &inspection.interfaces {
        let info = interface_info(&exported.interface);
        for (name, signature) in &exported.interface.functions {
            let Some(method) = info.methods.get(name) else { continue };
            methods.push(Method {
                reference: MethodRef {
                    interface: exported.interface.id.as_str().into(),
                    method: name.as_str().into(),
                    hash: method.hash,
                },
                signature: signature.clone(),
                export: export(component, &exported.export_name, name)?,
                params_hash: method.params_hash,
            });
        }
    }
    methods.sort_by(|a, b| {
        (&a.reference.interface, &a.reference.method).cmp(&(&b.reference.interface, &b.reference.method))
    });
    Ok(methods)
}

impl Shared {
    /// The method that a call means, with its position.
    ///
    /// # Errors
    /// A text for the caller: there is no such method, or its type is another one.
    pub(crate) fn find(&self, wanted: &MethodRef) -> Result<(usize, &Method), String> {
        let position = self
            .methods
            .binary_search_by(|method| {
                (&method.reference.interface, &method.reference.method)
                    .cmp(&(&wanted.interface, &wanted.method))
            })
            .ok();
        let found = position.and_then(|position| Some((position, self.methods.get(position)?)));
        let Some((position, method)) = found else {
            return Err(format!(
                "grain type {} has no method {}.{}",
                self.info.grain_type, wanted.interface, wanted.method
            ));
        };
        if wanted.hash != method.reference.hash && wanted.hash != method.params_hash {
            return Err(format!(
                "the caller has another type for {}.{} than `{}`",
                wanted.interface, wanted.method, method.signature
            ));
        }
        Ok((position, method))
    }

    fn checked(&self, wanted: &MethodRef) -> Result<&Signature, ClassError> {
        self.find(wanted).map(|(_, method)| &method.signature).map_err(ClassError::Method)
    }
}

/// Whether a method answers to `name`: `method`, `interface.method` or `ns:pkg/interface.method` (decision A7),
/// the last also with a version.
fn answers(reference: &MethodRef, name: &str) -> bool {
    let Some((interface, method)) = name.rsplit_once('.') else { return *reference.method == *name };
    if *reference.method != *method {
        return false;
    }
    let short = reference.interface.rsplit('/').next().unwrap_or_default();
    interface == short || interface.split('@').next() == Some(&*reference.interface)
}

impl GrainClass for Class {
    fn info(&self) -> &ClassInfo {
        &self.shared.info
    }

    fn method(&self, name: &str) -> Result<MethodRef, ClassError> {
        let all = || self.shared.methods.iter().map(|method| &method.reference);
        let found: Vec<&MethodRef> = all().filter(|reference| answers(reference, name)).collect();
        let names = |references: &mut dyn Iterator<Item = &MethodRef>| {
            let names: Vec<String> =
                references.map(|reference| format!("{}.{}", reference.interface, reference.method)).collect();
            names.join(", ")
        };
        let grain_type = &self.shared.info.grain_type;
        let name = crate::text::bounded(name, 128);
        match found.as_slice() {
            [one] => Ok((*one).clone()),
            [] => Err(ClassError::Method(format!(
                "grain type {grain_type} has no method `{name}`; it has {}",
                names(&mut all())
            ))),
            _ => Err(ClassError::Method(format!(
                "`{name}` is ambiguous in grain type {grain_type}: {}",
                names(&mut found.into_iter())
            ))),
        }
    }

    fn args_from_text(
        &self,
        method: &MethodRef,
        format: TextFormat,
        text: &str,
    ) -> Result<Vec<u8>, ClassError> {
        let bytes_max = usize::try_from(self.shared.info.limits.value_bytes_max).unwrap_or(usize::MAX);
        value::args_from_text(self.shared.checked(method)?, format, text, bytes_max)
    }

    fn result_to_text(
        &self,
        method: &MethodRef,
        format: TextFormat,
        result: &[u8],
    ) -> Result<String, ClassError> {
        value::result_to_text(self.shared.checked(method)?, format, result)
    }

    fn instantiate(
        &self,
        host: Arc<dyn ActivationHost>,
    ) -> BoxFuture<'_, Result<Box<dyn GrainInstance>, TurnFailure>> {
        Box::pin(async move {
            let instance = Instance::new(Arc::clone(&self.shared), host).await?;
            Ok(Box::new(instance) as Box<dyn GrainInstance>)
        })
    }
}

#[cfg(test)]
mod tests;
