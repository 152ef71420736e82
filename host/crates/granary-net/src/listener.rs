//! Accepts connections, within the limits, and logs bad ones without letting them flood the log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::inbound;
use crate::log_limit::LogLimit;
use crate::network::Shared;

/// The pause after a failed accept, such as one for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Why an inbound connection did not come to a handshake. Each kind has a limit of its own, so that a flood of
/// one does not hide the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadConnection {
    /// Something else than a hello came.
    Garbage,
    /// A proper hello that this silo refuses.
    Refused,
    /// Nothing, or too little, came in time, or there were too many such connections.
    Idle,
    /// The limit of all connections is reached.
    TooMany,
}

/// The log limits by kind.
#[derive(Debug)]
pub(crate) struct BadConnectionLog {
    garbage: LogLimit,
    refused: LogLimit,
    idle: LogLimit,
    too_many: LogLimit,
}

impl BadConnectionLog {
    fn new(handshake_timeout: Duration) -> Self {
        let second = Duration::from_secs(1);
        Self {
            garbage: LogLimit::new(second, 3),
            refused: LogLimit::new(second, 3),
            // One flood of idle connections is noticed twice: when there are too many, and when they time out.
            idle: LogLimit::new(handshake_timeout + second, 1),
            too_many: LogLimit::new(second, 1),
        }
    }

    pub(crate) fn warn(&self, kind: BadConnection, remote: SocketAddr, why: &str) {
        let limit = match kind {
            BadConnection::Garbage => &self.garbage,
            BadConnection::Refused => &self.refused,
            BadConnection::Idle => &self.idle,
            BadConnection::TooMany => &self.too_many,
        };
        match limit.admit(Instant::now()) {
            None => {}
            Some(0) => tracing::warn!(%remote, "silo connection closed: {why}"),
            Some(more) => {
                tracing::warn!(%remote, "silo connection closed: {why} ({more} more like it before)")
            }
        }
    }
}

/// Accepts until the network ends.
pub(crate) async fn run(shared: Arc<Shared>, listener: TcpListener) {
    let limits = &shared.config.limits;
    let connections = Arc::new(Semaphore::new(limits.inbound_connections_max));
    let handshakes = Arc::new(Semaphore::new(limits.inbound_handshakes_max));
    let log = Arc::new(BadConnectionLog::new(limits.handshake_timeout));
    let accept_log = LogLimit::new(Duration::from_secs(10), 1);
    loop {
        let accepted = tokio::select! {
            () = shared.cancel.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (socket, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(err) => {
                if accept_log.admit(Instant::now()).is_some() {
                    tracing::warn!("accepting silo connections fails: {err}");
                }
                tokio::select! {
                    () = shared.cancel.cancelled() => return,
                    () = tokio::time::sleep(ACCEPT_RETRY_DELAY) => continue,
                }
            }
        };
        let Ok(connection) = Arc::clone(&connections).try_acquire_owned() else {
            shared.stats.connections_refused.add(1);
            let why = format!("there are {} already", limits.inbound_connections_max);
            log.warn(BadConnection::TooMany, remote, &why);
            continue;
        };
        let Ok(handshake) = Arc::clone(&handshakes).try_acquire_owned() else {
            shared.stats.connections_refused.add(1);
            let why = format!("{} others have not said hello yet", limits.inbound_handshakes_max);
            log.warn(BadConnection::Idle, remote, &why);
            continue;
        };
        let (task_shared, log) = (Arc::clone(&shared), Arc::clone(&log));
        shared.spawn(async move {
            inbound::serve(task_shared, socket, remote, &log, handshake).await;
            drop(connection);
        });
    }
}
