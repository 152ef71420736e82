//! The network of one silo: its listener and its links to others.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use granary_core::hosting::BoxFuture;
use granary_core::id::SiloAddress;
use granary_core::wire::{OneWay, Request, Response};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::NetConfig;
use crate::error::NetError;
use crate::frame::{FrameKind, TooLong, encode, encode_request};
use crate::handshake::Lane;
use crate::link::{GivenUp, Link};
use crate::stats::NetStats;
use crate::{dialer, listener};

/// How many endpoints with a dead incarnation are remembered; the oldest is forgotten first. A forgotten one is
/// still kept out by the membership.
const DEAD_ENDPOINTS_MAX: usize = 4096;

/// What a silo does with what others say. Called on the network's tasks.
pub trait Handler: Send + Sync {
    /// Takes a message. In order for each connection; must not block, since it holds up the connection's reader.
    fn one_way(&self, from: SiloAddress, message: OneWay);

    /// Answers a request within `remaining`. Runs to its end even when the caller or its connection goes away.
    fn request(&self, from: SiloAddress, request: Request, remaining: Duration) -> BoxFuture<'_, Response>;

    /// A connection to or from `peer` ended. A hint: the peer has several, and may come back.
    fn disconnected(&self, peer: SiloAddress);
}

/// The connections of one silo. Made by [`Network::start`], ended by its cancellation token.
pub struct Network {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("me", &self.shared.config.me).finish_non_exhaustive()
    }
}

/// What all tasks of a network see.
pub(crate) struct Shared {
    pub(crate) config: NetConfig,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) tracker: TaskTracker,
    pub(crate) cancel: CancellationToken,
    pub(crate) runtime: Handle,
    pub(crate) stats: Arc<NetStats>,
    next_id: AtomicU64,
    links: Mutex<HashMap<(SiloAddress, Lane), Arc<Link>>>,
    dead: Mutex<Dead>,
    inbound: Mutex<HashMap<u64, (SiloAddress, CancellationToken)>>,
}

/// The highest generation of each endpoint that is known to be dead. A lower one is dead too: generations of an
/// endpoint grow.
#[derive(Debug, Default)]
struct Dead {
    generations: BTreeMap<SocketAddr, i32>,
    order: VecDeque<SocketAddr>,
}

impl Network {
    /// Starts to listen and answer. Must be called within a tokio runtime; all tasks run on it, whatever thread
    /// sends later. The listener is bound by the caller, so that the address with its port is known before.
    #[must_use]
    pub fn start(
        config: NetConfig,
        listener: TcpListener,
        handler: Arc<dyn Handler>,
        tracker: TaskTracker,
        cancel: CancellationToken,
    ) -> Arc<Self> {
        let shared = Arc::new(Shared {
            config,
            handler,
            tracker,
            cancel,
            runtime: Handle::current(),
            stats: Arc::default(),
            next_id: AtomicU64::new(1),
            links: Mutex::default(),
            dead: Mutex::default(),
            inbound: Mutex::default(),
        });
        shared.spawn(listener::run(Arc::clone(&shared), listener));
        Arc::new(Self { shared })
    }

    /// Sends a message, best effort: it is dropped and counted when the queue is full, the peer is dead or cannot
    /// be reached, or the connection is lost. Messages of one lane that arrive, arrive in order. Never blocks;
    /// may be called from any thread.
    pub fn send(&self, to: SiloAddress, lane: Lane, message: OneWay) {
        let sent = match encode(FrameKind::OneWay, &message) {
            Ok(frame) => self.shared.link(to, lane).and_then(|link| link.send(frame)),
            Err(TooLong(bytes)) => Err(format!("a message of {bytes} bytes is too long")),
        };
        if let Err(reason) = sent {
            self.shared.stats.one_ways_dropped.add(1);
            tracing::trace!(%to, ?lane, "message dropped: {reason}");
        }
    }

    /// Asks a silo and waits at most `timeout` for its answer.
    ///
    /// Dropping the future gives the request up; the peer is told, and may go on all the same.
    ///
    /// # Errors
    /// See [`NetError`]: the variants tell whether the peer may have acted.
    pub async fn request(
        &self,
        to: SiloAddress,
        lane: Lane,
        request: Request,
        timeout: Duration,
    ) -> Result<Response, NetError> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = encode_request(id, &request).map_err(|TooLong(bytes)| NetError::too_large(bytes))?;
        let refused = |reason| {
            self.shared.stats.requests_not_queued.add(1);
            NetError::NotDelivered(reason)
        };
        let link = self.shared.link(to, lane).map_err(refused)?;
        let reply = link.request(id, frame, Instant::now() + timeout).map_err(refused)?;
        let mut waiting = Waiting { link: &link, id, over: false };
        let outcome = tokio::time::timeout(timeout, reply).await;
        waiting.over = true;
        match outcome {
            Ok(Ok(reply)) => reply,
            // The link keeps the sender until it has replied, so this is only reached when it was torn down.
            Ok(Err(_)) => Err(NetError::UnknownOutcome(format!("the link to {to} ended"))),
            Err(_) => Err(match link.give_up(id) {
                GivenUp::Waiting => {
                    NetError::NotDelivered(format!("no connection to {to} took it within {timeout:?}"))
                }
                GivenUp::Written | GivenUp::Answered => NetError::TimedOut,
            }),
        }
    }

    /// This incarnation is dead for good: its connections are closed, its requests fail at once, and it is
    /// neither dialled nor let in again.
    pub fn peer_dead(&self, peer: SiloAddress) {
        self.shared.dead().add(peer);
        let reason = format!("silo {peer} is dead");
        let over: Vec<_> =
            self.shared.links().extract_if(|(to, _), _| *to == peer).map(|(_, link)| link).collect();
        for link in over {
            link.fail_all(&reason);
        }
        for (from, closed) in self.shared.inbound().values() {
            if *from == peer {
                closed.cancel();
            }
        }
    }

    /// The address of this silo.
    #[must_use]
    pub fn me(&self) -> SiloAddress {
        self.shared.config.me
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> &NetStats {
        &self.shared.stats
    }
}

/// Gives a request up when its future is dropped.
struct Waiting<'a> {
    link: &'a Link,
    id: u64,
    over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.link.give_up(self.id);
        }
    }
}

impl Shared {
    /// Spawns on the network's own runtime, from any thread.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn_on(task, &self.runtime);
    }

    pub(crate) fn is_dead(&self, silo: SiloAddress) -> bool {
        self.dead().has(silo)
    }

    /// Registers an inbound connection; `None` when its silo has died meanwhile. The token closes it.
    pub(crate) fn add_inbound(&self, from: SiloAddress) -> Option<(u64, CancellationToken)> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let closed = self.cancel.child_token();
        self.inbound().insert(id, (from, closed.clone()));
        // After the insertion, so that `peer_dead` at the same moment misses neither check.
        if self.is_dead(from) {
            self.remove_inbound(id);
            return None;
        }
        Some((id, closed))
    }

    pub(crate) fn remove_inbound(&self, id: u64) {
        self.inbound().remove(&id);
    }

    /// Removes the link from the table, if it is still the one there.
    pub(crate) fn forget_link(&self, link: &Arc<Link>) {
        let mut links = self.links();
        let key = (link.peer, link.lane);
        if links.get(&key).is_some_and(|found| Arc::ptr_eq(found, link)) {
            links.remove(&key);
        }
    }

    /// The link to a peer on a lane; its dialer starts with it.
    fn link(self: &Arc<Self>, to: SiloAddress, lane: Lane) -> Result<Arc<Link>, String> {
        let limits = &self.config.limits;
        let mut links = self.links();
        if let Some(link) = links.get(&(to, lane)) {
            return Ok(Arc::clone(link));
        }
        if self.cancel.is_cancelled() {
            return Err("this silo stops".to_owned());
        }
        if self.is_dead(to) {
            return Err(format!("silo {to} is dead"));
        }
        if links.len() >= limits.links_max {
            return Err(format!("this silo has {} links already", links.len()));
        }
        let closed = self.cancel.child_token();
        let (link, queue) = Link::new(to, lane, closed, limits.queue_frames_max, limits.queue_bytes_max);
        let link = Arc::new(link);
        links.insert((to, lane), Arc::clone(&link));
        self.spawn(dialer::run(Arc::clone(self), Arc::clone(&link), queue));
        Ok(link)
    }

    fn links(&self) -> MutexGuard<'_, HashMap<(SiloAddress, Lane), Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dead(&self) -> MutexGuard<'_, Dead> {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inbound(&self) -> MutexGuard<'_, HashMap<u64, (SiloAddress, CancellationToken)>> {
        self.inbound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dead {
    fn add(&mut self, silo: SiloAddress) {
        let endpoint = silo.endpoint();
        if let Some(generation) = self.generations.get_mut(&endpoint) {
            *generation = silo.generation.max(*generation);
            return;
        }
        self.generations.insert(endpoint, silo.generation);
        self.order.push_back(endpoint);
        if self.order.len() > DEAD_ENDPOINTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.generations.remove(&oldest);
        }
    }

    fn has(&self, silo: SiloAddress) -> bool {
        self.generations.get(&silo.endpoint()).is_some_and(|dead| silo.generation <= *dead)
    }
}
