//! The membership table in SQL. One row holds the version, so that a write with a stale one changes nothing.

use std::fmt::Write as _;
use std::str::FromStr;

use granary_core::id::SiloAddress;
use granary_core::membership::table::{CasOutcome, MembershipRow, SiloStatus, TableSnapshot, Vote};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

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
    let votes = row.votes.iter().fold(String::new(), |mut text, vote| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} {}", vote.voter, vote.number);
        text
    });
    db.prepare_cached(sql)?.execute(named_params! {
        ":address": row.address.to_string(),
        ":name": row.name,
        ":status": status_text(row.status),
        ":gateway": row.gateway.to_string(),
        ":admin": row.admin.to_string(),
        ":host": row.host_id,
        ":boot": row.boot_id,
        ":process": row.process_id,
        ":votes": votes,
        ":etag": next,
    })?;
    Ok(CasOutcome::Written { version: next })
}

fn silo(row: &Row<'_>) -> rusqlite::Result<MembershipRow> {
    Ok(MembershipRow {
        address: parsed(row, "address")?,
        name: row.get("name")?,
        status: status(row)?,
        gateway: parsed(row, "gateway")?,
        admin: parsed(row, "admin")?,
        host_id: row.get("host_id")?,
        boot_id: row.get("boot_id")?,
        process_id: row.get("process_id")?,
        votes: votes(row)?,
        etag: row.get("etag")?,
        renewal: row.get("renewal")?,
    })
}

fn status_text(status: SiloStatus) -> &'static str {
    match status {
        SiloStatus::Joining => "joining",
        SiloStatus::Active => "active",
        SiloStatus::ShuttingDown => "shutting-down",
        SiloStatus::Dead => "dead",
    }
}

fn status(row: &Row<'_>) -> rusqlite::Result<SiloStatus> {
    let text: String = row.get("status")?;
    match text.as_str() {
        "joining" => Ok(SiloStatus::Joining),
        "active" => Ok(SiloStatus::Active),
        "shutting-down" => Ok(SiloStatus::ShuttingDown),
        "dead" => Ok(SiloStatus::Dead),
        _ => Err(malformed(row, "status", format!("{text:?} is no status of a silo"))),
    }
}

fn votes(row: &Row<'_>) -> rusqlite::Result<Vec<Vote>> {
    let text: String = row.get("votes")?;
    let vote = |line: &str| {
        let (voter, number) = line.split_once(' ')?;
        Some(Vote { voter: voter.parse().ok()?, number: number.parse().ok()? })
    };
    text.lines()
        .map(|line| vote(line).ok_or_else(|| malformed(row, "votes", format!("{line:?} is no vote"))))
        .collect()
}

fn parsed<T: FromStr>(row: &Row<'_>, column: &str) -> rusqlite::Result<T>
where
    T::Err: std::fmt::Display,
{
    let text: String = row.get(column)?;
    text.parse().map_err(|err: T::Err| malformed(row, column, err.to_string()))
}

fn malformed(row: &Row<'_>, column: &str, why: String) -> rusqlite::Error {
    let index = row.as_ref().column_index(column).unwrap_or(0);
    rusqlite::Error::FromSqlConversionFailure(index, Type::Text, why.into())
}
