//! What is larger than a message: pieces, each a key of its own.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::bucket::Bucket;
use crate::StoreError;

/// The size of a piece, in bytes.
pub(super) const PIECE_BYTES: usize = 256 * 1024;

/// How many pieces are on the way at the same time.
const PIECES_IN_FLIGHT: usize = 4;

/// The bucket `pieces`.
#[derive(Debug)]
pub(super) struct Pieces {
    bucket: Bucket,
}

impl Pieces {
    pub(super) fn new(bucket: Bucket) -> Self {
        Self { bucket }
    }

    pub(super) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// Writes the pieces `PREFIX.0`, `PREFIX.1`, …; returns the lowest of their revisions.
    pub(super) async fn put(&self, prefix: &str, bytes: &[u8]) -> Result<u64, StoreError> {
        let pieces: Vec<(usize, Vec<u8>)> =
            bytes.chunks(PIECE_BYTES).map(<[u8]>::to_vec).enumerate().collect();
        stream::iter(pieces)
            .map(|(number, piece)| async move { self.bucket.put(&format!("{prefix}.{number}"), piece).await })
            .buffer_unordered(PIECES_IN_FLIGHT)
            .try_fold(u64::MAX, |lowest, revision| async move { Ok(lowest.min(revision)) })
            .await
    }

    /// The pieces in order, of `length` bytes together; what is missing is left out.
    pub(super) async fn get(&self, prefix: &str, length: usize) -> Result<Vec<u8>, StoreError> {
        stream::iter(0..length.div_ceil(PIECE_BYTES))
            .map(|number| async move { self.bucket.last(&format!("{prefix}.{number}")).await })
            .buffered(PIECES_IN_FLIGHT)
            .try_fold(Vec::new(), |mut bytes, piece| async move {
                bytes.extend_from_slice(&piece.map(|piece| piece.body).unwrap_or_default());
                Ok(bytes)
            })
            .await
    }
}
