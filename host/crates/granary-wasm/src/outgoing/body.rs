//! The body of one outgoing request: what the grain wrote and the connection has not taken yet.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::{Quota, REQUEST_BODY_BYTES_MAX};

/// The body. What it holds counts against the activation's quota.
#[derive(Debug)]
pub(crate) struct BodyBuffer {
    state: Mutex<State>,
    quota: Quota,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Bytes>,
    held: usize,
    written: u64,
    end: End,
    waker: Option<Waker>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Finished,
    /// The grain gave it up: what was sent must not be taken for the whole.
    Broken,
}

impl BodyBuffer {
    pub(super) fn new(quota: Quota) -> Self {
        Self { state: Mutex::default(), quota }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much may be written now; nothing once a bound is reached.
    pub(crate) fn room(&self) -> u64 {
        let left = REQUEST_BODY_BYTES_MAX.saturating_sub(self.lock().written);
        left.min(u64::try_from(self.quota.left()).unwrap_or(u64::MAX))
    }

    /// Appends; `false` beyond the bounds, or after the end.
    pub(crate) fn write(&self, bytes: &[u8]) -> bool {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut state = self.lock();
        let written = state.written.saturating_add(length);
        if state.end != End::Open || written > REQUEST_BODY_BYTES_MAX || !self.quota.take(bytes.len()) {
            return false;
        }
        state.written = written;
        state.held += bytes.len();
        if !bytes.is_empty() {
            state.chunks.push_back(Bytes::copy_from_slice(bytes));
        }
        wake(state);
        true
    }

    /// The body is whole.
    pub(crate) fn finish(&self) {
        self.close(End::Finished);
    }

    /// The body will not become whole.
    pub(crate) fn give_up(&self) {
        self.close(End::Broken);
    }

    fn close(&self, end: End) {
        let mut state = self.lock();
        if state.end == End::Open {
            state.end = end;
        }
        wake(state);
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Drop for BodyBuffer {
    fn drop(&mut self) {
        let held = self.lock().held;
        self.quota.give_back(held);
    }
}

/// The end of the buffer that the connection has.
#[derive(Debug)]
pub(super) struct BodyReader(pub(super) Arc<BodyBuffer>);

/// The grain dropped a body that it had not finished.
#[derive(Debug, thiserror::Error)]
#[error("the grain dropped the body before it was finished")]
pub(super) struct GivenUp;

impl Body for BodyReader {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        let mut state = self.0.lock();
        if state.end == End::Broken {
            return Poll::Ready(Some(Err(GivenUp)));
        }
        if let Some(chunk) = state.chunks.pop_front() {
            state.held = state.held.saturating_sub(chunk.len());
            self.0.quota.give_back(chunk.len());
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        if state.end == End::Finished {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let state = self.0.lock();
        state.end == End::Finished && state.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.0.lock();
        match state.end {
            End::Finished => SizeHint::with_exact(u64::try_from(state.held).unwrap_or(u64::MAX)),
            End::Open | End::Broken => SizeHint::default(),
        }
    }
}
