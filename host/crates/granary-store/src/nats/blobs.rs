//! Blobs in pieces. A blob is there once its key `all` is, which is written after the pieces; pieces without it come from
//! a put that did not end, and the next put writes over them.

use granary_core::id::Digest;
use serde::{Deserialize, Serialize};

use super::pieces::Pieces;
use crate::{StoreError, check_blob_size};

/// What stands in the key `all`.
#[derive(Debug, Serialize, Deserialize)]
struct All {
    bytes: u64,
}

fn prefix(digest: Digest) -> String {
    format!("blob.{digest}")
}

fn all(digest: Digest) -> String {
    format!("blob-all.{digest}")
}

pub(super) async fn put(pieces: &Pieces, bytes: Vec<u8>) -> Result<Digest, StoreError> {
    check_blob_size(bytes.len() as u64)?;
    let digest = Digest::of(&bytes);
    // What is there already counts only if it is sound.
    if get(pieces, digest).await?.is_some() {
        return Ok(digest);
    }
    pieces.put(&prefix(digest), &bytes).await?;
    let key = all(digest);
    let body = serde_json::to_vec(&All { bytes: bytes.len() as u64 })
        .map_err(|err| pieces.bucket().malformed(&key, &err))?;
    pieces.bucket().put(&key, body).await?;
    Ok(digest)
}

pub(super) async fn get(pieces: &Pieces, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
    let key = all(digest);
    let Some(stored) = pieces.bucket().last(&key).await? else { return Ok(None) };
    let All { bytes: length } =
        serde_json::from_slice(&stored.body).map_err(|err| pieces.bucket().malformed(&key, &err))?;
    check_blob_size(length)?;
    let bytes = pieces.get(&prefix(digest), usize::try_from(length).unwrap_or(usize::MAX)).await?;
    if Digest::of(&bytes) == digest {
        return Ok(Some(bytes));
    }
    // Its pieces stay, for people to look at, until it is put again.
    pieces.bucket().purge(&key, None).await?;
    tracing::warn!(
        "{}: blob {digest} is corrupt ({} bytes that do not have this digest): it counts as absent",
        pieces.bucket().link().address(),
        bytes.len()
    );
    Ok(None)
}
