//! The boot story of a silo, from its settings to Active.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use granary_core::hosting::{DeactivationReason, LogLevel};
use granary_core::id::SiloAddress;
use granary_core::membership::table::SiloStatus;
use granary_core::membership::{Event, MembershipConfig, MembershipView, SiloIdentity};
use granary_core::wire::OneWay;
use granary_grains::{Grains, GrainsOptions, Seams};
use granary_http::{AdminToken, EdgeAccess, EdgeKind, EdgeLimits, EdgeServer};
use granary_net::{Lane, NetConfig, NetLimits, Network};
use granary_store::{ClusterId, ClusterIdError, Store};
use granary_wasm::artifact::{CompileCommand, Compiler, CompilerConfig};
use granary_wasm::{EngineConfig, WasmEngine};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backend::SiloBackend;
use super::config::{Listeners, SiloConfig};
use super::deployments::{Deployments, DeploymentsParts};
use super::directory::{self, DirectoryParts};
use super::failpoint::Failpoint;
use super::home::{Home, HomeError};
use super::inbound::Inbound;
use super::logs::GuestLogs;
use super::manifests;
use super::membership::{self, MembershipParts, Standing};
use super::parts::{Parts, PartsCell};
use super::peers::NetPeers;
use super::quarantine::Quarantine;
use super::tls::Identities;
use super::types::TypeRegistry;
use super::watched::Watcher;
use super::{Addresses, Silo, StartError, Switches, fault, random_seed, store};

/// How many names `silo-1`, `silo-2`, … are tried when none is given.
const DEFAULT_NAMES_MAX: u32 = 100;

/// How long the end of a type's activations is waited for after it was undeployed; they end all the same.
const UNDEPLOY_TIMEOUT: Duration = Duration::from_secs(30);

fn config_error(error: impl std::fmt::Display) -> StartError {
    StartError::Config(error.to_string())
}

fn internal(error: impl std::fmt::Display) -> StartError {
    StartError::Internal(error.to_string())
}

/// What the last run of this silo died of is reported before this run may do the same; then its turns are watched.
async fn watcher(
    config: &SiloConfig,
    name: &str,
    generation: i32,
    store: &Arc<dyn Store>,
) -> Result<Watcher, StartError> {
    let failpoint = Failpoint::read().map_err(config_error)?;
    // Before the first engine: wasmtime's handlers come before these.
    fault::install().map_err(internal)?;
    let quarantine = Quarantine::new(Arc::<dyn Store>::clone(store), config.data.clone());
    quarantine.report_own(name).await.map_err(|error| StartError::Cluster(error.to_string()))?;
    let file = fault::open(&config.data, name).map_err(config_error)?;
    Ok(Watcher { quarantine: Arc::new(quarantine), file, generation, panics: Arc::default(), failpoint })
}

/// Starts a silo; see [`Silo::start`].
pub(super) async fn start(config: SiloConfig) -> Result<Silo, StartError> {
    if let Some(path) = &config.ready_file {
        remove_ready_file(path).map_err(config_error)?;
    }
    // Before anything is bound or opened: a credential that cannot be read is no reason to start without it.
    let token = config.admin_token_file.as_deref().map(AdminToken::read).transpose().map_err(config_error)?;
    let listeners = config.bind().map_err(config_error)?;
    let listen = listeners.listen.local_addr().map_err(internal)?.ip().to_canonical();
    let identities = Identities::load(&config, listen).map_err(config_error)?;
    let cluster: ClusterId = config
        .cluster
        .parse()
        .map_err(|error: ClusterIdError| StartError::Config(format!("--cluster: {error}")))?;
    // The store first: it checks the format and the rights of the data directory as a whole.
    let store = store::open(&config, &cluster).await?;
    let (name, home) = open_home(&config)?;
    let addresses = addresses(&name, &listeners).map_err(internal)?;
    let me = SiloAddress { ip: listen, port: addresses.listen.port(), generation: home.generation };
    let switches = Switches::default();
    let tracker = TaskTracker::new();
    let watcher = watcher(&config, &name, home.generation, &store).await?;
    let boot = Boot {
        config: &config,
        name: &name,
        me,
        addresses: &addresses,
        store: &store,
        identities: &identities,
        watcher: &watcher,
    };
    let parts = boot.parts(listeners.listen, &switches, &tracker)?;
    identities.follow(&tracker, &switches.rest);
    let access = EdgeAccess { token, tls: identities.http.clone() };
    let edges = edges(&parts, (listeners.gateway, listeners.admin), &access, &switches, &tracker)
        .map_err(internal)?;
    let silo = Silo {
        parts: Arc::clone(&parts),
        addresses: addresses.clone(),
        switches,
        tracker,
        _home: home,
        edges,
    };
    // A type that cannot be loaded is reported and tried again; it does not keep the silo from joining.
    parts.deployments.apply().await.map_err(|error| StartError::Cluster(error.to_string()))?;
    join(&parts).await?;
    if let Some(path) = &config.ready_file {
        write_ready_file(path, &addresses).map_err(config_error)?;
    }
    tracing::info!(silo = name, address = %me, gateway = %addresses.gateway, admin = %addresses.admin, "ready");
    Ok(silo)
}

fn open_home(config: &SiloConfig) -> Result<(String, Home), StartError> {
    if let Some(name) = &config.name {
        let home = Home::open(&config.data, name).map_err(config_error)?;
        return Ok((name.clone(), home));
    }
    for number in 1..=DEFAULT_NAMES_MAX {
        let name = format!("silo-{number}");
        match Home::open(&config.data, &name) {
            Ok(home) => return Ok((name, home)),
            Err(HomeError::NameTaken { .. }) => {}
            Err(error) => return Err(config_error(error)),
        }
    }
    Err(StartError::Config(format!("the names silo-1 to silo-{DEFAULT_NAMES_MAX} are all taken: say --name")))
}

fn addresses(name: &str, listeners: &Listeners) -> std::io::Result<Addresses> {
    Ok(Addresses {
        name: name.to_owned(),
        listen: listeners.listen.local_addr()?,
        gateway: listeners.gateway.local_addr()?,
        admin: listeners.admin.local_addr()?,
    })
}

/// What the parts are made from.
struct Boot<'a> {
    config: &'a SiloConfig,
    name: &'a str,
    me: SiloAddress,
    addresses: &'a Addresses,
    store: &'a Arc<dyn Store>,
    identities: &'a Identities,
    watcher: &'a Watcher,
}

impl Boot<'_> {
    fn parts(
        &self,
        listener: std::net::TcpListener,
        switches: &Switches,
        tracker: &TaskTracker,
    ) -> Result<Arc<Parts>, StartError> {
        let cell: PartsCell = Arc::new(OnceLock::new());
        let listener = tokio::net::TcpListener::from_std(listener).map_err(internal)?;
        let network = Network::start(
            NetConfig {
                cluster: self.config.cluster.clone(),
                me: self.me,
                name: self.name.to_owned(),
                tls: self.identities.link.clone(),
                limits: NetLimits::default(),
            },
            listener,
            Arc::new(Inbound { parts: Arc::clone(&cell) }),
            tracker.clone(),
            switches.rest.clone(),
        );
        let membership = self.membership(&network, &cell, switches)?;
        let directory = self.directory(&network, &cell, tracker, switches);
        let manifests = manifests::start(self.me, &network, &cell, tracker, switches.rest.clone());
        let registry = Arc::new(TypeRegistry::new(membership.outputs.view.clone(), manifests.manifest()));
        let peers = NetPeers::new(Arc::clone(&network));
        let logs = Arc::new(GuestLogs::default());
        let grains = Grains::new(
            GrainsOptions::new(self.me, self.name, random_seed()),
            Seams {
                directory: Arc::new(directory.clone()),
                peers: Arc::new(peers.clone()),
                types: Arc::clone(&registry) as Arc<dyn granary_grains::Types>,
                state: Arc::<dyn Store>::clone(self.store),
                logs: Arc::new(LogTee { logs: Arc::clone(&logs) }),
            },
            tracker.clone(),
            switches.grains.clone(),
        );
        let deployments = self.deployments(&registry, &peers, &membership, &manifests, &grains, tracker)?;
        let parts = Arc::new(Parts {
            me: self.me,
            name: self.name.to_owned(),
            network,
            peers,
            membership,
            directory,
            manifests,
            registry,
            grains,
            deployments,
            quarantine: Arc::clone(&self.watcher.quarantine),
            turn_panics: Arc::clone(&self.watcher.panics),
            logs,
            stop_asked: CancellationToken::new(),
        });
        let _ = cell.set(Arc::clone(&parts));
        follow_views(&parts, tracker, &switches.rest);
        let applying = Arc::clone(&parts.deployments);
        let cancel = switches.rest.clone();
        tracker.spawn(async move { applying.run(cancel).await });
        Ok(parts)
    }

    fn membership(
        &self,
        network: &Arc<Network>,
        cell: &PartsCell,
        switches: &Switches,
    ) -> Result<membership::MembershipHandle, StartError> {
        let host = store::host_identity(self.config).map_err(internal)?;
        let identity = SiloIdentity {
            address: self.me,
            name: self.name.to_owned(),
            gateway: self.addresses.gateway,
            admin: self.addresses.admin,
            host_id: host.host_id.clone(),
            boot_id: host.boot_id.clone(),
            process_id: std::process::id(),
        };
        let mut config = MembershipConfig::new(identity);
        config.holds_name_lock = true;
        let cell = Arc::clone(cell);
        let parts = MembershipParts {
            config,
            table: Arc::<dyn Store>::clone(self.store),
            network: Arc::clone(network),
            data: self.config.data.clone(),
            host,
            on_generation: Box::new(move |silo, generation| {
                if let Some(parts) = cell.get() {
                    parts.manifests.peer_generation(silo, generation);
                }
            }),
        };
        membership::start(parts, switches.rest.clone()).map_err(internal)
    }

    fn directory(
        &self,
        network: &Arc<Network>,
        cell: &PartsCell,
        tracker: &TaskTracker,
        switches: &Switches,
    ) -> directory::DirectoryHandle {
        let (duplicates, refresher) = (Arc::clone(cell), Arc::clone(cell));
        let parts = DirectoryParts {
            me: self.me,
            network: Arc::clone(network),
            on_duplicate: Box::new(move |grain, activation, winner| {
                if let Some(parts) = duplicates.get() {
                    parts.grains.deactivate_duplicate(&grain, activation, winner);
                }
            }),
            on_refresh: Box::new(move |version| {
                if let Some(parts) = refresher.get() {
                    parts.membership.refresh(parts.me, version);
                }
            }),
        };
        directory::start(parts, tracker, switches.rest.clone())
    }

    fn deployments(
        &self,
        registry: &Arc<TypeRegistry>,
        peers: &NetPeers,
        membership: &membership::MembershipHandle,
        manifests: &manifests::ManifestsHandle,
        grains: &Grains,
        tracker: &TaskTracker,
    ) -> Result<Arc<Deployments>, StartError> {
        let mut engine = WasmEngine::new(&EngineConfig::default()).map_err(internal)?;
        if let Some(tls) = &self.identities.outgoing {
            engine = engine.with_outgoing_tls(Arc::clone(tls));
        }
        let compiler = Compiler::open(
            &engine,
            &CompilerConfig {
                cache_dir: self.config.data.join("cache"),
                key_file: self.config.data.join("cache").join("host.key"),
                command: CompileCommand::current_exe().map_err(internal)?,
            },
        )
        .map_err(config_error)?;
        let (grains, tracker) = (grains.clone(), tracker.clone());
        let (network, view, me) = (peers.network(), membership.outputs.view.clone(), self.me);
        Ok(Arc::new(Deployments::new(DeploymentsParts {
            records: Arc::<dyn Store>::clone(self.store),
            blobs: Arc::<dyn Store>::clone(self.store),
            engine,
            compiler,
            registry: Arc::clone(registry),
            peers: peers.clone(),
            outputs: membership.outputs.clone(),
            manifests: manifests.clone(),
            quarantine: Arc::clone(&self.watcher.quarantine),
            watcher: self.watcher.clone(),
            on_undeployed: Box::new(move |grain_type| {
                let grains = grains.clone();
                tracker.spawn(async move {
                    grains
                        .deactivate_type(&grain_type, DeactivationReason::Undeployed, UNDEPLOY_TIMEOUT)
                        .await;
                });
            }),
            on_changed: Box::new(move |version| {
                for silo in view.borrow().active().filter(|silo| *silo != me) {
                    network.send(silo, Lane::System, OneWay::DeploymentsChanged { version });
                }
            }),
        })))
    }
}

/// Hands each view to those who need it.
fn follow_views(parts: &Arc<Parts>, tracker: &TaskTracker, cancel: &CancellationToken) {
    let (parts, cancel) = (Arc::clone(parts), cancel.clone());
    let mut views = parts.membership.outputs.view.clone();
    tracker.spawn(async move {
        let mut dead = BTreeSet::new();
        loop {
            let view = Arc::clone(&views.borrow_and_update());
            // First of all: the directory lets the grains of dead silos start elsewhere.
            witness(&parts, &view, &mut dead).await;
            parts.directory.view(&view).await;
            parts.manifests.view(Arc::clone(&view)).await;
            for (silo, member) in &view.members {
                if member.status == SiloStatus::Dead {
                    parts.grains.forget_silo(*silo);
                }
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                changed = views.changed() => if changed.is_err() { return },
            }
        }
    });
}

/// Reports what silos left that are Dead in this view and were not in `known`.
async fn witness(parts: &Parts, view: &MembershipView, known: &mut BTreeSet<SiloAddress>) {
    let dead = view.members.iter().filter(|(_, member)| member.status == SiloStatus::Dead);
    let (addresses, names): (BTreeSet<_>, Vec<_>) =
        dead.map(|(silo, member)| (*silo, (member.name.clone(), silo.generation))).unzip();
    let news = !addresses.is_subset(known);
    *known = addresses;
    if news && parts.quarantine.witness(&names).await {
        parts.deployments.wake();
    }
}

fn edges(
    parts: &Arc<Parts>,
    (gateway, admin): (std::net::TcpListener, std::net::TcpListener),
    access: &EdgeAccess,
    switches: &Switches,
    tracker: &TaskTracker,
) -> std::io::Result<[EdgeServer; 2]> {
    let server = |kind, listener: std::net::TcpListener, switch: &CancellationToken| {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let backend = Arc::new(SiloBackend { parts: Arc::clone(parts) });
        Ok::<_, std::io::Error>(EdgeServer::start(
            kind,
            EdgeLimits::of(kind),
            access.clone(),
            listener,
            backend,
            tracker,
            switch.clone(),
        ))
    };
    Ok([
        server(EdgeKind::Gateway, gateway, &switches.gateway)?,
        server(EdgeKind::Admin, admin, &switches.admin)?,
    ])
}

async fn join(parts: &Parts) -> Result<(), StartError> {
    let mut standing = parts.membership.outputs.standing.clone();
    parts.membership.tell(Event::Start).await;
    let settled = standing.wait_for(|standing| *standing != Standing::Joining).await;
    match settled.map(|standing| standing.clone()) {
        Ok(Standing::Active) => Ok(()),
        Ok(Standing::JoinFailed(error)) => {
            Err(StartError::Cluster(format!("cannot join the cluster: {error}")))
        }
        Ok(other) => Err(StartError::Cluster(format!("cannot join the cluster: {other:?}"))),
        Err(_) => Err(internal("the membership thread ended")),
    }
}

/// What an earlier silo left there would tell its ports to whoever waits for this one's.
fn remove_ready_file(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot replace the ready file {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Written beside and renamed, so that who waits for the file never reads half of it.
fn write_ready_file(path: &Path, addresses: &Addresses) -> Result<(), String> {
    let cannot =
        |error: &dyn std::fmt::Display| format!("cannot write the ready file {}: {error}", path.display());
    let text = serde_json::to_string(addresses).map_err(|error| cannot(&error))?;
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&temporary, text + "\n").map_err(|error| cannot(&error))?;
    std::fs::rename(&temporary, path).map_err(|error| cannot(&error))
}

/// Guest lines go to `granary logs` and to the silo's own log.
struct LogTee {
    logs: Arc<GuestLogs>,
}

impl granary_grains::LogSink for LogTee {
    fn line(
        &self,
        identity: &granary_core::hosting::ActivationIdentity,
        level: LogLevel,
        target: &str,
        text: &str,
    ) {
        let line = if target.is_empty() { text.to_owned() } else { format!("{target}: {text}") };
        self.logs.push(&identity.grain, level, &line);
        let (grain_id, activation_id) = (&identity.grain, &identity.activation);
        match level {
            LogLevel::Error => tracing::error!(target: "guest", %grain_id, %activation_id, "{line}"),
            LogLevel::Warn => tracing::warn!(target: "guest", %grain_id, %activation_id, "{line}"),
            LogLevel::Info => tracing::info!(target: "guest", %grain_id, %activation_id, "{line}"),
            LogLevel::Debug => tracing::debug!(target: "guest", %grain_id, %activation_id, "{line}"),
            LogLevel::Trace => tracing::trace!(target: "guest", %grain_id, %activation_id, "{line}"),
        }
    }
}
