//! One SQLite file: its connection, the thread that owns it, and the queue of operations.
//!
//! Operations that wait together share a transaction (group commit), each in a savepoint of its own; they are
//! answered after the commit.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::oneshot;

use super::OpenOptions;
use crate::StoreError;

/// The most operations in one transaction.
const BATCH_OPERATIONS_MAX: usize = 64;

/// The write-ahead log is cut to this size after a checkpoint, in bytes.
const LOG_BYTES_KEPT: u32 = 16 * 1024 * 1024;

/// A file's tables and the version of their layout, which stands in the file as `user_version`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schema {
    pub(super) version: u32,
    pub(super) sql: &'static str,
    /// From each earlier layout to the next one, the first from layout 1.
    pub(super) upgrades: &'static [&'static str],
}

/// The handle to one file's thread. The thread ends when the handle is dropped and the queue is done.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    queue: SyncSender<Box<dyn Operation>>,
    timeout: Duration,
}

/// Whether an operation changes something: readers do not take the write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// An operation in the queue: run once within a transaction, answered once when that has ended.
trait Operation: Send {
    fn access(&self) -> Access;

    /// Nobody waits for it any more.
    fn is_given_up(&self) -> bool;

    /// Runs it; `false` when it failed and its savepoint must be rolled back.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Answers with its result, or with the failure of the whole transaction.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Typed<T, F> {
    access: Access,
    path: PathBuf,
    run: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Operation for Typed<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
{
    fn access(&self) -> Access {
        self.access
    }

    fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, connection: &Connection) -> bool {
        let Some(run) = self.run.take() else { return true };
        let result = run(connection).map_err(|err| store_error(&self.path, &err));
        self.result.insert(result).is_ok()
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let answer = match committed {
            Err(err) => Err(err),
            Ok(()) => match self.result {
                Some(result) => result,
                None => return,
            },
        };
        let _ = self.reply.send(answer);
    }
}

impl Database {
    /// Opens the file, makes its tables, and starts its thread.
    pub(super) fn open(
        path: &Path,
        name: &str,
        schema: Schema,
        options: &OpenOptions,
    ) -> Result<Self, StoreError> {
        let connection = connect(path, schema, options)?;
        let (queue, operations) = sync_channel(options.queue_operations_max);
        let thread_path = path.to_owned();
        std::thread::Builder::new()
            .name(format!("store-{name}"))
            .spawn(move || serve(connection, &thread_path, &operations))
            .map_err(|err| StoreError::Unavailable(format!("cannot start a thread: {err}")))?;
        Ok(Self { path: path.to_owned(), queue, timeout: options.timeout })
    }

    /// Runs an operation that only reads, in a snapshot of its own or shared with other readers.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(Access::Read, run).await
    }

    /// Runs an operation in a transaction that holds the write lock; returns when it is durable. When the time
    /// runs out, it may still be applied.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(Access::Write, run).await
    }

    async fn call<T: Send + 'static>(
        &self,
        access: Access,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let operation = Typed { access, path: self.path.clone(), run: Some(run), result: None, reply };
        match self.queue.try_send(Box::new(operation)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(self.unavailable("too many operations wait already"));
            }
            Err(TrySendError::Disconnected(_)) => return Err(self.unavailable("its thread has ended")),
        }
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.unavailable("its thread has ended")),
            Err(_) => Err(self.unavailable(&format!("no answer within {:?}", self.timeout))),
        }
    }

    fn unavailable(&self, why: &str) -> StoreError {
        StoreError::Unavailable(format!("{}: {why}", self.path.display()))
    }
}

/// The thread: takes what waits, up to a limit, and runs it in one transaction.
fn serve(mut connection: Connection, path: &Path, operations: &Receiver<Box<dyn Operation>>) {
    let mut next: Option<Box<dyn Operation>> = None;
    while let Some(first) = next.take().or_else(|| operations.recv().ok()) {
        let access = first.access();
        let mut batch = vec![first];
        while batch.len() < BATCH_OPERATIONS_MAX {
            match operations.try_recv() {
                Ok(operation) if operation.access() == access => batch.push(operation),
                Ok(operation) => {
                    // Kept for the next round, so that operations run in the order they came.
                    next = Some(operation);
                    break;
                }
                Err(_) => break,
            }
        }
        let committed = run_batch(&mut connection, access, &mut batch).map_err(|err| store_error(path, &err));
        for operation in batch {
            operation.answer(committed.clone());
        }
    }
}

fn run_batch(
    connection: &mut Connection,
    access: Access,
    batch: &mut [Box<dyn Operation>],
) -> rusqlite::Result<()> {
    let behavior = match access {
        Access::Read => TransactionBehavior::Deferred,
        Access::Write => TransactionBehavior::Immediate,
    };
    let mut transaction = connection.transaction_with_behavior(behavior)?;
    for operation in batch.iter_mut().filter(|operation| !operation.is_given_up()) {
        // A savepoint each, so that one that fails leaves no trace and does not harm its neighbours.
        let mut savepoint = transaction.savepoint()?;
        if !operation.run(&savepoint) {
            savepoint.rollback()?;
        }
        savepoint.commit()?;
    }
    transaction.commit()
}

fn connect(path: &Path, schema: Schema, options: &OpenOptions) -> Result<Connection, StoreError> {
    let error = |err| store_error(path, &err);
    let connection = Connection::open(path).map_err(error)?;
    connection.busy_timeout(options.busy_timeout).map_err(error)?;
    switch_to_log(&connection, options.busy_timeout).map_err(error)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(error)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT).map_err(error)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(error)?;
    connection.set_prepared_statement_cache_capacity(32);
    make_tables(connection, path, schema)
}

/// Switching to the write-ahead log does not wait for other processes by itself.
fn switch_to_log(connection: &Connection, wait_max: Duration) -> rusqlite::Result<()> {
    let start = Instant::now();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
                let why =
                    format!("the write-ahead log is not available here, the journal mode stays {mode:?}");
                return Err(rusqlite::Error::SqliteFailure(code, Some(why)));
            }
            Err(err) if is_busy(&err) && start.elapsed() < wait_max => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(err) => return Err(err),
        }
    }
}

fn make_tables(mut connection: Connection, path: &Path, schema: Schema) -> Result<Connection, StoreError> {
    let error = |err| store_error(path, &err);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
    let found: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(error)?;
    if found == 0 {
        transaction.execute_batch(schema.sql).map_err(error)?;
        transaction.pragma_update(None, "user_version", schema.version).map_err(error)?;
    } else if found < schema.version {
        let done = usize::try_from(found.saturating_sub(1)).unwrap_or(usize::MAX);
        for upgrade in schema.upgrades.iter().skip(done) {
            transaction.execute_batch(upgrade).map_err(error)?;
        }
        transaction.pragma_update(None, "user_version", schema.version).map_err(error)?;
    } else if found != schema.version {
        return Err(StoreError::Unusable(format!(
            "{} has layout {found}, this version of granary supports {}",
            path.display(),
            schema.version
        )));
    }
    transaction.commit().map_err(error)?;
    Ok(connection)
}

fn is_busy(err: &rusqlite::Error) -> bool {
    matches!(err.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Sorts SQLite's errors into those that may pass and those that do not.
fn store_error(path: &Path, err: &rusqlite::Error) -> StoreError {
    let text = format!("{}: {err}", path.display());
    match err.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::SchemaChanged
            | ErrorCode::TypeMismatch,
        ) => StoreError::Unusable(text),
        // Not an error of SQLite, but a value that does not convert: somebody else wrote to the file.
        None if matches!(err, rusqlite::Error::FromSqlConversionFailure(..)) => StoreError::Unusable(text),
        _ => StoreError::Unavailable(text),
    }
}
