//! Grain state: one key for each state, which holds fence, etag and value; a large value stands in pieces.
//!
//! The key outlives the value: the fence must hold before the first write and after a clear, and an etag must never
//! come back. An etag is a count of the writes and a random part, so that it does not come back after a restore from a
//! backup either. Every change is conditional on the revision of the key that it rests on.
//!
//! Pieces are written before the key that names them, and under a name of their own write, so nobody sees a mixture.
//! Those of a write that came to nothing are removed with the next large write of that state.

use granary_core::hosting::{StateError, StateValue};
use granary_core::id::{Digest, GrainId};
use serde::{Deserialize, Serialize};

use super::bucket::Bucket;
use super::link::Published;
use super::pieces::Pieces;
use super::random_id;
use crate::{StoreError, check_state_size};

/// Values up to this size stand in the key itself, in bytes.
const INLINE_BYTES_MAX: usize = 128 * 1024;

/// How often an operation starts anew whose key was changed by another that did not stand in its way.
const ATTEMPTS_MAX: usize = 8;

/// What stands in a key, as a line of JSON; an inline value follows the line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Head {
    /// The grain and the name, for people: the key is a digest of them.
    grain: String,
    name: String,
    /// Counts the writes.
    count: u64,
    fence: u64,
    /// Missing without a value.
    etag: Option<String>,
    /// Where the value is, if it does not follow.
    pieces: Option<InPieces>,
}

/// A value in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InPieces {
    /// Their keys begin with it.
    prefix: String,
    bytes: u64,
    /// The lowest of their revisions.
    first: u64,
}

/// A key with its revision.
struct Stored {
    revision: u64,
    head: Head,
    inline: Vec<u8>,
}

/// One state of one grain.
struct State<'a> {
    bucket: &'a Bucket,
    pieces: &'a Pieces,
    grain: GrainId,
    name: String,
}

pub(super) async fn read(
    bucket: &Bucket,
    pieces: &Pieces,
    grain: GrainId,
    name: String,
    fence: u64,
) -> Result<Option<StateValue>, StateError> {
    check_state_size(&name, 0)?;
    let state = State { bucket, pieces, grain, name };
    for _ in 0..ATTEMPTS_MAX {
        let stored = state.stored().await?;
        if stored.head.fence > fence {
            return Err(StateError::Fenced);
        }
        if stored.head.fence < fence {
            let raised = Head { fence, ..stored.head.clone() };
            if state.publish(&raised, &stored.inline, stored.revision).await? == Published::Conflict {
                continue;
            }
        }
        let Some(etag) = stored.head.etag else { return Ok(None) };
        let value = match stored.head.pieces {
            None => stored.inline,
            Some(found) => {
                let length = usize::try_from(found.bytes).unwrap_or(usize::MAX);
                let value = pieces.get(&found.prefix, length).await.map_err(unavailable)?;
                if value.len() != length {
                    // A newer write has removed them meanwhile.
                    continue;
                }
                value
            }
        };
        return Ok(Some(StateValue { value, etag }));
    }
    Err(state.changed_too_often())
}

pub(super) async fn write(
    bucket: &Bucket,
    pieces: &Pieces,
    (grain, name): (GrainId, String),
    value: Vec<u8>,
    expected: Option<String>,
    fence: u64,
) -> Result<String, StateError> {
    check_state_size(&name, value.len())?;
    let state = State { bucket, pieces, grain, name };
    let etag = state.change(Some(value), expected, fence).await?;
    etag.ok_or_else(|| StateError::Unavailable("the store gave no etag".to_owned()))
}

pub(super) async fn clear(
    bucket: &Bucket,
    pieces: &Pieces,
    (grain, name): (GrainId, String),
    expected: Option<String>,
    fence: u64,
) -> Result<(), StateError> {
    check_state_size(&name, 0)?;
    State { bucket, pieces, grain, name }.change(None, expected, fence).await.map(drop)
}

impl State<'_> {
    /// Sets or clears the value if etag and fence allow it; yields the new etag, if there is a value.
    async fn change(
        &self,
        value: Option<Vec<u8>>,
        expected: Option<String>,
        fence: u64,
    ) -> Result<Option<String>, StateError> {
        let mut written: Option<InPieces> = None;
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.stored().await?;
            if stored.head.fence > fence {
                return Err(StateError::Fenced);
            }
            if stored.head.etag != expected {
                return Err(StateError::Conflict { stored: stored.head.etag });
            }
            let inline = match &value {
                Some(value) if value.len() > INLINE_BYTES_MAX => {
                    if written.is_none() {
                        written = Some(self.write_pieces(value).await?);
                    }
                    &[][..]
                }
                Some(value) => value,
                None => &[],
            };
            let count = stored.head.count + 1;
            let etag = value.as_ref().map(|_| format!("{count}-{}", random_id()));
            let head = Head { count, fence, etag: etag.clone(), pieces: written.clone(), ..self.empty() };
            if let Published::At(_) = self.publish(&head, inline, stored.revision).await? {
                self.clean_up(stored.head.pieces, written).await;
                return Ok(etag);
            }
        }
        Err(self.changed_too_often())
    }

    async fn write_pieces(&self, value: &[u8]) -> Result<InPieces, StateError> {
        let prefix = format!("{}.{}", self.pieces_of_all_writes(), random_id());
        let first = self.pieces.put(&prefix, value).await.map_err(unavailable)?;
        Ok(InPieces { prefix, bytes: value.len() as u64, first })
    }

    /// Removes pieces that no key names any more. Whoever wrote pieces before this write did rests on an earlier
    /// revision of the key, and will be refused; pieces of later writes stay.
    async fn clean_up(&self, before: Option<InPieces>, now: Option<InPieces>) {
        let removed = match (before, now) {
            (_, Some(now)) => {
                self.pieces
                    .bucket()
                    .purge(&format!("{}.>", self.pieces_of_all_writes()), Some(now.first))
                    .await
            }
            (Some(before), None) => self.pieces.bucket().purge(&format!("{}.>", before.prefix), None).await,
            (None, None) => Ok(()),
        };
        if let Err(error) = removed {
            // They take room, and no more: the next large write removes them.
            tracing::debug!(grain = %self.grain, %error, "old pieces of a state are still there");
        }
    }

    async fn stored(&self) -> Result<Stored, StateError> {
        let key = self.key();
        let Some(found) = self.bucket.last(&key).await.map_err(unavailable)? else {
            return Ok(Stored { revision: 0, head: self.empty(), inline: vec![] });
        };
        let malformed = |why: &dyn std::fmt::Display| unavailable(self.bucket.malformed(&key, why));
        let end = found.body.iter().position(|byte| *byte == b'\n');
        let Some((line, inline)) = end.and_then(|end| found.body.split_at_checked(end)) else {
            return Err(malformed(&"it has no line"));
        };
        let head = serde_json::from_slice(line).map_err(|err| malformed(&err))?;
        let inline = inline.get(1..).unwrap_or_default().to_vec();
        Ok(Stored { revision: found.sequence, head, inline })
    }

    async fn publish(&self, head: &Head, inline: &[u8], expected: u64) -> Result<Published, StateError> {
        let key = self.key();
        // JSON in one line: line ends within texts are escaped.
        let mut body =
            serde_json::to_vec(head).map_err(|err| unavailable(self.bucket.malformed(&key, &err)))?;
        body.push(b'\n');
        body.extend_from_slice(inline);
        self.bucket.publish(&key, body, expected).await.map_err(unavailable)
    }

    fn empty(&self) -> Head {
        Head { grain: self.grain.to_string(), name: self.name.clone(), ..Head::default() }
    }

    /// Grain keys and names may hold any character, of which few may stand in a subject.
    fn key(&self) -> String {
        let (grain_type, key) = (self.grain.grain_type().as_str(), self.grain.key());
        // Lengths first, so that no two states read the same.
        let text = format!("{} {} {grain_type}{key}{}", grain_type.len(), key.len(), self.name);
        Digest::of(text.as_bytes()).to_string()
    }

    fn pieces_of_all_writes(&self) -> String {
        format!("state.{}", self.key())
    }

    fn changed_too_often(&self) -> StateError {
        let why = format!("the state of {} changed {ATTEMPTS_MAX} times meanwhile", self.grain);
        unavailable(self.bucket.link().unavailable(&why))
    }
}

pub(super) fn unavailable(err: StoreError) -> StateError {
    match err {
        StoreError::Unavailable(why) | StoreError::Unusable(why) => StateError::Unavailable(why),
    }
}
