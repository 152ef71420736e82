//! The frame: what stands between two messages on a connection.
//!
//! ```text
//! u32 LE   length of what follows, 1 to FRAME_BYTES_MAX
//! u8       frame version (high four bits) and kind (low four bits)
//! …        body:
//!   Hello, HelloAck, OneWay, Goodbye   postcard
//!   Request    u64 LE id, u32 LE remaining milliseconds, postcard
//!   Response   u64 LE id, postcard
//!   Lost       u64 LE id, postcard text
//!   Cancel     u64 LE id
//!   Ping, Pong nothing
//! ```
//!
//! The format is frozen by hex snapshots in the tests. A change needs a new frame version or protocol number.

use bytes::{Buf, Bytes, BytesMut};
use granary_core::wire::{OneWay, Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::codec::Decoder;

use crate::handshake::{Hello, HelloAck};

/// The longest frame in bytes, without its length field.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The longest frame before the handshake is done. The largest true hello has about 600 bytes.
pub const HANDSHAKE_BYTES_MAX: usize = 4096;

/// The version of the frame format, in the high bits of the kind byte.
const FRAME_VERSION: u8 = 1;

const LENGTH_BYTES: usize = 4;
const ID_BYTES: usize = 8;
/// Where a request's remaining time stands, counted from the start of the length field.
const REMAINING_AT: usize = LENGTH_BYTES + 1 + ID_BYTES;

/// A frame longer than this gets its buffer released after decoding, so that one large message does not pin its
/// memory to an idle connection.
const BUFFER_KEPT_BYTES: usize = 64 * 1024;

/// How far the buffer grows ahead of the bytes that have arrived.
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    Hello = 1,
    HelloAck = 2,
    OneWay = 3,
    Request = 4,
    Response = 5,
    Cancel = 6,
    Ping = 7,
    Pong = 8,
    Goodbye = 9,
    /// The request ran, but its answer cannot be sent.
    Lost = 10,
}

impl FrameKind {
    fn byte(self) -> u8 {
        (FRAME_VERSION << 4) | self as u8
    }

    fn from_byte(byte: u8) -> Result<Self, FrameError> {
        if byte >> 4 != FRAME_VERSION {
            return Err(FrameError::UnknownKind(byte));
        }
        Ok(match byte & 0x0f {
            1 => Self::Hello,
            2 => Self::HelloAck,
            3 => Self::OneWay,
            4 => Self::Request,
            5 => Self::Response,
            6 => Self::Cancel,
            7 => Self::Ping,
            8 => Self::Pong,
            9 => Self::Goodbye,
            10 => Self::Lost,
            _ => return Err(FrameError::UnknownKind(byte)),
        })
    }
}

/// A frame that arrived, its body not yet decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub body: Bytes,
}

/// Bytes that are no frame. The connection is closed: there is no way to find the next frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("a frame claims {bytes} bytes, 1 to {max} are allowed here")]
    Length { bytes: u64, max: usize },
    #[error("0x{0:02x} is no frame kind of version {FRAME_VERSION}")]
    UnknownKind(u8),
    #[error("the body of a {kind:?} frame of {bytes} bytes is malformed: {why}")]
    Body { kind: FrameKind, bytes: usize, why: String },
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Frame {
    /// The whole body as a `T`; bytes left over are an error.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        let (value, rest) = postcard::take_from_bytes(&self.body).map_err(|err| self.malformed(err))?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(self.malformed(format!("{} bytes too many", rest.len())))
        }
    }

    /// The start of the body as a `T`; what a newer sender added after it is ignored.
    pub(crate) fn decode_start<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        postcard::from_bytes(&self.body).map_err(|err| self.malformed(err))
    }

    /// Takes the id off the front of the body.
    pub(crate) fn take_id(&mut self) -> Result<u64, FrameError> {
        self.body.try_get_u64_le().map_err(|err| self.malformed(err))
    }

    /// Takes a request's remaining milliseconds off the front of the body, after the id.
    pub(crate) fn take_remaining_ms(&mut self) -> Result<u32, FrameError> {
        self.body.try_get_u32_le().map_err(|err| self.malformed(err))
    }

    /// Decodes the body as its kind says, as a connection does, and forgets it: for tests of the decoders.
    ///
    /// # Errors
    /// [`FrameError::Body`] when the body is malformed.
    #[doc(hidden)]
    pub fn probe(mut self) -> Result<(), FrameError> {
        match self.kind {
            FrameKind::Hello => self.decode_start::<Hello>().map(drop),
            FrameKind::HelloAck => self.decode_start::<HelloAck>().map(drop),
            FrameKind::OneWay => self.decode::<OneWay>().map(drop),
            FrameKind::Request => {
                self.take_id()?;
                self.take_remaining_ms()?;
                self.decode::<Request>().map(drop)
            }
            FrameKind::Response => {
                self.take_id()?;
                self.decode::<Response>().map(drop)
            }
            FrameKind::Cancel => self.take_id().map(drop),
            FrameKind::Ping | FrameKind::Pong => Ok(()),
            FrameKind::Goodbye => self.decode::<String>().map(drop),
            FrameKind::Lost => {
                self.take_id()?;
                self.decode::<String>().map(drop)
            }
        }
    }

    fn malformed(&self, why: impl ToString) -> FrameError {
        FrameError::Body { kind: self.kind, bytes: self.body.len(), why: why.to_string() }
    }
}

/// Cuts a byte stream into frames.
#[derive(Debug, Clone)]
pub struct FrameDecoder {
    bytes_max: usize,
}

impl FrameDecoder {
    /// A decoder that refuses frames longer than `bytes_max` (at most [`FRAME_BYTES_MAX`]).
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max: bytes_max.min(FRAME_BYTES_MAX) }
    }
}

impl Decoder for FrameDecoder {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let mut header: &[u8] = source;
        let Ok(claimed) = header.try_get_u32_le() else {
            source.reserve(LENGTH_BYTES);
            return Ok(None);
        };
        let length = usize::try_from(claimed).unwrap_or(usize::MAX);
        if length == 0 || length > self.bytes_max {
            return Err(FrameError::Length { bytes: claimed.into(), max: self.bytes_max });
        }
        // The kind is judged before the body arrives, so that garbage is not waited for.
        let kind = match header.try_get_u8() {
            Ok(byte) => FrameKind::from_byte(byte)?,
            Err(_) => {
                source.reserve(1);
                return Ok(None);
            }
        };
        let missing = (LENGTH_BYTES + length).saturating_sub(source.len());
        if missing > 0 {
            // Doubles with what has arrived, whatever length is claimed.
            source.reserve(missing.min(source.len().max(READ_AHEAD_BYTES)));
            return Ok(None);
        }
        source.advance(LENGTH_BYTES + 1);
        let body = source.split_to(length - 1).freeze();
        if length > BUFFER_KEPT_BYTES {
            *source = BytesMut::from(&**source);
        }
        Ok(Some(Frame { kind, body }))
    }
}

/// A frame ready to be written.
pub(crate) type Encoded = Vec<u8>;

/// How many bytes a frame has that was too long to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong(pub(crate) usize);

/// Encodes a frame whose body is `value`.
pub(crate) fn encode<T: Serialize>(kind: FrameKind, value: &T) -> Result<Encoded, TooLong> {
    finish(kind, &[], Some(value))
}

/// Encodes a frame whose body is an id and `value`.
pub(crate) fn encode_with_id<T: Serialize>(kind: FrameKind, id: u64, value: &T) -> Result<Encoded, TooLong> {
    finish(kind, &id.to_le_bytes(), Some(value))
}

/// Encodes a request; [`set_remaining`] fills in the time when it is written.
pub(crate) fn encode_request<T: Serialize>(id: u64, value: &T) -> Result<Encoded, TooLong> {
    let mut prefix = [0; ID_BYTES + 4];
    for (to, from) in prefix.iter_mut().zip(id.to_le_bytes()) {
        *to = from;
    }
    finish(FrameKind::Request, &prefix, Some(value))
}

/// Sets the remaining time of an encoded request.
pub(crate) fn set_remaining(frame: &mut Encoded, remaining: std::time::Duration) {
    let ms = u32::try_from(remaining.as_millis()).unwrap_or(u32::MAX);
    if let Some(place) = frame.get_mut(REMAINING_AT..REMAINING_AT + 4) {
        place.copy_from_slice(&ms.to_le_bytes());
    }
}

/// Encodes a frame that is only an id.
pub(crate) fn encode_id(kind: FrameKind, id: u64) -> Encoded {
    finish::<()>(kind, &id.to_le_bytes(), None).unwrap_or_default()
}

/// Encodes a frame without a body.
pub(crate) fn encode_empty(kind: FrameKind) -> Encoded {
    finish::<()>(kind, &[], None).unwrap_or_default()
}

fn finish<T: Serialize>(kind: FrameKind, prefix: &[u8], value: Option<&T>) -> Result<Encoded, TooLong> {
    let mut frame = Vec::with_capacity(128);
    frame.extend_from_slice(&[0; LENGTH_BYTES]);
    frame.push(kind.byte());
    frame.extend_from_slice(prefix);
    if let Some(value) = value {
        // Fails only for types that postcard cannot encode (sequences of unknown length); ours are none.
        frame = postcard::to_extend(value, frame).map_err(|_| TooLong(usize::MAX))?;
    }
    let length = frame.len() - LENGTH_BYTES;
    match u32::try_from(length) {
        Ok(claimed) if length <= FRAME_BYTES_MAX => {
            if let Some(place) = frame.get_mut(..LENGTH_BYTES) {
                place.copy_from_slice(&claimed.to_le_bytes());
            }
            Ok(frame)
        }
        _ => Err(TooLong(length)),
    }
}
