//! Reads and writes frames on one socket, with deadlines and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::time::timeout;
use tokio_util::codec::Decoder;

use crate::frame::{
    FRAME_BYTES_MAX, Frame, FrameDecoder, FrameError, FrameKind, HANDSHAKE_BYTES_MAX, encode,
};
use crate::secure::{ReadHalf, WriteHalf, is_tls_record};
use crate::stats::NetStats;

/// Small frames are gathered into writes of this size.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// A write of at most this much must make it into the socket within the silence limit.
const WRITE_CHUNK_BYTES: usize = 256 * 1024;

/// A write waits for the tasks that are ready when at least so many requests were under way at once since the write
/// before: their frames then share it. With fewer there is little to share, and the wait itself would cost more.
const GATHER_REQUESTS_MIN: usize = 12;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the peer closed the connection")]
    Closed,
    #[error("the peer said goodbye: {0}")]
    Goodbye(String),
    #[error("nothing came from the peer for {0:?}")]
    Silent(Duration),
    #[error("the peer took nothing for {0:?}")]
    Stalled(Duration),
    #[error("this silo closes the connection")]
    ClosedHere,
    #[error("it speaks TLS, and this silo has none: start both with --tls-cert, --tls-key and --tls-ca")]
    SpeaksTls,
    #[error("a {0} is not expected here")]
    Unexpected(String),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl Ended {
    /// Whether the other side broke the protocol, as opposed to going away.
    pub(crate) fn is_violation(&self) -> bool {
        matches!(self, Self::Unexpected(_))
            || matches!(self, Self::Frame(err) if !matches!(err, FrameError::Io(_)))
    }
}

impl From<std::io::Error> for Ended {
    fn from(err: std::io::Error) -> Self {
        Self::Frame(FrameError::Io(err))
    }
}

/// The reading half: frames, until an error or the end.
pub(crate) struct FrameReader {
    socket: ReadHalf,
    buffer: BytesMut,
    decoder: FrameDecoder,
    /// The handshake is not done.
    greeting: bool,
    stats: Arc<NetStats>,
}

impl FrameReader {
    /// Starts with the small limit of the handshake.
    pub(crate) fn new(socket: ReadHalf, stats: Arc<NetStats>) -> Self {
        let decoder = FrameDecoder::new(HANDSHAKE_BYTES_MAX);
        Self { socket, buffer: BytesMut::with_capacity(1024), decoder, greeting: true, stats }
    }

    /// Lifts the limit once the handshake is done.
    pub(crate) fn handshake_done(&mut self) {
        self.decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        self.greeting = false;
    }

    /// The next frame. Each wait for bytes lasts at most `silence_max`; `active` is set with each byte. Not safe
    /// to cancel and resume only in that a timeout starts anew; no bytes are lost.
    pub(crate) async fn next(&mut self, silence_max: Duration, active: &AtomicBool) -> Result<Frame, Ended> {
        loop {
            match self.decoder.decode(&mut self.buffer) {
                Ok(Some(frame)) => {
                    self.stats.frames_in.add(1);
                    return Ok(frame);
                }
                Ok(None) => {}
                // Read as a length, a TLS record's head is far beyond the limit of the handshake.
                Err(FrameError::Length { .. }) if self.greeting && is_tls_record(&self.buffer) => {
                    return Err(Ended::SpeaksTls);
                }
                Err(error) => return Err(error.into()),
            }
            let read = timeout(silence_max, self.socket.read_buf(&mut self.buffer));
            let count = read.await.map_err(|_| Ended::Silent(silence_max))??;
            if count == 0 {
                return Err(Ended::Closed);
            }
            self.stats.bytes_in.add(count as u64);
            active.store(true, Ordering::Relaxed);
        }
    }
}

/// The most of something that was there at once since somebody asked.
#[derive(Debug, Default)]
pub(crate) struct Peak(usize);

impl Peak {
    /// There are so many now.
    pub(crate) fn note(&mut self, now: usize) {
        self.0 = self.0.max(now);
    }

    /// The peak; the next one begins with what is there now.
    pub(crate) fn take(&mut self, now: usize) -> usize {
        std::mem::replace(&mut self.0, now)
    }
}

/// The writing half. Nothing is sure to leave before [`FrameWriter::flush`].
pub(crate) struct FrameWriter<W: AsyncWrite + Unpin = WriteHalf> {
    socket: BufWriter<W>,
    stalled_max: Duration,
    /// How many bytes were buffered when the writer last let other tasks run.
    gathered_bytes: usize,
    /// The most requests that were under way at once since the last write.
    requests_peak: usize,
    stats: Arc<NetStats>,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(crate) fn new(socket: W, stalled_max: Duration, stats: Arc<NetStats>) -> Self {
        let socket = BufWriter::with_capacity(WRITE_BUFFER_BYTES, socket);
        Self { socket, stalled_max, gathered_bytes: 0, requests_peak: 0, stats }
    }

    pub(crate) async fn write(&mut self, frame: &[u8]) -> Result<(), Ended> {
        for chunk in frame.chunks(WRITE_CHUNK_BYTES) {
            let written = timeout(self.stalled_max, self.socket.write_all(chunk));
            written.await.map_err(|_| Ended::Stalled(self.stalled_max))??;
        }
        self.stats.frames_out.add(1);
        self.stats.bytes_out.add(frame.len() as u64);
        Ok(())
    }

    /// Tells the peer that this side ends the connection; always [`Ended::ClosedHere`] or the failure.
    pub(crate) async fn say_goodbye(&mut self, why: &str) -> Ended {
        let goodbye = encode(FrameKind::Goodbye, &why).unwrap_or_default();
        let said = async {
            self.write(&goodbye).await?;
            self.flush().await
        };
        said.await.err().unwrap_or(Ended::ClosedHere)
    }

    /// Lets the tasks run that are ready, if there are so many requests that their frames are worth waiting for;
    /// `requests` is the most that were under way since the last question. False when the buffered bytes are to be
    /// flushed now.
    pub(crate) async fn gather(&mut self, requests: usize) -> bool {
        self.requests_peak = self.requests_peak.max(requests);
        let buffered = self.socket.buffer().len();
        let more = buffered != self.gathered_bytes && self.requests_peak >= GATHER_REQUESTS_MIN;
        if more {
            self.gathered_bytes = buffered;
            tokio::task::yield_now().await;
        } else {
            (self.gathered_bytes, self.requests_peak) = (0, 0);
        }
        more
    }

    pub(crate) async fn flush(&mut self) -> Result<(), Ended> {
        let flushed = timeout(self.stalled_max, self.socket.flush());
        Ok(flushed.await.map_err(|_| Ended::Stalled(self.stalled_max))??)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn writer() -> FrameWriter<tokio::io::Sink> {
        FrameWriter::new(tokio::io::sink(), Duration::from_secs(20), Arc::default())
    }

    #[tokio::test]
    async fn many_requests_let_ready_tasks_run_once_before_a_write() {
        let (mut writer, ran) = (writer(), Arc::new(AtomicUsize::new(0)));
        writer.write(b"frame").await.unwrap();
        let counted = Arc::clone(&ran);
        tokio::spawn(async move { counted.fetch_add(1, Ordering::Relaxed) });
        assert!(writer.gather(GATHER_REQUESTS_MIN).await);
        assert_eq!(ran.load(Ordering::Relaxed), 1, "the task that was ready ran meanwhile");
        assert!(!writer.gather(0).await, "no frame came, so the write goes out");
        assert!(!writer.gather(0).await, "the peak was of the write before");
    }

    #[tokio::test]
    async fn frames_that_come_meanwhile_are_followed_by_another_look() {
        let mut writer = writer();
        writer.write(b"frame").await.unwrap();
        assert!(writer.gather(GATHER_REQUESTS_MIN).await);
        writer.write(b"frame").await.unwrap();
        assert!(writer.gather(0).await, "the peak counts until the write");
        assert!(!writer.gather(0).await);
    }

    #[tokio::test]
    async fn few_requests_or_nothing_to_write_are_not_waited_for() {
        let mut writer = writer();
        assert!(!writer.gather(usize::MAX).await);
        writer.write(b"frame").await.unwrap();
        assert!(!writer.gather(GATHER_REQUESTS_MIN - 1).await);
    }
}
