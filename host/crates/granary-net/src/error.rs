//! Why a request to another silo gave no response.

use crate::frame::FRAME_BYTES_MAX;

/// Why a request gave no response. The variants tell whether it may be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// No byte of the request was handed to a socket: the queue was full, the connect failed or was refused, or
    /// the peer is known to be dead. Safe to repeat, here or elsewhere.
    #[error("not delivered: {0}")]
    NotDelivered(String),
    /// The connection ended after the request may have been written, or the answer was lost. The peer may or may
    /// not have acted.
    #[error("unknown outcome: {0}")]
    UnknownOutcome(String),
    /// The time ran out after the request may have been written. The peer may or may not have acted, and may
    /// still be at it.
    #[error("timed out, the outcome is unknown")]
    TimedOut,
    /// The request does not fit in a frame; nothing was sent. Repeating does not help.
    #[error("the message has {bytes} bytes, at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
}

impl NetError {
    pub(crate) fn too_large(bytes: usize) -> Self {
        Self::TooLarge { bytes, max: FRAME_BYTES_MAX }
    }
}
