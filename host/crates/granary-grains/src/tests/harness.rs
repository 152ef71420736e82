//! A cluster in one process.

mod class;
mod world;

use std::sync::Arc;
use std::time::Duration;

use granary_core::hosting::{CallError, MethodRef, TurnContext};
use granary_core::id::{Digest, GrainId, SiloAddress};
use granary_core::wire::CallRequest;
use granary_store::GrainStateStore;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::class::{Behaviour, Class, number, trap};
use self::world::{FakeDirectory, FakePeers, FakeTypes, NoLog};
pub(crate) use self::world::{Fault, World};
use crate::seams::Seams;
use crate::{Grains, GrainsOptions};

pub(crate) const INTERFACE: &str = "test:counter/counter";

pub(crate) fn silo(n: u16) -> SiloAddress {
    format!("127.0.0.1:{n}@1").parse().unwrap()
}

pub(crate) fn grain(text: &str) -> GrainId {
    text.parse().unwrap()
}

pub(crate) fn hash(method: &str) -> Digest {
    Digest::of(method.as_bytes())
}

pub(crate) fn method(name: &str) -> MethodRef {
    MethodRef { interface: INTERFACE.into(), method: name.into(), hash: hash(name) }
}

pub(crate) fn request(to: &str, name: &str, args: &[u8]) -> CallRequest {
    CallRequest {
        to: grain(to),
        method: method(name),
        args: args.to_vec(),
        context: TurnContext::default(),
        call_id: 0,
        forwards: 0,
        one_way: false,
        may_activate: false,
    }
}

/// Some silos, all of which serve the type `counter`.
pub(crate) struct Cluster {
    pub(crate) world: Arc<World>,
    pub(crate) behaviour: Arc<Behaviour>,
    pub(crate) silos: Vec<Grains>,
    pub(crate) stop: CancellationToken,
    pub(crate) tracker: TaskTracker,
}

impl Cluster {
    pub(crate) fn new(silos: u16) -> Self {
        Self::with(silos, |_| {})
    }

    /// A cluster whose class is changed before it is deployed.
    pub(crate) fn with(silos: u16, change: impl Fn(&mut Class)) -> Self {
        let behaviour = Arc::new(Behaviour { gate: Some(Semaphore::new(0)), ..Behaviour::default() });
        let mut cluster = Self {
            world: Arc::new(World::default()),
            behaviour,
            silos: Vec::new(),
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
        };
        for n in 1..=silos {
            cluster.deploy(n, "counter", &change);
            let grains = cluster.grains(n);
            cluster.world.silos.lock().unwrap().insert(silo(n), grains.clone());
            cluster.silos.push(grains);
        }
        cluster
    }

    fn grains(&self, n: u16) -> Grains {
        let world = Arc::clone(&self.world);
        let seams = Seams {
            directory: Arc::new(FakeDirectory(Arc::clone(&world))),
            peers: Arc::new(FakePeers { me: silo(n), world: Arc::clone(&world) }),
            types: Arc::new(FakeTypes { me: silo(n), world: Arc::clone(&world) }),
            state: Arc::new(world.state.clone()) as Arc<dyn GrainStateStore>,
            logs: Arc::new(NoLog),
        };
        let seed = [u8::try_from(n).unwrap(); 32];
        let options = GrainsOptions::new(silo(n), &format!("silo-{n}"), seed);
        Grains::new(options, seams, self.tracker.clone(), self.stop.clone())
    }

    pub(crate) fn deploy(&self, n: u16, grain_type: &str, change: impl Fn(&mut Class)) {
        let mut class = Class::new(grain_type, &self.behaviour);
        change(&mut class);
        let key = (silo(n), class.info.grain_type.clone());
        self.world.classes.lock().unwrap().insert(key, Arc::new(class));
    }

    /// Calls from silo `n`.
    pub(crate) async fn call(
        &self,
        n: usize,
        to: &str,
        name: &str,
        args: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        self.silos[n - 1].call(request(to, name, args), None).await.outcome
    }

    pub(crate) async fn add(&self, n: usize, to: &str) -> Result<u64, CallError> {
        self.call(n, to, "add", &1_u64.to_le_bytes()).await.map(|bytes| number(&bytes))
    }

    /// Begins a call and waits until it was taken into a mailbox, or began its turn.
    pub(crate) async fn begin(
        &self,
        n: usize,
        to: &str,
        name: &str,
        args: &[u8],
    ) -> tokio::task::JoinHandle<Result<Vec<u8>, CallError>> {
        let load = || -> usize {
            let all = self.silos.iter().filter_map(|silo| silo.describe(&grain(to)));
            all.map(|summary| summary.mailbox + usize::from(summary.running)).sum()
        };
        let before = load();
        let (silo, request) = (self.silos[n - 1].clone(), request(to, name, args));
        let begun = tokio::spawn(async move { silo.call(request, None).await.outcome });
        until(|| load() > before).await;
        begun
    }

    pub(crate) fn open_gate(&self, permits: usize) {
        self.behaviour.gate.as_ref().unwrap().add_permits(permits);
    }

    /// Where the grain's only activation is.
    pub(crate) fn place_of(&self, text: &str) -> usize {
        let mut places = Vec::new();
        for (index, silo) in self.silos.iter().enumerate() {
            places.extend(silo.describe(&grain(text)).map(|_| index + 1));
        }
        assert_eq!(places.len(), 1, "{text} is on {places:?}");
        places[0]
    }

    /// Makes an activation on this silo.
    pub(crate) async fn activate_on(&self, n: u16, text: &str) {
        let mut request = request(text, "get", &[]);
        request.may_activate = true;
        let reply =
            self.silos[usize::from(n) - 1].handle_invoke(silo(9), request, Duration::from_secs(5)).await;
        reply.outcome.unwrap();
        assert_eq!(self.place_of(text), usize::from(n));
    }
}

/// Lets other tasks run until the condition holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the condition never came to hold");
}
