//! Grain state in SQL.
//!
//! A row outlives its value: the fence must hold before the first write and after a clear, and an etag must never
//! come back. An etag is the row's revision and a random part, so that it does not come back after a restore from
//! a backup either.

use granary_core::hosting::{StateError, StateValue};
use granary_core::id::GrainId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::database::{Database, Schema};
use crate::{StoreError, check_state_size};

pub(super) const SCHEMA: Schema = Schema {
    version: 1,
    sql: "
        CREATE TABLE state (
            grain_type TEXT NOT NULL,
            grain_key TEXT NOT NULL,
            name TEXT NOT NULL,
            revision INTEGER NOT NULL,
            fence INTEGER NOT NULL,
            etag TEXT,   -- null without a value
            value BLOB,
            PRIMARY KEY (grain_type, grain_key, name)
        ) STRICT;
    ",
    upgrades: &[],
};

/// Which row an operation is about.
#[derive(Debug, Clone)]
struct Key {
    grain: GrainId,
    name: String,
}

/// What is checked before a change.
struct Stored {
    fence: i64,
    etag: Option<String>,
}

pub(super) async fn read(
    database: &Database,
    grain: GrainId,
    name: String,
    fence: u64,
) -> Result<Option<StateValue>, StateError> {
    check_state_size(&name, 0)?;
    let key = Key { grain, name };
    let fence = fence_to_sql(fence)?;
    let (reader_key, raise_key) = (key.clone(), key);
    // Most reads find the fence where it should be, and need no write lock and no sync.
    let found = database.read(move |db| find(db, &reader_key, fence)).await.map_err(unavailable)?;
    match found {
        Found::Value(value) => Ok(value),
        Found::Fenced => Err(StateError::Fenced),
        Found::FenceIsLower => {
            database.write(move |db| raise_and_find(db, &raise_key, fence)).await.map_err(unavailable)?
        }
    }
}

pub(super) async fn write(
    database: &Database,
    grain: GrainId,
    name: String,
    value: Vec<u8>,
    expected: Option<String>,
    fence: u64,
) -> Result<String, StateError> {
    check_state_size(&name, value.len())?;
    let key = Key { grain, name };
    let fence = fence_to_sql(fence)?;
    let written = database.write(move |db| change(db, &key, Some(&value), expected.as_deref(), fence));
    let etag = written.await.map_err(unavailable)??;
    etag.ok_or_else(|| StateError::Unavailable("the store gave no etag".to_owned()))
}

pub(super) async fn clear(
    database: &Database,
    grain: GrainId,
    name: String,
    expected: Option<String>,
    fence: u64,
) -> Result<(), StateError> {
    check_state_size(&name, 0)?;
    let key = Key { grain, name };
    let fence = fence_to_sql(fence)?;
    let cleared = database.write(move |db| change(db, &key, None, expected.as_deref(), fence));
    cleared.await.map_err(unavailable)?.map(drop)
}

enum Found {
    Value(Option<StateValue>),
    Fenced,
    FenceIsLower,
}

fn find(db: &Connection, key: &Key, fence: i64) -> rusqlite::Result<Found> {
    let found = db
        .prepare_cached(
            "SELECT fence, etag, value FROM state WHERE grain_type = ?1 AND grain_key = ?2 AND name = ?3",
        )?
        .query_row(params![key.grain.grain_type().as_str(), key.grain.key(), key.name], |row| {
            let (stored, etag, value) =
                (row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, Option<Vec<u8>>>(2)?);
            Ok((stored, value.zip(etag).map(|(value, etag)| StateValue { value, etag })))
        })
        .optional()?;
    let (stored, value) = found.unwrap_or((0, None));
    Ok(match stored.cmp(&fence) {
        std::cmp::Ordering::Less => Found::FenceIsLower,
        std::cmp::Ordering::Equal => Found::Value(value),
        std::cmp::Ordering::Greater => Found::Fenced,
    })
}

fn raise_and_find(
    db: &Connection,
    key: &Key,
    fence: i64,
) -> rusqlite::Result<Result<Option<StateValue>, StateError>> {
    db.prepare_cached(
        "INSERT INTO state (grain_type, grain_key, name, revision, fence) VALUES (?1, ?2, ?3, 0, ?4)
         ON CONFLICT DO UPDATE SET fence = max(fence, excluded.fence)",
    )?
    .execute(params![key.grain.grain_type().as_str(), key.grain.key(), key.name, fence])?;
    Ok(match find(db, key, fence)? {
        Found::Value(value) => Ok(value),
        // Raised by somebody else between the two steps.
        Found::Fenced | Found::FenceIsLower => Err(StateError::Fenced),
    })
}

/// Sets or clears the value if etag and fence allow it; yields the new etag, if there is a value.
fn change(
    db: &Connection,
    key: &Key,
    value: Option<&[u8]>,
    expected: Option<&str>,
    fence: i64,
) -> rusqlite::Result<Result<Option<String>, StateError>> {
    let stored = db
        .prepare_cached(
            "SELECT fence, etag FROM state WHERE grain_type = ?1 AND grain_key = ?2 AND name = ?3",
        )?
        .query_row(params![key.grain.grain_type().as_str(), key.grain.key(), key.name], |row| {
            Ok(Stored { fence: row.get(0)?, etag: row.get(1)? })
        })
        .optional()?
        .unwrap_or(Stored { fence: 0, etag: None });
    if stored.fence > fence {
        return Ok(Err(StateError::Fenced));
    }
    if stored.etag.as_deref() != expected {
        return Ok(Err(StateError::Conflict { stored: stored.etag }));
    }
    db.prepare_cached(
        "INSERT INTO state (grain_type, grain_key, name, revision, fence, etag, value)
         VALUES (?1, ?2, ?3, 1, ?4, iif(?5 IS NULL, NULL, '1-' || lower(hex(randomblob(8)))), ?5)
         ON CONFLICT DO UPDATE SET
             revision = revision + 1,
             fence = excluded.fence,
             etag = iif(excluded.value IS NULL, NULL, (revision + 1) || '-' || lower(hex(randomblob(8)))),
             value = excluded.value
         RETURNING etag",
    )?
    .query_row(params![key.grain.grain_type().as_str(), key.grain.key(), key.name, fence, value], |row| {
        row.get(0)
    })
    .map(Ok)
}

/// Fences come from versions that count up from zero; SQLite's integers are signed.
fn fence_to_sql(fence: u64) -> Result<i64, StateError> {
    i64::try_from(fence).map_err(|_| StateError::TooLarge(format!("the fence {fence} is above {}", i64::MAX)))
}

fn unavailable(err: StoreError) -> StateError {
    match err {
        StoreError::Unavailable(why) | StoreError::Unusable(why) => StateError::Unavailable(why),
    }
}
