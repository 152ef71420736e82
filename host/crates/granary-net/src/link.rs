//! One outgoing link: the queue to a peer on one lane, and the requests that wait for their answers.
//!
//! A request is *waiting* until the dialer takes its frame from the queue, and *written* from then on, before the
//! first byte goes to the socket. That flag, kept under one lock, is what makes
//! [`NetError::NotDelivered`] a proof: a request that fails while waiting is removed, and the dialer skips it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use granary_core::id::SiloAddress;
use granary_core::wire::Response;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::NetError;
use crate::frame::Encoded;
use crate::handshake::Lane;
use crate::transport::Peak;

/// What a waiting caller gets.
pub(crate) type Reply = Result<Response, NetError>;

/// A frame on its way to the dialer.
#[derive(Debug)]
pub(crate) enum Outgoing {
    OneWay(Encoded),
    Request { id: u64, frame: Encoded, deadline: Instant },
    Cancel(u64),
}

impl Outgoing {
    /// How much the item counts in the queue.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::OneWay(frame) | Self::Request { frame, .. } => frame.len(),
            Self::Cancel(_) => 16,
        }
    }
}

/// The outgoing link to one incarnation of a silo on one lane.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: SiloAddress,
    pub(crate) lane: Lane,
    /// Cancelled when the peer is dead or the network ends.
    pub(crate) closed: CancellationToken,
    queue: mpsc::Sender<Outgoing>,
    queued_bytes: AtomicUsize,
    queue_bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: HashMap<u64, Waiting>,
    /// The most entries of `calls` since somebody asked.
    calls_peak: Peak,
    /// Sends fail at once until then, for that reason.
    down: Option<(Instant, String)>,
    /// The link is over, for that reason.
    over: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Reply>,
    written: bool,
}

/// How far a request had got when it was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUp {
    Waiting,
    Written,
    /// It has its reply already.
    Answered,
}

impl Link {
    /// A link and the queue's other end for its dialer.
    pub(crate) fn new(
        peer: SiloAddress,
        lane: Lane,
        closed: CancellationToken,
        queue_frames_max: usize,
        queue_bytes_max: usize,
    ) -> (Self, mpsc::Receiver<Outgoing>) {
        let (queue, receiver) = mpsc::channel(queue_frames_max.max(1));
        let (queued_bytes, state) = (AtomicUsize::new(0), Mutex::default());
        (Self { peer, lane, closed, queue, queued_bytes, queue_bytes_max, state }, receiver)
    }

    /// Puts a one-way message into the queue.
    pub(crate) fn send(&self, frame: Encoded) -> Result<(), String> {
        self.check(&self.state())?;
        self.push(Outgoing::OneWay(frame))
    }

    /// Puts a request into the queue; its reply comes on the receiver.
    pub(crate) fn request(
        &self,
        id: u64,
        frame: Encoded,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Reply>, String> {
        let (reply, receiver) = oneshot::channel();
        // Under one lock with `fail_all`, so that no request slips in behind it and waits for ever.
        let mut state = self.state();
        self.check(&state)?;
        self.push(Outgoing::Request { id, frame, deadline })?;
        state.calls.insert(id, Waiting { reply, written: false });
        let waiting = state.calls.len();
        state.calls_peak.note(waiting);
        Ok(receiver)
    }

    /// The caller no longer waits. A request that is still in the queue will not be written.
    pub(crate) fn give_up(&self, id: u64) -> GivenUp {
        let removed = self.state().calls.remove(&id);
        match removed {
            None => GivenUp::Answered,
            Some(Waiting { written: false, .. }) => GivenUp::Waiting,
            Some(Waiting { written: true, .. }) => {
                // Only saves the peer the answer: a full queue may drop it.
                let _ = self.push(Outgoing::Cancel(id));
                GivenUp::Written
            }
        }
    }

    /// The dialer took an item from the queue.
    pub(crate) fn taken(&self, item: &Outgoing) {
        self.queued_bytes.fetch_sub(item.bytes(), Ordering::AcqRel);
    }

    /// Marks a request as written; `false` when nobody waits for it any more, and it must not be written.
    pub(crate) fn mark_written(&self, id: u64) -> bool {
        match self.state().calls.get_mut(&id) {
            Some(waiting) => {
                waiting.written = true;
                true
            }
            None => false,
        }
    }

    /// The most requests that waited for their answers at once since this was last asked.
    pub(crate) fn take_requests_peak(&self) -> usize {
        let mut state = self.state();
        let now = state.calls.len();
        state.calls_peak.take(now)
    }

    /// Hands a reply to its caller, if there is one.
    pub(crate) fn reply(&self, id: u64, reply: Reply) {
        let waiting = self.state().calls.remove(&id);
        if let Some(waiting) = waiting {
            let _ = waiting.reply.send(reply);
        }
    }

    /// The connection was lost: what was written has an unknown outcome, what waits in the queue stays there.
    pub(crate) fn fail_written(&self, reason: &str) {
        let mut state = self.state();
        for (_, waiting) in state.calls.extract_if(|_, waiting| waiting.written) {
            let _ = waiting.reply.send(Err(NetError::UnknownOutcome(reason.to_owned())));
        }
    }

    /// Ends the link: every caller gets its error, and later sends are refused.
    pub(crate) fn fail_all(&self, reason: &str) {
        self.closed.cancel();
        let mut state = self.state();
        state.over.get_or_insert_with(|| reason.to_owned());
        for (_, Waiting { reply, written }) in state.calls.drain() {
            let reason = reason.to_owned();
            let err = if written { NetError::UnknownOutcome(reason) } else { NetError::NotDelivered(reason) };
            let _ = reply.send(Err(err));
        }
    }

    /// Sends fail at once until `until`. Returns whether the reason is a new one, worth a log line.
    pub(crate) fn mark_down(&self, until: Instant, reason: &str) -> bool {
        let previous = self.state().down.replace((until, reason.to_owned()));
        previous.is_none_or(|(_, before)| before != reason)
    }

    /// The peer answers again.
    pub(crate) fn mark_up(&self) {
        self.state().down = None;
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if let Some(reason) = &state.over {
            return Err(reason.clone());
        }
        match &state.down {
            Some((until, reason)) if Instant::now() < *until => Err(reason.clone()),
            _ => Ok(()),
        }
    }

    fn push(&self, item: Outgoing) -> Result<(), String> {
        let bytes = item.bytes();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        let refused = if before > 0 && before.saturating_add(bytes) > self.queue_bytes_max {
            Some(format!("the queue to {} is full: {before} bytes wait", self.peer))
        } else {
            match self.queue.try_send(item) {
                Ok(()) => None,
                Err(mpsc::error::TrySendError::Full(_)) => Some(format!(
                    "the queue to {} is full: {} frames wait",
                    self.peer,
                    self.queue.max_capacity()
                )),
                Err(mpsc::error::TrySendError::Closed(_)) => Some(format!("the link to {} ends", self.peer)),
            }
        };
        match refused {
            None => Ok(()),
            Some(reason) => {
                self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
                Err(reason)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn link(frames: usize, bytes: usize) -> (Link, mpsc::Receiver<Outgoing>) {
        let peer = SiloAddress { ip: [127, 0, 0, 1].into(), port: 7000, generation: 1 };
        Link::new(peer, Lane::Application, CancellationToken::new(), frames, bytes)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn the_queue_is_bounded_by_frames_and_by_bytes() {
        let (few, _queue) = link(2, 1000);
        assert_eq!(few.send(vec![0; 10]), Ok(()));
        assert_eq!(few.send(vec![0; 10]), Ok(()));
        assert!(few.send(vec![0; 10]).unwrap_err().contains("2 frames wait"));
        let (small, mut queue) = link(100, 1000);
        assert_eq!(small.send(vec![0; 5000]), Ok(()), "one large frame is taken by an empty queue");
        assert!(small.send(vec![0; 10]).unwrap_err().contains("5000 bytes wait"));
        small.taken(&queue.try_recv().unwrap());
        assert_eq!(small.send(vec![0; 10]), Ok(()));
    }

    #[test]
    fn a_request_given_up_in_the_queue_is_never_written() {
        let (link, _queue) = link(10, 1000);
        let _reply = link.request(1, vec![0; 10], soon()).unwrap();
        assert_eq!(link.give_up(1), GivenUp::Waiting);
        assert!(!link.mark_written(1));
    }

    #[test]
    fn a_lost_connection_fails_what_was_written_and_keeps_what_waits() {
        let (link, _queue) = link(10, 1000);
        let mut written = link.request(1, vec![0; 10], soon()).unwrap();
        let mut waiting = link.request(2, vec![0; 10], soon()).unwrap();
        assert!(link.mark_written(1));
        link.fail_written("cut");
        assert_eq!(written.try_recv().unwrap(), Err(NetError::UnknownOutcome("cut".into())));
        assert!(waiting.try_recv().is_err());
        link.fail_all("dead");
        assert_eq!(waiting.try_recv().unwrap(), Err(NetError::NotDelivered("dead".into())));
        assert_eq!(link.request(3, vec![], soon()).unwrap_err(), "dead");
    }

    #[test]
    fn a_link_that_is_down_fails_at_once_and_names_a_reason_once() {
        let (link, _queue) = link(10, 1000);
        assert!(link.mark_down(soon(), "refused"));
        assert!(!link.mark_down(soon(), "refused"));
        assert_eq!(link.send(vec![0; 10]).unwrap_err(), "refused");
        link.mark_up();
        assert_eq!(link.send(vec![0; 10]), Ok(()));
    }
}
