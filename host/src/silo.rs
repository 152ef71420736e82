//! A silo: all parts made in order, run, and stopped in reverse.

mod admin;
mod backend;
mod clock;
mod config;
mod deployments;
mod directory;
mod driver;
mod failpoint;
mod fault;
mod home;
mod inbound;
mod logs;
mod manifests;
mod membership;
mod metrics;
mod openapi;
mod parts;
mod peers;
mod process;
mod quarantine;
mod start;
mod store;
mod tls;
mod types;
mod watched;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use granary_core::membership::Event;
use granary_grains::DrainReport;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use membership::Standing;
use parts::Parts;

pub use config::{ListenError, SiloConfig};

/// The time between "not ready" and the refusal of new connections: who balances load must see the first before
/// the second. Short, since a silo's other ports go on passing calls to where the grains went.
const READINESS_LAG: Duration = Duration::from_millis(200);

/// What is left of the drain deadline for the last writes.
const LEAVE_RESERVE: Duration = Duration::from_secs(3);

/// Why a silo did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error("{0}")]
    Config(String),
    /// The cluster did not let it in.
    #[error("{0}")]
    Cluster(String),
    /// A defect.
    #[error("{0}")]
    Internal(String),
}

/// Why a running silo is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// A person or a program asked for it.
    Asked,
    /// It must not go on; there is nothing to drain.
    Fatal(String),
}

/// Where a silo listens.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Addresses {
    pub name: String,
    pub listen: SocketAddr,
    pub gateway: SocketAddr,
    pub admin: SocketAddr,
}

/// The switches that end the parts of a silo, in the order in which they are thrown.
#[derive(Debug, Default)]
struct Switches {
    /// The gateway takes no more connections.
    gateway: CancellationToken,
    /// The admin API neither.
    admin: CancellationToken,
    /// Activations end, running turns are dropped.
    grains: CancellationToken,
    /// Everything else.
    rest: CancellationToken,
}

/// A running silo.
#[derive(Debug)]
pub struct Silo {
    parts: Arc<Parts>,
    addresses: Addresses,
    switches: Switches,
    tracker: TaskTracker,
    /// The silo's folder and the lock on its name; given back when the silo is dropped.
    _home: home::Home,
    /// Gateway and admin API.
    edges: [granary_http::EdgeServer; 2],
}

impl Silo {
    /// Starts a silo and waits until it is Active.
    ///
    /// # Errors
    /// [`StartError`]; whatever was started is stopped again.
    pub async fn start(config: SiloConfig) -> Result<Self, StartError> {
        start::start(config).await
    }

    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Waits until something inside the silo wants it to end.
    pub async fn ended(&mut self) -> StopReason {
        let mut standing = self.parts.membership.outputs.standing.clone();
        let stop_asked = self.parts.stop_asked.clone();
        let fatal = async {
            loop {
                if let Standing::Fatal(reason) = &*standing.borrow_and_update() {
                    return StopReason::Fatal(format!("this silo must stop at once: {reason}"));
                }
                if standing.changed().await.is_err() {
                    return StopReason::Fatal("the membership thread ended".to_owned());
                }
            }
        };
        tokio::select! {
            reason = fatal => reason,
            () = stop_asked.cancelled() => StopReason::Asked,
        }
    }

    /// Empties and stops the silo within about `deadline` (decision B8); tells what became of its activations.
    pub async fn stop(&mut self, deadline: Duration) -> String {
        let until = tokio::time::Instant::now() + deadline;
        let parts = Arc::clone(&self.parts);
        parts.membership.tell(Event::Leave).await;
        let told = |standing: &Standing| !matches!(standing, Standing::Active | Standing::Joining);
        wait_for(&parts, (deadline / 4).min(LEAVE_RESERVE), told).await;
        tokio::time::sleep(READINESS_LAG).await;
        let within =
            until.saturating_duration_since(tokio::time::Instant::now()).saturating_sub(LEAVE_RESERVE);
        let report = parts.grains.drain(within, true).await;
        // Calls that still came in were passed on; now the edges close behind the last of them.
        self.switches.gateway.cancel();
        let left = until.saturating_duration_since(tokio::time::Instant::now()).min(LEAVE_RESERVE);
        let [gateway, _] = &self.edges;
        let _ = tokio::time::timeout(left, gateway.drained()).await;
        parts.membership.tell(Event::Finish).await;
        wait_for(&parts, LEAVE_RESERVE, |standing| {
            matches!(standing, Standing::Left | Standing::Fatal(_) | Standing::JoinFailed(_))
        })
        .await;
        self.switches.admin.cancel();
        self.switches.grains.cancel();
        self.switches.rest.cancel();
        self.tracker.close();
        let left =
            until.saturating_duration_since(tokio::time::Instant::now()).max(Duration::from_millis(500));
        if tokio::time::timeout(left, self.tracker.wait()).await.is_err() {
            tracing::warn!("some tasks did not end within the drain deadline and are dropped");
        }
        summary(&parts.name, &report)
    }
}

impl Drop for Silo {
    fn drop(&mut self) {
        for switch in
            [&self.switches.gateway, &self.switches.admin, &self.switches.grains, &self.switches.rest]
        {
            switch.cancel();
        }
    }
}

async fn wait_for(parts: &Parts, within: Duration, wanted: impl Fn(&Standing) -> bool) {
    let mut standing = parts.membership.outputs.standing.clone();
    let _ = tokio::time::timeout(within, standing.wait_for(|standing| wanted(standing))).await;
}

fn summary(name: &str, report: &DrainReport) -> String {
    format!(
        "silo {name} stopped: {} activations moved, {} deactivated, {} dropped",
        report.migrated, report.deactivated, report.remaining
    )
}

/// A seed for machines and ids: from the system, or from the clock where the system gives none.
fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    if getrandom::fill(&mut seed).is_err() {
        let now = clock::now().0.to_le_bytes();
        for (to, from) in seed.iter_mut().zip(now.into_iter().chain(std::process::id().to_le_bytes())) {
            *to = from;
        }
    }
    seed
}

fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(random_seed()) {
        *to = from;
    }
    u64::from_le_bytes(bytes)
}
