//! Grain state: each operation is one statement on one row.
//!
//! A row outlives its value: the fence must hold before the first write and after a clear, and an etag must never
//! come back. An etag is the row's revision and a random part, so that it does not come back after a restore from
//! a backup either.

use granary_core::hosting::{StateError, StateValue};
use granary_core::id::GrainId;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::lane::{Lane, Param};
use super::{column, to_sql};
use crate::{StoreError, check_state_size};

/// How often a write is tried again whose row was emptied while it was looked at.
const ATTEMPTS_MAX: usize = 3;

struct Key<'a> {
    grain_type: &'a str,
    grain_key: &'a [u8],
    name: &'a [u8],
}

impl<'a> Key<'a> {
    fn new(grain: &'a GrainId, name: &'a str) -> Self {
        let (grain_type, grain_key) = (grain.grain_type().as_str(), grain.key().as_bytes());
        Self { grain_type, grain_key, name: name.as_bytes() }
    }

    fn params(&self) -> [Param<'_>; 3] {
        [(&self.grain_type, Type::TEXT), (&self.grain_key, Type::BYTEA), (&self.name, Type::BYTEA)]
    }
}

/// What a row holds.
struct Stored {
    fence: i64,
    value: Option<StateValue>,
}

pub(super) async fn read(
    lane: &Lane,
    grain: GrainId,
    name: String,
    fence: u64,
) -> Result<Option<StateValue>, StateError> {
    check_state_size(&name, 0)?;
    let fence = fence_to_sql(lane, fence)?;
    let key = Key::new(&grain, &name);
    // Most reads find the fence where it should be, and write nothing.
    let sql = "SELECT fence, etag, value FROM state WHERE grain_type = $1 AND grain_key = $2 AND name = $3";
    let rows = lane.read(sql, &key.params()).await.map_err(unavailable)?;
    let mut stored = stored(lane, rows.first())?;
    if stored.fence < fence {
        stored = raise(lane, &key, fence).await?;
    }
    if stored.fence > fence { Err(StateError::Fenced) } else { Ok(stored.value) }
}

/// Raises the fence and reads, at once.
async fn raise(lane: &Lane, key: &Key<'_>, fence: i64) -> Result<Stored, StateError> {
    let sql = "INSERT INTO state AS old VALUES ($1, $2, $3, 0, $4, NULL, NULL)
               ON CONFLICT (grain_type, grain_key, name) DO UPDATE SET fence = greatest(old.fence, excluded.fence)
               RETURNING fence, etag, value";
    let [grain_type, grain_key, name] = key.params();
    let params = [grain_type, grain_key, name, (&fence, Type::INT8)];
    stored(lane, lane.query(sql, &params).await.map_err(unavailable)?.first())
}

pub(super) async fn write(
    lane: &Lane,
    grain: GrainId,
    name: String,
    value: Vec<u8>,
    expected: Option<String>,
    fence: u64,
) -> Result<String, StateError> {
    check_state_size(&name, value.len())?;
    let fence = fence_to_sql(lane, fence)?;
    let etag = change(lane, &Key::new(&grain, &name), Some(value), expected, fence).await?;
    etag.ok_or_else(|| StateError::Unavailable("the store gave no etag".to_owned()))
}

pub(super) async fn clear(
    lane: &Lane,
    grain: GrainId,
    name: String,
    expected: Option<String>,
    fence: u64,
) -> Result<(), StateError> {
    check_state_size(&name, 0)?;
    let fence = fence_to_sql(lane, fence)?;
    change(lane, &Key::new(&grain, &name), None, expected, fence).await.map(drop)
}

/// Sets or clears the value if etag and fence allow it; yields the new etag, if there is a value.
async fn change(
    lane: &Lane,
    key: &Key<'_>,
    value: Option<Vec<u8>>,
    expected: Option<String>,
    fence: i64,
) -> Result<Option<String>, StateError> {
    let sql = match expected {
        Some(_) => {
            "UPDATE state SET
                 revision = revision + 1, fence = $4, value = $5,
                 etag = CASE WHEN $5 IS NOT NULL
                     THEN (revision + 1) || '-' || left(translate(gen_random_uuid()::text, '-', ''), 16) END
             WHERE grain_type = $1 AND grain_key = $2 AND name = $3 AND fence <= $4 AND etag = $6
             RETURNING etag"
        }
        None => {
            "INSERT INTO state AS old VALUES ($1, $2, $3, 1, $4, CASE WHEN $5 IS NOT NULL
                 THEN '1-' || left(translate(gen_random_uuid()::text, '-', ''), 16) END, $5)
             ON CONFLICT (grain_type, grain_key, name) DO UPDATE SET
                 revision = old.revision + 1, fence = excluded.fence, value = excluded.value,
                 etag = CASE WHEN $5 IS NOT NULL
                     THEN (old.revision + 1) || '-' || left(translate(gen_random_uuid()::text, '-', ''), 16) END
             WHERE old.fence <= excluded.fence AND old.etag IS NULL AND $6::text IS NULL
             RETURNING etag"
        }
    };
    let [grain_type, grain_key, name] = key.params();
    let params =
        [grain_type, grain_key, name, (&fence, Type::INT8), (&value, Type::BYTEA), (&expected, Type::TEXT)];
    for _ in 0..ATTEMPTS_MAX {
        let rows = lane.query(sql, &params).await.map_err(unavailable)?;
        if let Some(row) = rows.first() {
            return column(lane, row, "etag").map_err(unavailable);
        }
        // Nothing was written. Fences only grow and etags never come back, so the reason is still there; but a value
        // that stood in the way of a first write may be gone.
        let sql = "SELECT fence, etag FROM state WHERE grain_type = $1 AND grain_key = $2 AND name = $3";
        let rows = lane.read(sql, &key.params()).await.map_err(unavailable)?;
        let Some(row) = rows.first() else { return Err(StateError::Conflict { stored: None }) };
        if column::<i64>(lane, row, "fence").map_err(unavailable)? > fence {
            return Err(StateError::Fenced);
        }
        let stored: Option<String> = column(lane, row, "etag").map_err(unavailable)?;
        if stored != expected {
            return Err(StateError::Conflict { stored });
        }
    }
    Err(StateError::Unavailable(format!(
        "{}: the row changed {ATTEMPTS_MAX} times while it was written",
        lane.address()
    )))
}

fn stored(lane: &Lane, row: Option<&Row>) -> Result<Stored, StateError> {
    let Some(row) = row else { return Ok(Stored { fence: 0, value: None }) };
    let fence = column(lane, row, "fence").map_err(unavailable)?;
    let etag: Option<String> = column(lane, row, "etag").map_err(unavailable)?;
    let value: Option<Vec<u8>> = column(lane, row, "value").map_err(unavailable)?;
    Ok(Stored { fence, value: value.zip(etag).map(|(value, etag)| StateValue { value, etag }) })
}

/// Fences come from versions that count up from zero; SQL's integers are signed.
fn fence_to_sql(lane: &Lane, fence: u64) -> Result<i64, StateError> {
    to_sql(lane, "fence", fence).map_err(|err| StateError::TooLarge(err.to_string()))
}

fn unavailable(err: StoreError) -> StateError {
    match err {
        StoreError::Unavailable(why) | StoreError::Unusable(why) => StateError::Unavailable(why),
    }
}
