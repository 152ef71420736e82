//! The grain types that this silo can run, and who in the cluster serves which.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use granary_core::hosting::{CallError, ClassInfo, GrainClass, InterfaceInfo};
use granary_core::id::{Digest, GrainType, SiloAddress};
use granary_core::manifest::{ClusterManifest, GrainManifest};
use granary_core::membership::MembershipView;
use granary_core::membership::table::SiloStatus;
use granary_wasm::Grants;
use granary_wit::Interface;
use tokio::sync::watch;

use super::openapi::{self, DescribedType};

/// Property of a grain type with its component's digest.
pub(crate) const DIGEST_PROPERTY: &str = "granary.component-digest";

/// Property of a grain type with the revision of its deployment.
const REVISION_PROPERTY: &str = "granary.deployment-revision";

/// Classes of earlier deployments that are kept for activations which migrate with them.
const OLD_CLASSES_MAX: usize = 64;

/// One deployed type on this silo.
#[derive(Debug, Clone)]
pub(crate) struct LoadedType {
    pub(crate) class: Arc<dyn GrainClass>,
    /// The types of its methods, for those who describe them.
    pub(crate) interfaces: Arc<[Interface]>,
    /// The deployment's overriding properties, as recorded: a change of them alone makes a new class too.
    pub(crate) properties: String,
    /// What the deployment grants; a change of it alone makes a new class too, which new activations get.
    pub(crate) grants: Grants,
    pub(crate) revision: u64,
}

type Loaded = BTreeMap<GrainType, LoadedType>;

/// The registry. Readers take whole snapshots and never wait.
#[derive(Debug)]
pub(crate) struct TypeRegistry {
    loaded: ArcSwap<Loaded>,
    /// The description of the set that it was made from.
    described: Mutex<Option<(Arc<Loaded>, Arc<str>)>>,
    /// Earlier classes, oldest first.
    old: Mutex<Vec<Arc<dyn GrainClass>>>,
    /// Deployed types that no silo may serve, and why.
    quarantined: ArcSwap<BTreeMap<GrainType, String>>,
    view: watch::Receiver<Arc<MembershipView>>,
    manifest: watch::Receiver<Arc<ClusterManifest>>,
}

impl TypeRegistry {
    pub(crate) fn new(
        view: watch::Receiver<Arc<MembershipView>>,
        manifest: watch::Receiver<Arc<ClusterManifest>>,
    ) -> Self {
        Self {
            loaded: ArcSwap::default(),
            described: Mutex::default(),
            old: Mutex::default(),
            quarantined: ArcSwap::default(),
            view,
            manifest,
        }
    }

    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.loaded.load_full()
    }

    /// Replaces the whole set; classes that went stay reachable by digest for a while.
    pub(crate) fn replace(&self, loaded: Loaded) {
        let earlier = self.loaded.swap(Arc::new(loaded));
        let now = self.loaded();
        let Ok(mut old) = self.old.lock() else { return };
        for (grain_type, entry) in earlier.iter() {
            let kept = now.get(grain_type).is_some_and(|new| Arc::ptr_eq(&new.class, &entry.class));
            if !kept {
                old.push(Arc::clone(&entry.class));
            }
        }
        let surplus = old.len().saturating_sub(OLD_CLASSES_MAX);
        old.drain(..surplus);
    }

    /// Replaces the set of types that no silo may serve.
    pub(crate) fn quarantine(&self, types: BTreeMap<GrainType, String>) {
        self.quarantined.store(Arc::new(types));
    }

    /// What this silo publishes: its types with their properties, and their interfaces.
    pub(crate) fn manifest(&self) -> GrainManifest {
        let mut builder = GrainManifest::builder();
        for (grain_type, entry) in self.loaded().iter() {
            let info = entry.class.info();
            let properties = grain_properties(info, entry.revision);
            builder = builder.grain(
                grain_type.as_str(),
                properties.iter().map(|(key, value)| (key.as_str(), value.as_str())),
            );
            for interface in &info.interfaces {
                let properties = interface_properties(interface);
                builder = builder.interface(
                    &interface.id,
                    properties.iter().map(|(key, value)| (key.as_str(), value.as_str())),
                );
            }
        }
        builder.build()
    }

    /// The HTTP API of the types that this silo serves, as OpenAPI; made once for each set of types.
    pub(crate) fn openapi(&self) -> Arc<str> {
        let loaded = self.loaded();
        if let Ok(described) = self.described.lock()
            && let Some((of, text)) = &*described
            && Arc::ptr_eq(of, &loaded)
        {
            return Arc::clone(text);
        }
        let types = loaded
            .values()
            .map(|entry| DescribedType { info: entry.class.info(), interfaces: &entry.interfaces });
        let text: Arc<str> = openapi::document(types).to_string().into();
        if let Ok(mut described) = self.described.lock() {
            *described = Some((loaded, Arc::clone(&text)));
        }
        text
    }

    /// The cluster's manifest as this silo knows it.
    pub(crate) fn cluster(&self) -> Arc<ClusterManifest> {
        Arc::clone(&self.manifest.borrow())
    }

    /// Active silos that serve the type with exactly this component, as this deployment or a later one says. A silo of
    /// an earlier version does not tell the revision: there the component has to do.
    pub(crate) fn silos_with(
        &self,
        grain_type: &GrainType,
        digest: &Digest,
        revision: u64,
    ) -> Vec<SiloAddress> {
        let wanted = digest.to_string();
        self.serving(grain_type, |manifest| {
            let property = |key| manifest.grain_property(grain_type.as_str(), key);
            let served = property(REVISION_PROPERTY).and_then(|text| text.to_string().parse::<u64>().ok());
            property(DIGEST_PROPERTY).is_some_and(|it| it == wanted.as_str())
                && served.is_none_or(|served| served >= revision)
        })
    }

    /// Follows the cluster's manifest.
    pub(crate) fn watch_manifest(&self) -> watch::Receiver<Arc<ClusterManifest>> {
        self.manifest.clone()
    }

    fn serving(&self, grain_type: &GrainType, accept: impl Fn(&GrainManifest) -> bool) -> Vec<SiloAddress> {
        let view = Arc::clone(&self.view.borrow());
        let manifest = self.cluster();
        let has = |silo: &SiloAddress| {
            manifest.silos.get(silo).is_some_and(|published| {
                let manifest = &published.manifest;
                manifest.grains().contains_key(&grain_type.as_str().into()) && accept(manifest)
            })
        };
        view.active().filter(has).collect()
    }
}

/// The properties of a type in the manifest: the component's and the deployment's, and what inspection found.
fn grain_properties(info: &ClassInfo, revision: u64) -> BTreeMap<String, String> {
    let mut properties = info.properties.clone();
    properties.insert("type-name".to_owned(), info.grain_type.to_string());
    properties.insert(DIGEST_PROPERTY.to_owned(), info.digest.to_string());
    properties.insert(REVISION_PROPERTY.to_owned(), revision.to_string());
    for (n, interface) in info.interfaces.iter().enumerate() {
        properties.insert(format!("interface.{n}"), interface.id.clone());
    }
    if !info.has_migration {
        properties.insert("immovable".to_owned(), "3".to_owned());
    }
    properties
}

/// The properties of an interface in the manifest: its version, and the hash of each method.
fn interface_properties(interface: &InterfaceInfo) -> BTreeMap<String, String> {
    let methods = interface
        .methods
        .iter()
        .map(|(name, method)| (format!("granary.method.{name}"), method.hash.to_string()));
    methods.chain([("version".to_owned(), interface.version.clone())]).collect()
}

impl granary_grains::Types for TypeRegistry {
    fn class(&self, grain_type: &GrainType) -> Option<Arc<dyn GrainClass>> {
        self.loaded.load().get(grain_type).map(|entry| Arc::clone(&entry.class))
    }

    fn class_by_digest(&self, grain_type: &GrainType, digest: &Digest) -> Option<Arc<dyn GrainClass>> {
        let fits = |class: &Arc<dyn GrainClass>| {
            class.info().digest == *digest && class.info().grain_type == *grain_type
        };
        let current = self.class(grain_type).filter(fits);
        current.or_else(|| self.old.lock().ok()?.iter().rev().find(|class| fits(class)).cloned())
    }

    fn resolve(&self, interface: &str) -> Result<GrainType, CallError> {
        let loaded = self.loaded();
        let implements = |entry: &LoadedType| {
            entry.class.info().interfaces.iter().any(|implemented| implemented.id == interface)
        };
        let mut candidates = loaded.iter().filter(|(_, entry)| implements(entry));
        let Some((first, _)) = candidates.next() else {
            return Err(CallError::NotFound(format!("no deployed grain type implements {interface}")));
        };
        // The type that bears the interface's own name is meant when several implement it (spec A2.10).
        let short = interface.rsplit('/').next().unwrap_or(interface);
        let named = GrainType::new(short).ok().filter(|name| loaded.get(name).is_some_and(implements));
        if let Some(named) = named {
            return Ok(named);
        }
        let others: Vec<String> = candidates.map(|(grain_type, _)| grain_type.to_string()).collect();
        if others.is_empty() {
            return Ok(first.clone());
        }
        Err(CallError::Incompatible(format!(
            "several grain types implement {interface}: {first}, {}; make the reference with the type's name",
            others.join(", ")
        )))
    }

    fn silos_for(&self, grain_type: &GrainType) -> Vec<SiloAddress> {
        self.serving(grain_type, |_| true)
    }

    fn quarantined(&self, grain_type: &GrainType) -> Option<String> {
        self.quarantined.load().get(grain_type).cloned()
    }

    fn known_types(&self) -> Vec<GrainType> {
        self.loaded.load().keys().cloned().collect()
    }

    fn silo_by_name(&self, name: &str) -> Option<SiloAddress> {
        self.view.borrow().by_name(name)
    }

    fn is_active(&self, silo: SiloAddress) -> bool {
        self.view.borrow().is_active(silo)
    }

    fn is_gone(&self, silo: SiloAddress) -> bool {
        self.view.borrow().status(silo).is_none_or(|status| status == SiloStatus::Dead)
    }
}
