//! The version of a table that is written by compare-and-swap: one row, which counts the writes.

use rusqlite::Connection;

/// The version that stands now.
pub(super) fn read(db: &Connection) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT version FROM version")?.query_row([], |row| row.get(0))
}

/// Counts up, and gives the new version.
pub(super) fn next(db: &Connection) -> rusqlite::Result<u64> {
    db.prepare_cached("UPDATE version SET version = version + 1 RETURNING version")?
        .query_row([], |row| row.get(0))
}
