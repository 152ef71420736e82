//! Deployments: taking components in, and keeping this silo's types equal to what the store records.
//!
//! One task applies the recorded deployments; `deploy` and `undeploy` only write the record and wake it, here and
//! on the other silos. So a silo that was away comes to the same types as one that was there.

mod compatibility;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use granary_core::hosting::{ClassInfo, GrainClass};
use granary_core::id::{Digest, GrainType, SiloAddress};
use granary_core::membership::table::CasOutcome;
use granary_store::{BlobStore, DeploymentRecord, DeploymentStore, StoreError};
use granary_wasm::artifact::{CompileError, Compiler};
use granary_wasm::inspect::{InspectError, Inspection, inspect, known_properties};
use granary_wasm::{Grants, OutgoingStats, WasmEngine};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::manifests::ManifestsHandle;
use super::membership::MembershipOutputs;
use super::peers::NetPeers;
use super::quarantine::Quarantine;
use super::types::{LoadedType, TypeRegistry};
use super::watched::Watcher;

/// How often the records are read when nobody says that they changed.
const POLL: Duration = Duration::from_secs(2);

/// How often a conflicting write of a record is tried again.
const CAS_ATTEMPTS_MAX: u32 = 16;

/// How long a deploy waits until every Active silo serves the component.
const SPREAD_TIMEOUT: Duration = Duration::from_secs(60);

/// How many components are taken in at once; further deploys wait.
const DEPLOYS_MAX: usize = 2;

/// How long a component that could not be loaded is left alone before it is tried again.
const LOAD_RETRY: Duration = Duration::from_secs(10);

/// Why a component was not deployed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeployError {
    #[error(transparent)]
    Component(#[from] InspectError),
    #[error("{0}")]
    BadComponent(String),
    /// It does not fit what is deployed.
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    NotFound(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Unavailable(String),
}

/// What a deploy did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct DeployReport {
    #[serde(rename = "type")]
    pub(crate) grain_type: String,
    pub(crate) digest: String,
    pub(crate) revision: u64,
    /// False when exactly this was deployed already.
    pub(crate) changed: bool,
    /// Names of the silos that serve it.
    pub(crate) silos: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// A component that is to be deployed.
#[derive(Debug)]
pub(crate) struct DeployRequest {
    pub(crate) name: String,
    pub(crate) component: Vec<u8>,
    pub(crate) force: bool,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) grants: Grants,
}

/// What the deployments act on.
pub(crate) struct DeploymentsParts {
    pub(crate) records: Arc<dyn DeploymentStore>,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) engine: WasmEngine,
    pub(crate) compiler: Compiler,
    pub(crate) registry: Arc<TypeRegistry>,
    pub(crate) peers: NetPeers,
    pub(crate) outputs: MembershipOutputs,
    pub(crate) manifests: ManifestsHandle,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) watcher: Watcher,
    /// The type is gone: end its activations.
    pub(crate) on_undeployed: Box<dyn Fn(GrainType) + Send + Sync>,
    /// Tell the other silos.
    pub(crate) on_changed: Box<dyn Fn(u64) + Send + Sync>,
}

/// The deployments as this silo sees and applies them.
pub(crate) struct Deployments {
    parts: DeploymentsParts,
    wake: Notify,
    /// The versions of deployments and quarantine that were applied last, as far as loading succeeded.
    applied: watch::Sender<(u64, u64)>,
    /// Why types of the record are not served here, with the time of the last try.
    failures: Mutex<BTreeMap<String, Failure>>,
    /// One at a time: a slower reader of older records must not undo what a faster one applied.
    applying: tokio::sync::Mutex<()>,
    /// One permit for each component that is being taken in.
    taking: Semaphore,
}

#[derive(Debug, Clone)]
struct Failure {
    digest: Digest,
    error: String,
    at: tokio::time::Instant,
}

impl std::fmt::Debug for Deployments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployments").field("applied", &*self.applied.borrow()).finish_non_exhaustive()
    }
}

impl Deployments {
    pub(crate) fn new(parts: DeploymentsParts) -> Self {
        Self {
            parts,
            wake: Notify::new(),
            applied: watch::Sender::new((0, 0)),
            failures: Mutex::default(),
            applying: tokio::sync::Mutex::default(),
            taking: Semaphore::new(DEPLOYS_MAX),
        }
    }

    /// Applies the records now and then, and whenever it is woken, until `cancel`.
    pub(crate) async fn run(&self, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(POLL) => {}
            }
            if let Err(error) = self.apply().await {
                tracing::warn!(%error, "cannot read the deployments");
            }
        }
    }

    /// Makes the task look at the records at once.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Brings this silo's types in line with the records. Types that cannot be loaded are reported and tried again
    /// later; the others are served.
    pub(crate) async fn apply(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.applying.lock().await;
        let quarantine = self.parts.quarantine.refresh().await?;
        let (version, records) = self.parts.records.read().await?;
        let version = (version, quarantine);
        let failed = self.failures.lock().is_ok_and(|failures| !failures.is_empty());
        if version == *self.applied.borrow() && !failed {
            return Ok(());
        }
        let loaded = self.parts.registry.loaded();
        let (mut next, mut quarantined) = (BTreeMap::new(), BTreeMap::new());
        for record in &records {
            let Ok(grain_type) = GrainType::new(&record.grain_type) else { continue };
            if let Some(why) = self.parts.quarantine.why(&record.digest) {
                quarantined.insert(grain_type, why);
                continue;
            }
            let current = loaded.get(&grain_type).cloned();
            let same = current.as_ref().is_some_and(|entry| {
                entry.class.info().digest == record.digest
                    && entry.properties == record.properties
                    && Grants::from_record(&record.grants).is_ok_and(|grants| grants == entry.grants)
            });
            // The earlier component serves on while the new one cannot be loaded.
            let entry = match current {
                Some(entry) if same => Some(LoadedType { revision: record.revision, ..entry }),
                current => self.load(record).await.or(current),
            };
            if let Some(entry) = entry {
                next.insert(grain_type, entry);
            }
        }
        let gone: Vec<GrainType> = loaded.keys().filter(|name| !next.contains_key(*name)).cloned().collect();
        if let Ok(mut failures) = self.failures.lock() {
            failures.retain(|name, _| records.iter().any(|record| record.grain_type == *name));
        }
        self.parts.registry.quarantine(quarantined);
        self.parts.registry.replace(next);
        self.parts.manifests.publish(self.parts.registry.manifest()).await;
        for grain_type in gone {
            tracing::info!(%grain_type, "not served any more");
            (self.parts.on_undeployed)(grain_type);
        }
        self.applied.send_replace(version);
        Ok(())
    }

    /// Loads one recorded component; `None` when that fails, which is noted.
    async fn load(&self, record: &DeploymentRecord) -> Option<LoadedType> {
        let recent = self.failures.lock().ok().and_then(|failures| failures.get(&record.grain_type).cloned());
        if recent.is_some_and(|failure| failure.digest == record.digest && failure.at.elapsed() < LOAD_RETRY)
        {
            return None;
        }
        match self.try_load(record).await {
            Ok(entry) => {
                if let Ok(mut failures) = self.failures.lock() {
                    failures.remove(&record.grain_type);
                }
                tracing::info!(grain_type = record.grain_type, digest = %record.digest.short(), revision = record.revision, "serving");
                Some(entry)
            }
            Err(error) => {
                tracing::error!(grain_type = record.grain_type, digest = %record.digest.short(), error, "cannot serve a deployed component");
                if let Ok(mut failures) = self.failures.lock() {
                    let failure = Failure { digest: record.digest, error, at: tokio::time::Instant::now() };
                    failures.insert(record.grain_type.clone(), failure);
                }
                None
            }
        }
    }

    async fn try_load(&self, record: &DeploymentRecord) -> Result<LoadedType, String> {
        let bytes = self.bytes(record.digest).await?;
        let properties: BTreeMap<String, String> = serde_json::from_str(&record.properties)
            .map_err(|error| format!("the recorded properties do not parse: {error}"))?;
        let grants = Grants::from_record(&record.grants).map_err(|error| error.to_string())?;
        let inspection = inspect_apart(bytes.clone()).await.map_err(|error| error.to_string())?;
        let class = self.class(&inspection, &bytes, &properties, &grants).await;
        Ok(LoadedType {
            class: class.map_err(|error| error.to_string())?,
            interfaces: inspection.interfaces.into_iter().map(|exported| exported.interface).collect(),
            properties: record.properties.clone(),
            grants,
            revision: record.revision,
        })
    }

    /// A component from the store, or from a peer when the store's copy is gone.
    async fn bytes(&self, digest: Digest) -> Result<Vec<u8>, String> {
        let stored = self.parts.blobs.get(digest).await;
        match &stored {
            Ok(Some(bytes)) => return Ok(bytes.clone()),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, digest = %digest.short(), "the store gave no component"),
        }
        let silos: Vec<_> = self.parts.outputs.view.borrow().active().collect();
        for silo in silos {
            if let Ok(Some(bytes)) = self.parts.peers.blob(silo, digest).await {
                let _ = self.parts.blobs.put(bytes.clone()).await;
                return Ok(bytes);
            }
        }
        Err(format!("neither the store nor a silo has the component {}", digest.short()))
    }

    async fn class(
        &self,
        inspection: &Inspection,
        bytes: &[u8],
        properties: &BTreeMap<String, String>,
        grants: &Grants,
    ) -> Result<Arc<dyn GrainClass>, DeployError> {
        let component =
            self.parts.compiler.compile(bytes, inspection.engine(properties)).await.map_err(|error| {
                match error {
                    CompileError::Refused(_) | CompileError::GivenUp(_) => {
                        DeployError::BadComponent(format!("the component does not compile: {error}"))
                    }
                    other => {
                        DeployError::Unavailable(format!("this silo cannot compile at present: {other}"))
                    }
                }
            })?;
        granary_wasm::Class::new(self.parts.engine.clone(), inspection, &component, properties, grants)
            .map(|class| self.parts.watcher.watch(class))
            .map_err(|error| DeployError::BadComponent(error.to_string()))
    }

    /// Takes a component in: checked, compiled, stored, recorded; returns when every Active silo serves it, or says
    /// which does not.
    pub(crate) async fn deploy(&self, request: DeployRequest) -> Result<DeployReport, DeployError> {
        // Waits its turn: inspecting and compiling are the largest work that a request can cause.
        let _permit = tokio::time::timeout(SPREAD_TIMEOUT, self.taking.acquire()).await.map_err(|_| {
            DeployError::Unavailable("other components are being taken in: try again".to_owned())
        })?;
        let inspection = inspect_apart(request.component.clone()).await?;
        let class = self.class(&inspection, &request.component, &request.properties, &request.grants).await?;
        let info = class.info();
        self.apply().await?;
        let loaded = self.parts.registry.loaded();
        let mut notes = inspection.notes.clone();
        notes.extend(inspection.notes_of(info));
        notes.extend(unknown_properties(&request.properties));
        notes.extend(compatibility::check(info, &loaded, request.force).map_err(DeployError::Conflict)?);
        if let Some(why) = self.parts.quarantine.why(&info.digest) {
            return Err(DeployError::Conflict(why));
        }
        self.parts.blobs.put(request.component.clone()).await?;
        let (record, changed) = self.record(info, &request).await?;
        self.apply().await?;
        let silos = self.spread(&info.grain_type, &info.digest, record.revision, &mut notes).await;
        Ok(DeployReport {
            grain_type: info.grain_type.to_string(),
            digest: info.digest.to_string(),
            revision: record.revision,
            changed,
            silos,
            notes,
        })
    }

    /// Writes the record; `false` when it was there already.
    async fn record(
        &self,
        info: &ClassInfo,
        request: &DeployRequest,
    ) -> Result<(DeploymentRecord, bool), DeployError> {
        let properties = serde_json::to_string(&request.properties).map_err(|error| {
            DeployError::Unavailable(format!("the properties cannot be recorded: {error}"))
        })?;
        let grants = request.grants.to_record();
        for _ in 0..CAS_ATTEMPTS_MAX {
            let (version, records) = self.parts.records.read().await?;
            let grain_type = info.grain_type.to_string();
            let current = records.into_iter().find(|record| record.grain_type == grain_type);
            if let Some(current) = &current
                && current.digest == info.digest
                && current.properties == properties
                && current.grants == grants
            {
                return Ok((current.clone(), false));
            }
            let record = DeploymentRecord {
                grain_type,
                digest: info.digest,
                bytes: request.component.len() as u64,
                name: request.name.clone(),
                revision: current.map_or(0, |record| record.revision) + 1,
                properties: properties.clone(),
                deployed_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
                grants: grants.clone(),
            };
            if let CasOutcome::Written { version } = self.parts.records.put(record.clone(), version).await? {
                (self.parts.on_changed)(version);
                return Ok((record, true));
            }
        }
        Err(DeployError::Unavailable("other deploys kept getting in between: try again".to_owned()))
    }

    /// Waits until the manifest of every Active silo has this deployment; the names of those that do.
    async fn spread(
        &self,
        grain_type: &GrainType,
        digest: &Digest,
        revision: u64,
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let deadline = tokio::time::Instant::now() + SPREAD_TIMEOUT;
        let mut manifest = self.parts.registry.watch_manifest();
        loop {
            manifest.borrow_and_update();
            let view = Arc::clone(&self.parts.outputs.view.borrow());
            let serving = self.parts.registry.silos_with(grain_type, digest, revision);
            let name = |silo: SiloAddress| {
                view.members.get(&silo).map_or_else(|| silo.to_string(), |member| member.name.clone())
            };
            let missing: Vec<String> =
                view.active().filter(|silo| !serving.contains(silo)).map(name).collect();
            if missing.is_empty() || tokio::time::Instant::now() >= deadline {
                if !missing.is_empty() {
                    notes.push(format!("not served yet by {}; see the log there", missing.join(", ")));
                }
                return serving.into_iter().map(name).collect();
            }
            // Members come and go without a new manifest, hence the short wait beside the change.
            let _ = tokio::time::timeout(Duration::from_millis(250), manifest.changed()).await;
        }
    }

    /// Takes a type out of the cluster.
    pub(crate) async fn undeploy(&self, grain_type: &str) -> Result<(), DeployError> {
        for _ in 0..CAS_ATTEMPTS_MAX {
            let (version, records) = self.parts.records.read().await?;
            if !records.iter().any(|record| record.grain_type == grain_type) {
                let known: Vec<String> = records.into_iter().map(|record| record.grain_type).collect();
                return Err(DeployError::NotFound(format!(
                    "no grain type {} is deployed; there {}",
                    grain_type.escape_debug(),
                    if known.is_empty() { "is none".to_owned() } else { format!("are {}", known.join(", ")) }
                )));
            }
            if let CasOutcome::Written { version } =
                self.parts.records.remove(grain_type.to_owned(), version).await?
            {
                (self.parts.on_changed)(version);
                self.apply().await?;
                return Ok(());
            }
        }
        Err(DeployError::Unavailable("other deploys kept getting in between: try again".to_owned()))
    }

    /// Lets the component of a type run again that is in quarantine.
    pub(crate) async fn release(&self, grain_type: &str) -> Result<(), DeployError> {
        let (version, records) = self.parts.records.read().await?;
        let digest = records.iter().find(|it| it.grain_type == grain_type).map(|it| it.digest);
        let released = match &digest {
            Some(digest) => self.parts.quarantine.release(digest).await?,
            None => false,
        };
        if !released {
            return Err(DeployError::NotFound(format!(
                "no deployed component of a grain type {} is in quarantine",
                grain_type.escape_debug()
            )));
        }
        tracing::warn!(grain_type, "released from quarantine");
        (self.parts.on_changed)(version);
        self.apply().await?;
        Ok(())
    }

    /// The records, for listings.
    pub(crate) async fn records(&self) -> Result<Vec<DeploymentRecord>, StoreError> {
        Ok(self.parts.records.read().await?.1)
    }

    /// Why a recorded type is not served here.
    pub(crate) fn failure(&self, grain_type: &str) -> Option<String> {
        self.failures.lock().ok()?.get(grain_type).map(|failure| failure.error.clone())
    }

    /// What grains sent to granted hosts.
    pub(crate) fn outgoing_stats(&self) -> OutgoingStats {
        self.parts.engine.outgoing_stats()
    }

    /// A component's bytes for a peer.
    pub(crate) async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.parts.blobs.get(digest).await
    }
}

/// A remark for each override that has no meaning here: most likely its name is misspelt.
fn unknown_properties(overrides: &BTreeMap<String, String>) -> Vec<String> {
    let known: Vec<&str> = known_properties().collect();
    overrides
        .keys()
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| {
            format!(
                "property {} has no effect; those that have one are {}",
                name.escape_debug(),
                known.join(", ")
            )
        })
        .collect()
}

/// Inspection is work on untrusted bytes for up to seconds: off the serving threads.
async fn inspect_apart(bytes: Vec<u8>) -> Result<Inspection, DeployError> {
    tokio::task::spawn_blocking(move || inspect(&bytes))
        .await
        .map_err(|error| DeployError::Unavailable(format!("the inspection ended early: {error}")))?
        .map_err(DeployError::Component)
}
