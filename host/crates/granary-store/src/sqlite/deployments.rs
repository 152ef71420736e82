//! The deployments in SQL: a small table with a version.

use granary_core::id::Digest;
use granary_core::membership::table::CasOutcome;
use rusqlite::{Connection, Row, params};

use super::database::Schema;
use super::version;
use crate::DeploymentRecord;

pub(super) const SCHEMA: Schema = Schema {
    version: 2,
    sql: "
        CREATE TABLE version (
            id INTEGER PRIMARY KEY CHECK (id = 0),
            version INTEGER NOT NULL
        ) STRICT;
        INSERT INTO version VALUES (0, 0);
        CREATE TABLE deployments (
            grain_type TEXT PRIMARY KEY,
            digest BLOB NOT NULL,
            bytes INTEGER NOT NULL,
            name TEXT NOT NULL,
            revision INTEGER NOT NULL,
            properties TEXT NOT NULL,
            deployed_at INTEGER NOT NULL,
            grants TEXT NOT NULL DEFAULT ''
        ) STRICT;
    ",
    upgrades: &["ALTER TABLE deployments ADD COLUMN grants TEXT NOT NULL DEFAULT ''"],
};

pub(super) fn read(db: &Connection) -> rusqlite::Result<(u64, Vec<DeploymentRecord>)> {
    let version = version::read(db)?;
    let mut records = db.prepare_cached(
        "SELECT grain_type, digest, bytes, name, revision, properties, deployed_at, grants
         FROM deployments ORDER BY grain_type",
    )?;
    let records = records.query_map([], record)?.collect::<Result<_, _>>()?;
    Ok((version, records))
}

pub(super) fn put(
    db: &Connection,
    record: &DeploymentRecord,
    expected_version: u64,
) -> rusqlite::Result<CasOutcome> {
    if version::read(db)? != expected_version {
        return Ok(CasOutcome::Conflict);
    }
    db.prepare_cached("INSERT OR REPLACE INTO deployments VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            record.grain_type,
            record.digest.0,
            record.bytes,
            record.name,
            record.revision,
            record.properties,
            record.deployed_at,
            record.grants,
        ])?;
    Ok(CasOutcome::Written { version: version::next(db)? })
}

pub(super) fn remove(
    db: &Connection,
    grain_type: &str,
    expected_version: u64,
) -> rusqlite::Result<CasOutcome> {
    if version::read(db)? != expected_version {
        return Ok(CasOutcome::Conflict);
    }
    db.prepare_cached("DELETE FROM deployments WHERE grain_type = ?1")?.execute(params![grain_type])?;
    Ok(CasOutcome::Written { version: version::next(db)? })
}

fn record(row: &Row<'_>) -> rusqlite::Result<DeploymentRecord> {
    Ok(DeploymentRecord {
        grain_type: row.get(0)?,
        digest: Digest(row.get(1)?),
        bytes: row.get(2)?,
        name: row.get(3)?,
        revision: row.get(4)?,
        properties: row.get(5)?,
        deployed_at: row.get(6)?,
        grants: row.get(7)?,
    })
}
