//! The invoker: finds the activation, or has one made, and delivers the call.
//!
//! The silo of the caller goes the way local activation → location cache → directory → placement, and repeats a
//! delivery that provably did not start, within the call's deadline. A silo that gets a call for an activation that
//! it does not have passes it on at most [`FORWARDS_MAX`] times, and says in its reply where the activation is.

pub(crate) mod text;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use granary_core::hosting::{CallError, GrainClass, OVERLAPPING_TURNS_MAX};
use granary_core::id::{ActivationId, GrainId, GrainType, SiloAddress};
use granary_core::wire::{CallReply, CallRequest};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use crate::activation::mailbox::{Arrival, PushError, QueuedCall};
use crate::activation::run::{self, Start};
use crate::activation::{Activation, ActivationState};
use crate::catalog::Found;
use crate::cycles::{self, Watched};
use crate::grains::Inner;
use crate::inline::{self, Begun};
use crate::options::{
    CHAIN_MAX, DELIVERY_ATTEMPTS_MAX, DELIVERY_PAUSE_MAX, DELIVERY_PAUSE_MIN, FORWARDS_MAX,
    OVERLOAD_RETRY_AFTER_MS, REQUEST_CONTEXT_BYTES_MAX, REQUEST_CONTEXT_MAX,
};
use crate::placement::Strategy;
use crate::seams::PeerError;

/// A call's end, as the invoker sees it.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) reply: CallReply,
    /// The silo that could not be reached.
    unreachable: Option<SiloAddress>,
}

impl From<CallError> for Routed {
    fn from(error: CallError) -> Self {
        Self { reply: CallReply { outcome: Err(error), location: None }, unreachable: None }
    }
}

/// Where a call has to go.
enum Place {
    /// To a new activation on this silo.
    Here(Arc<dyn GrainClass>),
    Silo {
        silo: SiloAddress,
        may_activate: bool,
    },
}

impl Inner {
    /// Makes a call from this silo.
    pub(crate) async fn call(self: &Arc<Self>, mut request: CallRequest, deadline: Instant) -> CallReply {
        self.metrics.calls.add();
        request.forwards = 0;
        request.may_activate = false;
        if request.call_id == 0 {
            request.call_id = self.random.call_id();
        }
        if request.one_way {
            // Nobody waits for a one-way call, so nobody can wait for himself (decision A12).
            request.context.chain.clear();
            request.context.remaining = None;
        }
        let reply = match self.check(&request) {
            Ok(()) if request.one_way => self.send_one_way(request, deadline),
            Ok(()) => self.begin(request, deadline).await,
            Err(error) => Routed::from(error).reply,
        };
        if reply.outcome.is_err() {
            self.metrics.calls_failed.add();
        }
        reply
    }

    /// Runs a call where it stands when its target is here and idle; else delivers it.
    async fn begin(self: &Arc<Self>, request: CallRequest, deadline: Instant) -> CallReply {
        let watched = Watched::of(&request);
        let begun = match self.catalog.get(&request.to) {
            Some(activation) => inline::begin(self, &activation, request, deadline).await,
            None => Begun::Refused(request),
        };
        let reply = |outcome| CallReply { outcome, location: None };
        match begun {
            Begun::Ended(outcome) => reply(outcome),
            // What waits is boxed: a call that ends at once shall not carry its room along.
            Begun::Waits(ended) => {
                let call = async { reply(inline::ended(ended, deadline).await) };
                Box::pin(cycles::watch(self, watched, call)).await
            }
            Begun::Refused(request) => {
                Box::pin(cycles::watch(self, watched, self.deliver(&request, deadline))).await
            }
        }
    }

    /// What can be said about a call before it is delivered anywhere.
    fn check(&self, request: &CallRequest) -> Result<(), CallError> {
        let context = &request.context;
        let times = context.chain.iter().filter(|grain| **grain == request.to).count();
        if times > 0 && times >= self.overlapping_max(&request.to) {
            self.metrics.deadlocks.add();
            let chain = context.chain.iter().chain([&request.to]).map(ToString::to_string);
            return Err(CallError::Deadlock(chain.collect()));
        }
        if context.chain.len() >= CHAIN_MAX {
            return Err(CallError::NotDelivered(format!(
                "a chain of {CHAIN_MAX} grains that wait for each other is the longest"
            )));
        }
        let bytes: usize = context.request_context.iter().map(|(key, value)| key.len() + value.len()).sum();
        if context.request_context.len() > REQUEST_CONTEXT_MAX || bytes > REQUEST_CONTEXT_BYTES_MAX {
            return Err(CallError::NotDelivered(format!(
                "the request context has {} entries and {bytes} bytes, at most {REQUEST_CONTEXT_MAX} entries and \
                 {REQUEST_CONTEXT_BYTES_MAX} bytes are carried",
                context.request_context.len()
            )));
        }
        Ok(())
    }

    /// How many turns of a grain may wait for each other: a reentrant one goes on while it waits, until no further
    /// turn has room.
    fn overlapping_max(&self, grain: &GrainId) -> usize {
        let class = self.seams.types.class(grain.grain_type());
        if class.is_some_and(|class| class.info().reentrant) { OVERLAPPING_TURNS_MAX } else { 1 }
    }

    /// Accepts a one-way call, and delivers it in a task of its own unless its target is here.
    fn send_one_way(self: &Arc<Self>, mut request: CallRequest, deadline: Instant) -> CallReply {
        let accepted = CallReply { outcome: Ok(Vec::new()), location: None };
        if let Some(activation) = self.catalog.get(&request.to) {
            // At once, so that the calls of one sender keep their order.
            let (reply, _) = oneshot::channel();
            let call = QueuedCall { request, arrival: Arrival::Origin, deadline, reply };
            match activation.push(call) {
                Ok(()) => return accepted,
                Err(PushError::Ended(call)) => request = call.request,
                Err(PushError::Full) => return Routed::from(self.overloaded()).reply,
                Err(PushError::Failed(text)) => return Routed::from(CallError::Failed(text)).reply,
            }
        }
        let Ok(permit) = Arc::clone(&self.one_way).try_acquire_owned() else {
            return Routed::from(self.overloaded()).reply;
        };
        let inner = Arc::clone(self);
        self.tracker.spawn(async move {
            let _permit = permit;
            if let Err(error) = inner.deliver(&request, deadline).await.outcome {
                inner.metrics.one_way_failed.add();
                tracing::debug!(grain = %request.to, method = %request.method.method, "one-way call lost: {error}");
            }
        });
        accepted
    }

    /// Delivers a call, again and again while it provably did not start.
    async fn deliver(self: &Arc<Self>, request: &CallRequest, deadline: Instant) -> CallReply {
        let mut unreachable = None;
        let mut pause = Duration::ZERO;
        let mut attempt = 1;
        loop {
            let routed = self.route(request.clone(), Arrival::Origin, deadline, unreachable).await;
            let repeat = matches!(routed.reply.outcome, Err(CallError::NotDelivered(_)));
            if !repeat || attempt == DELIVERY_ATTEMPTS_MAX || Instant::now() + pause >= deadline {
                return routed.reply;
            }
            self.metrics.calls_repeated.add();
            unreachable = routed.unreachable;
            attempt += 1;
            sleep(pause).await;
            pause = (pause * 2).clamp(DELIVERY_PAUSE_MIN, DELIVERY_PAUSE_MAX);
        }
    }

    /// Delivers a call once: to the activation here, to the silo that has it, or to one that shall make it.
    pub(crate) async fn route(
        self: &Arc<Self>,
        mut request: CallRequest,
        arrival: Arrival,
        deadline: Instant,
        unreachable: Option<SiloAddress>,
    ) -> Routed {
        /// An activation that ends while a call looks for it makes the call look again.
        const LOOKS_MAX: usize = 8;

        for _ in 0..LOOKS_MAX {
            let activation = match self.catalog.get(&request.to) {
                Some(activation) => activation,
                None => match self.place(&request, arrival, deadline, unreachable).await {
                    Ok(Place::Here(class)) => match self.activate(&request, class) {
                        Ok(activation) => activation,
                        Err(error) => return error.into(),
                    },
                    Ok(Place::Silo { silo, may_activate }) => {
                        return self.send(silo, request, arrival, may_activate, deadline).await;
                    }
                    Err(error) => return error.into(),
                },
            };
            match self.enqueue(&activation, request, arrival, deadline).await {
                Ok(routed) => return routed,
                Err(back) => request = back,
            }
        }
        CallError::NotDelivered(format!("the activation of {} kept ending", request.to)).into()
    }

    /// Runs a call at an activation of this silo, inline or through its mailbox, and waits for its end. Gives the call back when the activation
    /// ended before.
    async fn enqueue(
        self: &Arc<Self>,
        activation: &Arc<Activation>,
        mut request: CallRequest,
        arrival: Arrival,
        deadline: Instant,
    ) -> Result<Routed, CallRequest> {
        let one_way = request.one_way;
        // The sender's placement is used up: should this activation lose, the directory says where to go.
        request.may_activate = false;
        let ran = |outcome| Routed { reply: CallReply { outcome, location: None }, unreachable: None };
        let request = match inline::begin(self, activation, request, deadline).await {
            Begun::Ended(outcome) => return Ok(ran(outcome)),
            Begun::Waits(ended) => return Ok(ran(inline::ended(ended, deadline).await)),
            Begun::Refused(request) => request,
        };
        let (reply, ended) = oneshot::channel();
        match activation.push(QueuedCall { request, arrival, deadline, reply }) {
            Ok(()) => {}
            Err(PushError::Ended(call)) => return Err(call.request),
            Err(PushError::Full) => return Ok(self.overloaded().into()),
            Err(PushError::Failed(text)) => return Ok(CallError::Failed(text).into()),
        }
        if one_way {
            return Ok(Routed {
                reply: CallReply { outcome: Ok(Vec::new()), location: None },
                unreachable: None,
            });
        }
        Ok(match timeout_at(deadline, ended).await {
            Ok(Ok(reply)) => Routed { reply, unreachable: None },
            Ok(Err(_)) => CallError::UnknownOutcome("the activation was cut off".to_owned()).into(),
            Err(_) => CallError::TimedOut.into(),
        })
    }

    fn overloaded(&self) -> CallError {
        self.metrics.calls_overloaded.add();
        CallError::Overloaded { retry_after_ms: OVERLOAD_RETRY_AFTER_MS }
    }

    /// The activation of a grain on this silo, made now if need be.
    fn activate(
        self: &Arc<Self>,
        request: &CallRequest,
        class: Arc<dyn GrainClass>,
    ) -> Result<Arc<Activation>, CallError> {
        let found = self.catalog.get_or_insert(&request.to, || {
            let identity = self.identity(request.to.clone(), ActivationId(self.random.id()));
            Activation::new(identity, class, ActivationState::Creating)
        });
        let activation = match found {
            Found::Existing(activation) => return Ok(activation),
            Found::Created(activation) => activation,
        };
        if self.draining.is_cancelled() {
            // Asked again after the insertion: the drain either sees the activation, or is seen here.
            self.catalog.remove(activation.grain(), activation.id());
            self.reroute(activation.close().0);
            return Err(CallError::NotDelivered("the silo stops".to_owned()));
        }
        if self.seams.types.class(request.to.grain_type()).is_none() {
            // Likewise: the end of an undeployed type either sees the activation, or is seen here.
            self.catalog.remove(activation.grain(), activation.id());
            self.reroute(activation.close().0);
            return Err(self.nobody_serves(request.to.grain_type()));
        }
        run::spawn(self, Arc::clone(&activation), Start::Fresh);
        Ok(activation)
    }

    /// Decides where a call goes whose activation is not on this silo.
    async fn place(
        &self,
        request: &CallRequest,
        arrival: Arrival,
        deadline: Instant,
        unreachable: Option<SiloAddress>,
    ) -> Result<Place, CallError> {
        let (grain, me) = (&request.to, self.options.silo);
        let grain_type = grain.grain_type();
        if request.may_activate
            && let Some(class) = self.class_here(grain_type)
        {
            // The sender asked the directory already; the registration finds out if somebody was faster.
            return Ok(Place::Here(class));
        }
        if let Some(silo) = self.locations.get(grain)
            && silo != me
            && arrival != Arrival::Inbound(silo)
            // A silo that stops has moved its grains, or is about to: what was remembered of it is not worth a
            // call whose outcome nobody knows when the silo exits.
            && self.seams.types.is_active(silo)
        {
            return Ok(Place::Silo { silo, may_activate: false });
        }
        let entry = match timeout_at(deadline, self.seams.directory.lookup(grain.clone())).await {
            Ok(Ok(entry)) => entry,
            Ok(Err(error)) => return Err(CallError::NotDelivered(error.to_string())),
            Err(_) => return Err(CallError::NotDelivered("the directory did not answer in time".to_owned())),
        };
        let class = self.class_here(grain_type);
        match (entry, &class) {
            (Some(entry), _) if entry.silo != me => {
                self.locations.insert(grain, entry.silo);
                return Ok(Place::Silo { silo: entry.silo, may_activate: false });
            }
            // It came here meanwhile, or the entry is of an activation of this silo that ended.
            (Some(_), Some(class)) => return Ok(Place::Here(Arc::clone(class))),
            _ => {}
        }
        let mut candidates = self.seams.types.silos_for(grain_type);
        candidates.retain(|silo| *silo != me || !self.draining.is_cancelled());
        if candidates.len() > 1 {
            candidates.retain(|silo| Some(*silo) != unreachable);
        }
        let strategy = match &class {
            Some(class) => Strategy::of(&class.info().properties),
            None => Strategy::default(),
        };
        let strategy = match (strategy, arrival) {
            // It came here because the grain was here; another hop would gain nothing.
            (Strategy::Random, Arrival::Inbound(_)) => Strategy::PreferLocal,
            (strategy, _) => strategy,
        };
        match (strategy.choose(grain, &candidates, me, &self.random), class) {
            (Some(silo), Some(class)) if silo == me => Ok(Place::Here(class)),
            (Some(silo), _) if silo != me => Ok(Place::Silo { silo, may_activate: true }),
            _ => Err(self.nobody_serves(grain_type)),
        }
    }

    /// Why no silo can be chosen for a type.
    pub(crate) fn nobody_serves(&self, grain_type: &GrainType) -> CallError {
        /// Types that an error text names.
        const NAMED_MAX: usize = 10;

        if let Some(why) = self.seams.types.quarantined(grain_type) {
            return CallError::Quarantined(why);
        }
        let known = self.seams.types.known_types();
        if known.contains(grain_type) || self.seams.types.class(grain_type).is_some() {
            return CallError::NotDelivered(format!(
                "no active silo serves the grain type {grain_type} at present"
            ));
        }
        let mut names: Vec<_> = known.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        if known.len() > NAMED_MAX {
            names.push(format!("and {} more", known.len() - NAMED_MAX));
        }
        let there_are = if names.is_empty() { "nothing is deployed".to_owned() } else { names.join(", ") };
        CallError::NotFound(format!("the grain type {grain_type} is not deployed; deployed are: {there_are}"))
    }

    /// Sends a call to another silo.
    async fn send(
        &self,
        silo: SiloAddress,
        mut request: CallRequest,
        arrival: Arrival,
        may_activate: bool,
        deadline: Instant,
    ) -> Routed {
        let grain = request.to.clone();
        if matches!(arrival, Arrival::Inbound(_)) {
            if request.forwards >= FORWARDS_MAX {
                let text = format!("passed on {FORWARDS_MAX} times and not found; {grain} may be on {silo}");
                let outcome = Err(CallError::NotDelivered(text));
                return Routed { reply: CallReply { outcome, location: Some(silo) }, unreachable: None };
            }
            request.forwards += 1;
            self.metrics.calls_forwarded.add();
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return CallError::NotDelivered("its time was up before it was sent".to_owned()).into();
        }
        request.may_activate = may_activate;
        request.context.remaining = (!request.one_way).then_some(remaining);
        let answer = timeout_at(deadline, self.seams.peers.invoke(silo, request, remaining)).await;
        match answer.unwrap_or(Err(PeerError::TimedOut)) {
            Ok(mut reply) => {
                let delivered = !matches!(reply.outcome, Err(CallError::NotDelivered(_)));
                match reply.location {
                    Some(found) if found != self.options.silo => self.locations.insert(&grain, found),
                    None if delivered => self.locations.insert(&grain, silo),
                    _ => self.locations.remove(&grain, silo),
                }
                reply.location = reply.location.or_else(|| delivered.then_some(silo));
                Routed { reply, unreachable: None }
            }
            Err(PeerError::NotDelivered(text)) => {
                self.locations.remove(&grain, silo);
                let reply = CallReply { outcome: Err(CallError::NotDelivered(text)), location: None };
                Routed { reply, unreachable: Some(silo) }
            }
            Err(PeerError::UnknownOutcome(text)) => {
                self.locations.remove(&grain, silo);
                CallError::UnknownOutcome(text).into()
            }
            Err(PeerError::TimedOut) => CallError::TimedOut.into(),
        }
    }

    /// Sends calls that did not start to where the grain is now, in their order.
    pub(crate) fn reroute(self: &Arc<Self>, calls: Vec<QueuedCall>) {
        self.pass_on(calls, |inner, call| inner.reroute_one(call));
    }

    /// Sends calls that did not start to this silo, in their order.
    pub(crate) fn send_back(self: &Arc<Self>, calls: Vec<QueuedCall>, silo: SiloAddress) {
        self.pass_on(calls, move |inner, call| async move {
            let QueuedCall { request, arrival, deadline, reply } = call;
            let routed = inner.send(silo, request, arrival, false, deadline).await;
            let _ = reply.send(routed.reply);
        });
    }

    /// Begins one future for each call, one after the other, which keeps their order; what has to wait then waits in
    /// a task of its own.
    fn pass_on<F>(
        self: &Arc<Self>,
        calls: Vec<QueuedCall>,
        pass: impl Fn(Arc<Self>, QueuedCall) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        if calls.is_empty() {
            return;
        }
        let inner = Arc::clone(self);
        self.tracker.spawn(async move {
            for call in calls {
                let waiting = inner.inbound.enter();
                let mut begun = Box::pin(pass(Arc::clone(&inner), call));
                let ended = poll_fn(|context| Poll::Ready(begun.as_mut().poll(context).is_ready())).await;
                if !ended {
                    inner.tracker.spawn(async move {
                        begun.await;
                        drop(waiting);
                    });
                }
            }
        });
    }

    async fn reroute_one(self: Arc<Self>, call: QueuedCall) {
        let QueuedCall { request, arrival, deadline, reply } = call;
        if deadline <= Instant::now() {
            self.metrics.calls_expired.add();
            let _ = reply.send(Routed::from(CallError::TimedOut).reply);
            return;
        }
        let routed = if request.one_way {
            Routed { reply: self.deliver(&request, deadline).await, unreachable: None }
        } else {
            self.route(request, arrival, deadline, None).await
        };
        // When it was not delivered, the silo of the caller repeats it.
        let _ = reply.send(routed.reply);
    }
}
