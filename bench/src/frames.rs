//! Frames with a length in front and a number inside, read and written in batches: what a fast protocol between two
//! processes costs when nothing is behind it.

use std::future::Future;

use anyhow::{Result, ensure};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// Frames that wait for a writer.
pub(crate) const FRAMES_QUEUED_MAX: usize = 1_024;

/// Bytes that one write takes at most, as for links between silos.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// The longest frame.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Writes frames until the queue is closed; those that wait together go in one write.
pub(crate) async fn write(mut stream: OwnedWriteHalf, mut queued: mpsc::Receiver<Bytes>) -> Result<()> {
    let mut batch = BytesMut::new();
    while let Some(first) = queued.recv().await {
        put(&mut batch, &first);
        while batch.len() < BATCH_BYTES_MAX
            && let Ok(next) = queued.try_recv()
        {
            put(&mut batch, &next);
        }
        stream.write_all(&batch).await?;
        batch.clear();
    }
    Ok(())
}

fn put(batch: &mut BytesMut, frame: &Bytes) {
    batch.put_u32_le(u32::try_from(frame.len()).unwrap_or(u32::MAX));
    batch.extend_from_slice(frame);
}

/// Reads frames until the other side closes.
pub(crate) async fn read<F: Future<Output = Result<()>>>(
    mut stream: OwnedReadHalf,
    mut each: impl FnMut(Bytes) -> F,
) -> Result<()> {
    let mut buffer = BytesMut::with_capacity(BATCH_BYTES_MAX);
    while stream.read_buf(&mut buffer).await? > 0 {
        while let Some(length) = buffer.first_chunk::<4>() {
            let length = usize::try_from(u32::from_le_bytes(*length))?;
            ensure!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
            if buffer.len() < 4 + length {
                break;
            }
            buffer.advance(4);
            each(buffer.split_to(length).freeze()).await?;
        }
        buffer.reserve(BATCH_BYTES_MAX);
    }
    Ok(())
}
