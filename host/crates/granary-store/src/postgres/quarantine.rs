//! The quarantine: one row with a version, replaced as a whole.

use granary_core::membership::table::CasOutcome;
use granary_core::quarantine::QuarantineTable;
use tokio_postgres::types::Type;

use super::error::malformed;
use super::lane::Lane;
use super::{column, from_sql, outcome, to_sql};
use crate::StoreError;

pub(super) async fn read(lane: &Lane) -> Result<(u64, QuarantineTable), StoreError> {
    let rows = lane.read("SELECT version, content FROM quarantine", &[]).await?;
    let Some(row) = rows.first() else {
        return Err(malformed(lane.address(), "quarantine", &"the table is empty"));
    };
    let content: String = column(lane, row, "content")?;
    let table = if content.is_empty() {
        QuarantineTable::default()
    } else {
        serde_json::from_str(&content).map_err(|err| malformed(lane.address(), "quarantine.content", &err))?
    };
    Ok((from_sql(lane, "version", column(lane, row, "version")?)?, table))
}

pub(super) async fn replace(
    lane: &Lane,
    table: QuarantineTable,
    expected_version: u64,
) -> Result<CasOutcome, StoreError> {
    let content =
        serde_json::to_string(&table).map_err(|err| malformed(lane.address(), "quarantine", &err))?;
    let version = to_sql(lane, "version", expected_version)?;
    let sql =
        "UPDATE quarantine SET version = version + 1, content = $2 WHERE version = $1 RETURNING version";
    outcome(lane, &lane.query(sql, &[(&version, Type::INT8), (&content, Type::TEXT)]).await?)
}
