//! The deployments: a small table with a version.

use granary_core::id::Digest;
use granary_core::membership::table::CasOutcome;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::lane::{Lane, Param};
use super::{column, digest_from_sql, from_sql, outcome, to_sql};
use crate::{DeploymentRecord, StoreError};

pub(super) async fn read(lane: &Lane) -> Result<(u64, Vec<DeploymentRecord>), StoreError> {
    let sql = "SELECT version, grain_type, digest, bytes, name, revision, properties, deployed_at, grants
               FROM deployments_version LEFT JOIN deployments ON true ORDER BY grain_type";
    let (mut version, mut records) = (0, Vec::new());
    for row in lane.read(sql, &[]).await? {
        version = number(lane, &row, "version")?;
        records.extend(record(lane, &row)?);
    }
    Ok((version, records))
}

pub(super) async fn put(
    lane: &Lane,
    record: DeploymentRecord,
    expected_version: u64,
) -> Result<CasOutcome, StoreError> {
    let sql = "WITH bumped AS (
                   UPDATE deployments_version SET version = version + 1 WHERE version = $1 RETURNING version
               ), changed AS (
                   INSERT INTO deployments SELECT $2, $3, $4, $5, $6, $7, $8, $9 FROM bumped
                   ON CONFLICT (grain_type) DO UPDATE SET
                       digest = excluded.digest, bytes = excluded.bytes, name = excluded.name,
                       revision = excluded.revision, properties = excluded.properties,
                       deployed_at = excluded.deployed_at, grants = excluded.grants
               )
               SELECT version FROM bumped";
    let version = to_sql(lane, "version", expected_version)?;
    let digest: &[u8] = &record.digest.0;
    let bytes = to_sql(lane, "bytes", record.bytes)?;
    let revision = to_sql(lane, "revision", record.revision)?;
    let deployed_at = to_sql(lane, "deployed_at", record.deployed_at)?;
    let params: [Param<'_>; 9] = [
        (&version, Type::INT8),
        (&record.grain_type, Type::TEXT),
        (&digest, Type::BYTEA),
        (&bytes, Type::INT8),
        (&record.name, Type::TEXT),
        (&revision, Type::INT8),
        (&record.properties, Type::TEXT),
        (&deployed_at, Type::INT8),
        (&record.grants, Type::TEXT),
    ];
    outcome(lane, &lane.query(sql, &params).await?)
}

pub(super) async fn remove(
    lane: &Lane,
    grain_type: String,
    expected_version: u64,
) -> Result<CasOutcome, StoreError> {
    let sql = "WITH bumped AS (
                   UPDATE deployments_version SET version = version + 1 WHERE version = $1 RETURNING version
               ), changed AS (
                   DELETE FROM deployments USING bumped WHERE grain_type = $2
               )
               SELECT version FROM bumped";
    let version = to_sql(lane, "version", expected_version)?;
    outcome(lane, &lane.query(sql, &[(&version, Type::INT8), (&grain_type, Type::TEXT)]).await?)
}

/// `None` where there is no deployment.
fn record(lane: &Lane, row: &Row) -> Result<Option<DeploymentRecord>, StoreError> {
    let grain_type: Option<String> = column(lane, row, "grain_type")?;
    let Some(grain_type) = grain_type else { return Ok(None) };
    let digest: Digest = digest_from_sql(lane, column(lane, row, "digest")?)?;
    Ok(Some(DeploymentRecord {
        grain_type,
        digest,
        bytes: number(lane, row, "bytes")?,
        name: column(lane, row, "name")?,
        revision: number(lane, row, "revision")?,
        properties: column(lane, row, "properties")?,
        deployed_at: number(lane, row, "deployed_at")?,
        grants: column(lane, row, "grants")?,
    }))
}

fn number(lane: &Lane, row: &Row, name: &str) -> Result<u64, StoreError> {
    from_sql(lane, name, column(lane, row, name)?)
}
