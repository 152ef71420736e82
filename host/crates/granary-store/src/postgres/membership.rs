//! The membership table: each conditional write is one statement, which first locks the row with the version. A
//! statement that waited for that lock sees the version anew, and does nothing when it has changed.

use std::str::FromStr;

use granary_core::id::SiloAddress;
use granary_core::membership::table::{CasOutcome, MembershipRow, SiloStatus, TableSnapshot};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::error::malformed;
use super::lane::{Lane, Param};
use super::{from_sql, outcome, to_sql};
use crate::StoreError;
use crate::text::{parse_status, parse_votes, status_text, votes_text};

pub(super) async fn read(lane: &Lane) -> Result<TableSnapshot, StoreError> {
    // One statement is one snapshot.
    let sql = "SELECT version, address, name, status, gateway, admin, host_id, boot_id, process_id, votes, etag, renewal
               FROM membership_version LEFT JOIN silos ON true";
    let mut snapshot = TableSnapshot::default();
    for row in lane.read(sql, &[]).await? {
        let reader = Reader { lane, row: &row };
        snapshot.version = reader.number("version")?;
        if let Some(silo) = reader.silo()? {
            snapshot.rows.insert(silo.address, silo);
        }
    }
    Ok(snapshot)
}

pub(super) async fn insert(
    lane: &Lane,
    row: MembershipRow,
    expected_version: u64,
) -> Result<CasOutcome, StoreError> {
    let sql = "WITH locked AS (SELECT version FROM membership_version WHERE version = $1 FOR UPDATE),
                   changed AS (
                       INSERT INTO silos
                       SELECT $2, $3, $4, $5, $6, $7, $8, $9, $10, version + 1, 0 FROM locked
                       ON CONFLICT DO NOTHING RETURNING etag
                   )
               UPDATE membership_version SET version = etag FROM changed RETURNING version";
    write(lane, sql, &row, expected_version, None).await
}

pub(super) async fn update(
    lane: &Lane,
    row: MembershipRow,
    expected_version: u64,
) -> Result<CasOutcome, StoreError> {
    let sql = "WITH locked AS (SELECT version FROM membership_version WHERE version = $1 FOR UPDATE),
                   changed AS (
                       UPDATE silos
                       SET name = $3, status = $4, gateway = $5, admin = $6, host_id = $7, boot_id = $8,
                           process_id = $9, votes = $10, etag = version + 1
                       FROM locked WHERE address = $2 AND etag = $11 RETURNING etag
                   )
               UPDATE membership_version SET version = etag FROM changed RETURNING version";
    let etag = to_sql(lane, "etag", row.etag)?;
    write(lane, sql, &row, expected_version, Some(etag)).await
}

async fn write(
    lane: &Lane,
    sql: &str,
    row: &MembershipRow,
    expected_version: u64,
    etag: Option<i64>,
) -> Result<CasOutcome, StoreError> {
    let version = to_sql(lane, "version", expected_version)?;
    let (address, votes) = (row.address.to_string(), votes_text(&row.votes));
    let (gateway, admin) = (row.gateway.to_string(), row.admin.to_string());
    let (status, process) = (status_text(row.status), i64::from(row.process_id));
    let mut params: Vec<Param<'_>> = vec![
        (&version, Type::INT8),
        (&address, Type::TEXT),
        (&row.name, Type::TEXT),
        (&status, Type::TEXT),
        (&gateway, Type::TEXT),
        (&admin, Type::TEXT),
        (&row.host_id, Type::TEXT),
        (&row.boot_id, Type::TEXT),
        (&process, Type::INT8),
        (&votes, Type::TEXT),
    ];
    if let Some(etag) = &etag {
        params.push((etag, Type::INT8));
    }
    outcome(lane, &lane.query(sql, &params).await?)
}

pub(super) async fn renew(lane: &Lane, address: SiloAddress) -> Result<bool, StoreError> {
    let sql =
        "UPDATE silos SET renewal = renewal + 1 WHERE address = $1 AND status <> 'dead' RETURNING renewal";
    Ok(!lane.query(sql, &[(&address.to_string(), Type::TEXT)]).await?.is_empty())
}

pub(super) async fn remove_dead(lane: &Lane, addresses: Vec<SiloAddress>) -> Result<(), StoreError> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    // Rows are locked in one order, so that two who clean up do not wait for each other.
    let sql = "DELETE FROM silos WHERE address IN (
                   SELECT address FROM silos WHERE address = ANY ($1) AND status = 'dead' ORDER BY address FOR UPDATE
               )";
    lane.query(sql, &[(&addresses, Type::TEXT_ARRAY)]).await.map(drop)
}

/// Reads the columns of one row.
struct Reader<'a> {
    lane: &'a Lane,
    row: &'a Row,
}

impl Reader<'_> {
    /// `None` where the table has no rows.
    fn silo(&self) -> Result<Option<MembershipRow>, StoreError> {
        let address: Option<String> = self.column("address")?;
        let Some(address) = address else { return Ok(None) };
        Ok(Some(MembershipRow {
            address: address.parse().map_err(|err| malformed(self.lane.address(), "address", &err))?,
            name: self.column("name")?,
            status: self.status()?,
            gateway: self.parsed("gateway")?,
            admin: self.parsed("admin")?,
            host_id: self.column("host_id")?,
            boot_id: self.column("boot_id")?,
            process_id: self
                .number("process_id")?
                .try_into()
                .map_err(|err| malformed(self.lane.address(), "process_id", &err))?,
            votes: parse_votes(&self.column::<String>("votes")?)
                .map_err(|err| malformed(self.lane.address(), "votes", &err))?,
            etag: self.number("etag")?,
            renewal: self.number("renewal")?,
        }))
    }

    fn status(&self) -> Result<SiloStatus, StoreError> {
        parse_status(&self.column::<String>("status")?)
            .map_err(|err| malformed(self.lane.address(), "status", &err))
    }

    fn parsed<T: FromStr>(&self, column: &str) -> Result<T, StoreError>
    where
        T::Err: std::fmt::Display,
    {
        let text: String = self.column(column)?;
        text.parse().map_err(|err: T::Err| malformed(self.lane.address(), column, &err))
    }

    fn number(&self, column: &str) -> Result<u64, StoreError> {
        from_sql(self.lane, column, self.column(column)?)
    }

    fn column<'r, T: FromSql<'r>>(&'r self, column: &str) -> Result<T, StoreError> {
        super::column(self.lane, self.row, column)
    }
}
