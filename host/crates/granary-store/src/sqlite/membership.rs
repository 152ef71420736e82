//! The membership table in SQL. One row holds the version, so that a write with a stale one changes nothing.

use std::str::FromStr;

use granary_core::id::SiloAddress;
use granary_core::membership::table::{CasOutcome, MembershipRow, TableSnapshot};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::database::Schema;
use super::version;
use crate::text::{parse_status, parse_votes, status_text, votes_text};

pub(super) const SCHEMA: Schema = Schema {
    version: 1,
    sql: "
        CREATE TABLE version (
            id INTEGER PRIMARY KEY CHECK (id = 0),
            version INTEGER NOT NULL
        ) STRICT;
        INSERT INTO version VALUES (0, 0);
        CREATE TABLE silos (
            address TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('joining', 'active', 'shutting-down', 'dead')),
            gateway TEXT NOT NULL,
            admin TEXT NOT NULL,
            host_id TEXT NOT NULL,
            boot_id TEXT NOT NULL,
            process_id INTEGER NOT NULL,
            votes TEXT NOT NULL, -- one vote a line: the voter and the number of its vote
            etag INTEGER NOT NULL,
            renewal INTEGER NOT NULL
        ) STRICT;
    ",
    upgrades: &[],
};

pub(super) fn read(db: &Connection) -> rusqlite::Result<TableSnapshot> {
    let version = version::read(db)?;
    let mut rows = db.prepare_cached("SELECT * FROM silos")?;
    let rows = rows.query_map([], |row| silo(row).map(|silo| (silo.address, silo)))?;
    Ok(TableSnapshot { version, rows: rows.collect::<Result<_, _>>()? })
}

pub(super) fn insert(
    db: &Connection,
    row: &MembershipRow,
    expected_version: u64,
) -> rusqlite::Result<CasOutcome> {
    let there = db
        .prepare_cached("SELECT 1 FROM silos WHERE address = ?1")?
        .exists(params![row.address.to_string()])?;
    if there || version::read(db)? != expected_version {
        return Ok(CasOutcome::Conflict);
    }
    put(
        db,
        row,
        "INSERT INTO silos
         VALUES (:address, :name, :status, :gateway, :admin, :host, :boot, :process, :votes, :etag, 0)",
    )
}

pub(super) fn update(
    db: &Connection,
    row: &MembershipRow,
    expected_version: u64,
) -> rusqlite::Result<CasOutcome> {
    let etag: Option<u64> = db
        .prepare_cached("SELECT etag FROM silos WHERE address = ?1")?
        .query_row(params![row.address.to_string()], |found| found.get(0))
        .optional()?;
    if etag != Some(row.etag) || version::read(db)? != expected_version {
        return Ok(CasOutcome::Conflict);
    }
    put(
        db,
        row,
        "UPDATE silos SET name = :name, status = :status, gateway = :gateway, admin = :admin, host_id = :host,
         boot_id = :boot, process_id = :process, votes = :votes, etag = :etag WHERE address = :address",
    )
}

pub(super) fn renew(db: &Connection, address: SiloAddress) -> rusqlite::Result<bool> {
    let changed = db
        .prepare_cached("UPDATE silos SET renewal = renewal + 1 WHERE address = ?1 AND status <> 'dead'")?
        .execute(params![address.to_string()])?;
    Ok(changed == 1)
}

pub(super) fn remove_dead(db: &Connection, addresses: &[SiloAddress]) -> rusqlite::Result<()> {
    let mut remove = db.prepare_cached("DELETE FROM silos WHERE address = ?1 AND status = 'dead'")?;
    for address in addresses {
        remove.execute(params![address.to_string()])?;
    }
    Ok(())
}

/// Writes a row whose conditions hold, and counts the version up. The new version is the row's etag: no two
/// writes share one.
fn put(db: &Connection, row: &MembershipRow, sql: &str) -> rusqlite::Result<CasOutcome> {
    let next = version::next(db)?;
    db.prepare_cached(sql)?.execute(named_params! {
        ":address": row.address.to_string(),
        ":name": row.name,
        ":status": status_text(row.status),
        ":gateway": row.gateway.to_string(),
        ":admin": row.admin.to_string(),
        ":host": row.host_id,
        ":boot": row.boot_id,
        ":process": row.process_id,
        ":votes": votes_text(&row.votes),
        ":etag": next,
    })?;
    Ok(CasOutcome::Written { version: next })
}

fn silo(row: &Row<'_>) -> rusqlite::Result<MembershipRow> {
    Ok(MembershipRow {
        address: parsed(row, "address")?,
        name: row.get("name")?,
        status: read_as(row, "status", parse_status)?,
        gateway: parsed(row, "gateway")?,
        admin: parsed(row, "admin")?,
        host_id: row.get("host_id")?,
        boot_id: row.get("boot_id")?,
        process_id: row.get("process_id")?,
        votes: read_as(row, "votes", parse_votes)?,
        etag: row.get("etag")?,
        renewal: row.get("renewal")?,
    })
}

fn parsed<T: FromStr>(row: &Row<'_>, column: &str) -> rusqlite::Result<T>
where
    T::Err: std::fmt::Display,
{
    read_as(row, column, |text| text.parse().map_err(|err: T::Err| err.to_string()))
}

fn read_as<T>(
    row: &Row<'_>,
    column: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).map_err(|why| {
        let index = row.as_ref().column_index(column).unwrap_or(0);
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, why.into())
    })
}
