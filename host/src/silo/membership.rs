//! Runs the membership machine: on a thread and a runtime of its own, so that a busy silo still answers probes
//! and renews its row.

use std::path::PathBuf;
use std::sync::Arc;

use granary_core::id::SiloAddress;
use granary_core::membership::table::SiloStatus;
use granary_core::membership::{
    Command, DeathProof, Event, Fact, FatalReason, JoinError, Membership, MembershipConfig,
    MembershipMessage, MembershipView, StoreFailure, StoreReply, StoreRequest,
};
use granary_core::wire::OneWay;
use granary_net::{Lane, Network};
use granary_store::{MembershipTable, StoreError};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::driver::{INBOX_MAX, Step, drive};
use super::home::{HostIdentity, name_is_free};

/// How far a silo's membership has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    Joining,
    Active,
    JoinFailed(JoinError),
    ShuttingDown,
    Left,
    Fatal(FatalReason),
}

/// What the machine tells the rest of the silo.
#[derive(Debug, Clone)]
pub(crate) struct MembershipOutputs {
    pub(crate) view: watch::Receiver<Arc<MembershipView>>,
    pub(crate) standing: watch::Receiver<Standing>,
}

/// A handle to the running machine.
#[derive(Debug, Clone)]
pub(crate) struct MembershipHandle {
    inbox: mpsc::Sender<Event>,
    pub(crate) outputs: MembershipOutputs,
}

impl MembershipHandle {
    /// Hands over an event that must arrive; waits for room.
    pub(crate) async fn tell(&self, event: Event) {
        let _ = self.inbox.send(event).await;
    }

    /// Hands over a message of a peer, or a hint; dropped when the inbox is full.
    pub(crate) fn offer(&self, event: Event) {
        let _ = self.inbox.try_send(event);
    }

    pub(crate) fn message(&self, from: SiloAddress, message: MembershipMessage) {
        self.offer(Event::Message { from, message });
    }

    /// Somebody has a newer view: read the table.
    pub(crate) fn refresh(&self, me: SiloAddress, version: u64) {
        self.offer(Event::Message { from: me, message: MembershipMessage::TableChanged { version } });
    }

    pub(crate) fn view(&self) -> Arc<MembershipView> {
        Arc::clone(&self.outputs.view.borrow())
    }
}

/// What the machine's commands act on.
pub(crate) struct MembershipParts {
    pub(crate) config: MembershipConfig,
    pub(crate) table: Arc<dyn MembershipTable>,
    pub(crate) network: Arc<Network>,
    pub(crate) data: PathBuf,
    pub(crate) host: HostIdentity,
    /// Told of a peer's manifest generation.
    pub(crate) on_generation: Box<dyn Fn(SiloAddress, u64) + Send>,
}

/// Starts the machine's thread; it runs until `cancel`.
///
/// # Errors
/// Fails when the system gives no thread.
pub(crate) fn start(parts: MembershipParts, cancel: CancellationToken) -> std::io::Result<MembershipHandle> {
    let (inbox, events) = mpsc::channel(INBOX_MAX);
    let (view_out, view) = watch::channel(Arc::default());
    let (standing_out, standing) = watch::channel(Standing::Joining);
    let seed = super::random_u64();
    let mut machine = Membership::new(parts.config.clone(), seed);
    let executor = Executor { parts, inbox: inbox.clone(), view_out, standing_out };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("membership".to_owned()).spawn(move || {
        runtime.block_on(drive(
            move |now, event, out| machine.handle(now, event, out),
            || Event::Tick,
            events,
            move |command| executor.execute(command),
            cancel,
        ));
    })?;
    Ok(MembershipHandle { inbox, outputs: MembershipOutputs { view, standing } })
}

struct Executor {
    parts: MembershipParts,
    inbox: mpsc::Sender<Event>,
    view_out: watch::Sender<Arc<MembershipView>>,
    standing_out: watch::Sender<Standing>,
}

impl Executor {
    fn execute(&self, command: Command) -> Step {
        match command {
            Command::Store { op, request } => self.store(op, request),
            Command::Send { to, message } => {
                self.parts.network.send(to, Lane::System, OneWay::Membership(message));
            }
            Command::ProveDeath(row) => {
                let provable =
                    row.host_id == self.parts.host.host_id && row.boot_id == self.parts.host.boot_id;
                let proved = provable && name_is_free(&self.parts.data, &row.name);
                let proof = if proved { DeathProof::Proved } else { DeathProof::Unknown };
                let _ = self.inbox.try_send(Event::DeathProof { silo: row.address, proof });
            }
            Command::WakeAt(time) => return Step::WakeAt(time),
            Command::ViewChanged(view) => self.view_changed(view),
            Command::PeerGeneration { silo, generation } => (self.parts.on_generation)(silo, generation),
            Command::Joined => self.stand(Standing::Active),
            Command::JoinFailed(error) => self.stand(Standing::JoinFailed(error)),
            Command::ShuttingDown { .. } => self.stand(Standing::ShuttingDown),
            Command::Left { .. } => self.stand(Standing::Left),
            Command::Fatal(reason) => self.stand(Standing::Fatal(reason)),
            Command::Report(fact) => report(&fact),
        }
        Step::Done
    }

    fn stand(&self, standing: Standing) {
        self.standing_out.send_replace(standing);
    }

    fn view_changed(&self, view: Arc<MembershipView>) {
        let earlier = self.view_out.send_replace(Arc::clone(&view));
        let dead = view.members.iter().filter(|(_, member)| member.status == SiloStatus::Dead);
        let gone = earlier.members.keys().filter(|silo| !view.members.contains_key(silo));
        for silo in dead.map(|(silo, _)| silo).chain(gone) {
            self.parts.network.peer_dead(*silo);
        }
        let names: Vec<String> =
            view.members.values().map(|member| format!("{}:{:?}", member.name, member.status)).collect();
        tracing::info!(version = view.version, members = names.join(" "), "membership view");
    }

    /// Runs a store operation on this thread's runtime; the store's own threads do the work.
    fn store(&self, op: u64, request: StoreRequest) {
        let table = Arc::clone(&self.parts.table);
        let inbox = self.inbox.clone();
        // The machine has at most one operation in flight, so there is at most one such task beside timed-out ones.
        tokio::task::spawn(async move {
            let reply = match request {
                StoreRequest::Read => StoreReply::Read(table.read().await.map_err(failure)),
                StoreRequest::Insert { row, expected_version } => {
                    StoreReply::Written(table.insert(row, expected_version).await.map_err(failure))
                }
                StoreRequest::Update { row, expected_version } => {
                    StoreReply::Written(table.update(row, expected_version).await.map_err(failure))
                }
                StoreRequest::Renew(address) => {
                    StoreReply::Renewed(table.renew(address).await.map_err(failure))
                }
                StoreRequest::RemoveDead(rows) => {
                    StoreReply::Removed(table.remove_dead(rows).await.map_err(failure))
                }
            };
            let _ = inbox.send(Event::Store { op, reply }).await;
        });
    }
}

fn failure(error: StoreError) -> StoreFailure {
    match error {
        StoreError::Unavailable(text) => StoreFailure::Unavailable(text),
        StoreError::Unusable(text) => StoreFailure::Unusable(text),
    }
}

fn report(fact: &Fact) {
    match fact {
        Fact::Suspected(silo) => tracing::warn!(%silo, "the silo does not answer"),
        Fact::Cleared(silo) => tracing::info!(%silo, "the silo answers again"),
        Fact::Voted(silo) => tracing::warn!(%silo, "voted against the silo"),
        Fact::Retracted(silo) => tracing::info!(%silo, "took the vote against the silo back"),
        Fact::DeclaredDead { silo, cause } => tracing::warn!(%silo, ?cause, "declared the silo dead"),
        Fact::StoreFailed(error) => tracing::warn!(%error, "the membership table does not answer"),
        Fact::StoreRecovered => tracing::info!("the membership table answers again"),
    }
}
