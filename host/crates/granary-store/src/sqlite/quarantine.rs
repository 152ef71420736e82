//! The quarantine in SQL: two small tables with a version, replaced as a whole.

use granary_core::id::Digest;
use granary_core::membership::table::CasOutcome;
use granary_core::quarantine::{Death, QuarantineTable, Quarantined};
use rusqlite::{Connection, params};

use super::database::Schema;
use super::version;

pub(super) const SCHEMA: Schema = Schema {
    version: 1,
    sql: "
        CREATE TABLE version (
            id INTEGER PRIMARY KEY CHECK (id = 0),
            version INTEGER NOT NULL
        ) STRICT;
        INSERT INTO version VALUES (0, 0);
        CREATE TABLE deaths (
            position INTEGER PRIMARY KEY,
            digest BLOB NOT NULL,
            silo TEXT NOT NULL,
            generation INTEGER NOT NULL,
            cause TEXT NOT NULL,
            at_s INTEGER NOT NULL,
            forgiven INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE quarantined (
            position INTEGER PRIMARY KEY,
            digest BLOB NOT NULL,
            since_s INTEGER NOT NULL,
            reason TEXT NOT NULL
        ) STRICT;
    ",
    upgrades: &[],
};

pub(super) fn read(db: &Connection) -> rusqlite::Result<(u64, QuarantineTable)> {
    let mut deaths = db.prepare_cached(
        "SELECT digest, silo, generation, cause, at_s, forgiven FROM deaths ORDER BY position",
    )?;
    let deaths = deaths
        .query_map([], |row| {
            Ok(Death {
                digest: Digest(row.get(0)?),
                silo: row.get(1)?,
                generation: row.get(2)?,
                cause: row.get(3)?,
                at_s: row.get(4)?,
                forgiven: row.get(5)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    let mut quarantined =
        db.prepare_cached("SELECT digest, since_s, reason FROM quarantined ORDER BY position")?;
    let quarantined = quarantined
        .query_map([], |row| {
            Ok(Quarantined { digest: Digest(row.get(0)?), since_s: row.get(1)?, reason: row.get(2)? })
        })?
        .collect::<Result<_, _>>()?;
    Ok((version::read(db)?, QuarantineTable { deaths, quarantined }))
}

pub(super) fn replace(
    db: &Connection,
    table: &QuarantineTable,
    expected_version: u64,
) -> rusqlite::Result<CasOutcome> {
    if version::read(db)? != expected_version {
        return Ok(CasOutcome::Conflict);
    }
    db.prepare_cached("DELETE FROM deaths")?.execute([])?;
    db.prepare_cached("DELETE FROM quarantined")?.execute([])?;
    let mut insert = db.prepare_cached(
        "INSERT INTO deaths (digest, silo, generation, cause, at_s, forgiven) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for it in &table.deaths {
        insert.execute(params![it.digest.0, it.silo, it.generation, it.cause, it.at_s, it.forgiven])?;
    }
    let mut insert =
        db.prepare_cached("INSERT INTO quarantined (digest, since_s, reason) VALUES (?1, ?2, ?3)")?;
    for it in &table.quarantined {
        insert.execute(params![it.digest.0, it.since_s, it.reason])?;
    }
    Ok(CasOutcome::Written { version: version::next(db)? })
}
