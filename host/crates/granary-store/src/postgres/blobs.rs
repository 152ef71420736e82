//! Blobs in pieces, so that no message and no row is large. A blob is there once its row in `blobs` is, which is
//! written after the pieces; pieces without it come from a put that did not end, and the next put writes over them.

use granary_core::id::Digest;
use tokio_postgres::types::Type;

use super::lane::Lane;
use super::{column, from_sql, to_sql};
use crate::{StoreError, check_blob_size};

/// The size of a piece, in bytes.
const PIECE_BYTES: usize = 512 * 1024;

pub(super) async fn put(lane: &Lane, bytes: Vec<u8>) -> Result<Digest, StoreError> {
    check_blob_size(bytes.len() as u64)?;
    let digest = Digest::of(&bytes);
    // What is there already counts only if it is sound.
    if get(lane, digest).await?.is_some() {
        return Ok(digest);
    }
    let length = to_sql(lane, "bytes", bytes.len() as u64)?;
    let name: &[u8] = &digest.0;
    let sql = "INSERT INTO blob_pieces VALUES ($1, $2, $3)
               ON CONFLICT (digest, number) DO UPDATE SET content = excluded.content";
    for (number, piece) in (0_i32..).zip(bytes.chunks(PIECE_BYTES)) {
        lane.query(sql, &[(&name, Type::BYTEA), (&number, Type::INT4), (&piece, Type::BYTEA)]).await?;
    }
    let sql = "INSERT INTO blobs VALUES ($1, $2) ON CONFLICT (digest) DO UPDATE SET bytes = excluded.bytes";
    lane.query(sql, &[(&name, Type::BYTEA), (&length, Type::INT8)]).await?;
    Ok(digest)
}

pub(super) async fn get(lane: &Lane, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
    let name: &[u8] = &digest.0;
    let rows = lane.read("SELECT bytes FROM blobs WHERE digest = $1", &[(&name, Type::BYTEA)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let length = from_sql(lane, "blobs.bytes", column(lane, row, "bytes")?)?;
    check_blob_size(length)?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let count = i32::try_from(length.div_ceil(PIECE_BYTES)).unwrap_or(i32::MAX);
    let mut bytes = Vec::new();
    for number in 0..count {
        let sql = "SELECT content FROM blob_pieces WHERE digest = $1 AND number = $2";
        let rows = lane.read(sql, &[(&name, Type::BYTEA), (&number, Type::INT4)]).await?;
        let Some(row) = rows.first() else { break };
        bytes.extend_from_slice(column(lane, row, "content")?);
    }
    if Digest::of(&bytes) == digest {
        return Ok(Some(bytes));
    }
    // Its pieces stay, for people to look at, until it is put again.
    lane.query("DELETE FROM blobs WHERE digest = $1", &[(&name, Type::BYTEA)]).await?;
    tracing::warn!(
        "{}: blob {digest} is corrupt ({} bytes that do not have this digest): it counts as absent",
        lane.address(),
        bytes.len()
    );
    Ok(None)
}
