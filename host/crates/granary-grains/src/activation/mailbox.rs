//! The calls that wait for one activation: first in, first out, bounded.

use std::collections::VecDeque;

use granary_core::hosting::CallError;
use granary_core::id::SiloAddress;
use granary_core::wire::{CallReply, CallRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::options::MAILBOX_BYTES_MAX;

/// How a call came to this silo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A grain, the gateway or the command line of this silo made it; this silo repeats it when not delivered.
    Origin,
    /// Another silo sent it, and repeats it when not delivered.
    Inbound(SiloAddress),
}

/// A call that waits for its turn.
#[derive(Debug)]
pub(crate) struct QueuedCall {
    pub(crate) request: CallRequest,
    pub(crate) arrival: Arrival,
    pub(crate) deadline: Instant,
    /// Whoever waits; nobody does for one-way calls, or when the caller went away.
    pub(crate) reply: oneshot::Sender<CallReply>,
}

impl QueuedCall {
    /// What the call holds in memory while it waits: its arguments and its request context.
    fn bytes(&self) -> usize {
        let context = &self.request.context.request_context;
        let context: usize = context.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.request.args.len() + context
    }

    /// Answers the caller, if it still waits.
    pub(crate) fn answer(self, outcome: Result<Vec<u8>, CallError>) {
        let _ = self.reply.send(CallReply { outcome, location: None });
    }
}

/// Why a call was not queued.
#[derive(Debug)]
pub(crate) enum PushError {
    /// The activation ended; look for the grain again, with this call.
    Ended(Box<QueuedCall>),
    /// The bound was hit.
    Full,
    /// The activation failed to start, with this text.
    Failed(String),
}

#[derive(Debug)]
pub(crate) struct Mailbox {
    calls: VecDeque<QueuedCall>,
    calls_max: usize,
    /// Of the arguments and contexts of all calls.
    bytes: usize,
    closed: bool,
}

impl Mailbox {
    pub(crate) fn new(calls_max: u32) -> Self {
        Self {
            calls: VecDeque::new(),
            bytes: 0,
            calls_max: usize::try_from(calls_max).unwrap_or(usize::MAX),
            closed: false,
        }
    }

    pub(crate) fn push(&mut self, call: QueuedCall) -> Result<(), PushError> {
        if self.closed {
            return Err(PushError::Ended(Box::new(call)));
        }
        let bytes = self.bytes.saturating_add(call.bytes());
        if self.calls.len() >= self.calls_max || bytes > MAILBOX_BYTES_MAX && !self.calls.is_empty() {
            return Err(PushError::Full);
        }
        self.bytes = bytes;
        self.calls.push_back(call);
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedCall> {
        let call = self.calls.pop_front();
        self.bytes = self.bytes.saturating_sub(call.as_ref().map_or(0, QueuedCall::bytes));
        if self.calls.is_empty() && self.calls.capacity() > 64 {
            // A burst must not leave its memory behind with each of many idle activations.
            self.calls = VecDeque::new();
        }
        call
    }

    /// Takes one call out of its turn.
    pub(crate) fn remove(&mut self, call_id: u128) -> Option<QueuedCall> {
        let index = self.calls.iter().position(|call| call.request.call_id == call_id)?;
        let call = self.calls.remove(index)?;
        self.bytes = self.bytes.saturating_sub(call.bytes());
        Some(call)
    }

    /// True when the call waits, and its caller still does.
    pub(crate) fn holds(&self, call_id: u128, now: Instant) -> bool {
        self.calls.iter().any(|call| call.request.call_id == call_id && call.deadline > now)
    }

    pub(crate) fn front(&self) -> Option<&QueuedCall> {
        self.calls.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Takes all calls.
    pub(crate) fn take(&mut self) -> Vec<QueuedCall> {
        self.bytes = 0;
        std::mem::take(&mut self.calls).into()
    }

    /// Takes all calls, and no more.
    pub(crate) fn close(&mut self) -> Vec<QueuedCall> {
        self.closed = true;
        self.take()
    }
}
