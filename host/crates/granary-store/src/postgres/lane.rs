//! A bounded group of connections, and the operations that share them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::error::ends_connection;
use super::session::{Connector, Session};
use crate::StoreError;

/// A parameter of a statement, with its type: statements are not prepared, so each is one round trip.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Connections that are taken in turn. On one of them statements run one after the other, in the order they came.
#[derive(Debug)]
pub(super) struct Lane {
    connector: Arc<Connector>,
    slots: Vec<Mutex<Option<Arc<Session>>>>,
    next: AtomicUsize,
    room: Semaphore,
    queue_operations_max: usize,
    timeout: Duration,
}

impl Lane {
    pub(super) fn new(
        connector: Arc<Connector>,
        connections: usize,
        queue_operations_max: usize,
        timeout: Duration,
    ) -> Self {
        Self {
            connector,
            slots: (0..connections).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
            room: Semaphore::new(queue_operations_max),
            queue_operations_max,
            timeout,
        }
    }

    /// The server's address without the password, for errors.
    pub(super) fn address(&self) -> &str {
        &self.connector.address
    }

    /// Runs one statement. When it fails as unavailable, it may have been applied, or may still be.
    pub(super) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let _permit = self.permit()?;
        let deadline = Instant::now() + self.timeout;
        self.attempt(deadline, sql, params).await.map_err(Failure::into_error)
    }

    /// Runs one statement that changes nothing: once more on a fresh connection, if the one it was given had broken
    /// since it was last used.
    pub(super) async fn read(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let _permit = self.permit()?;
        let deadline = Instant::now() + self.timeout;
        match self.attempt(deadline, sql, params).await {
            Err(Failure::Broken(_)) => self.attempt(deadline, sql, params).await.map_err(Failure::into_error),
            other => other.map_err(Failure::into_error),
        }
    }

    fn permit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.room.try_acquire().map_err(|_| {
            let max = self.queue_operations_max;
            self.connector.unavailable(&format!("{max} operations wait already (queue_operations_max)"))
        })
    }

    async fn attempt(&self, deadline: Instant, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let late = || Failure::Lasting(self.connector.no_answer(self.timeout, "timeout"));
        let session = timeout_at(deadline, self.session()).await.map_err(|_| late())??;
        match timeout_at(deadline, session.client.query_typed(sql, params)).await {
            Ok(Ok(rows)) => Ok(rows),
            // By another statement on this connection, which came a little earlier.
            Ok(Err(_)) if session.is_given_up() => Err(late()),
            Ok(Err(err)) if !session.is_usable() || ends_connection(&err) => {
                session.retire();
                Err(Failure::Broken(self.connector.error(&err)))
            }
            Ok(Err(err)) => Err(Failure::Lasting(self.connector.error(&err))),
            Err(_) => {
                // A server that stands still would hold all that comes after on this connection.
                session.give_up();
                Err(late())
            }
        }
    }

    async fn session(&self) -> Result<Arc<Session>, Failure> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len().max(1);
        let slot = self.slots.get(turn);
        let slot =
            slot.ok_or_else(|| Failure::Lasting(self.connector.unavailable("there are no connections")))?;
        let mut slot = slot.lock().await;
        if let Some(session) = slot.as_ref().filter(|session| session.is_usable()) {
            return Ok(Arc::clone(session));
        }
        let session = self.connector.connect().await.map_err(Failure::Lasting)?;
        Ok(Arc::clone(slot.insert(Arc::new(session))))
    }
}

enum Failure {
    /// The connection broke.
    Broken(StoreError),
    /// The server refused, or a new connection would fare no better.
    Lasting(StoreError),
}

impl Failure {
    fn into_error(self) -> StoreError {
        match self {
            Self::Broken(err) | Self::Lasting(err) => err,
        }
    }
}
