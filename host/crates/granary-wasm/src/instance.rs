//! One instance in its own store, and the turns that it runs; beside each other in `instance/overlap.rs`.
//!
//! A turn that does not end in an orderly way (a trap, the budget, a dropped future) leaves the instance in the
//! middle of something: it is marked before each turn and unmarked only after a good end, and refuses all
//! further turns otherwise. Its owner drops it then.

mod overlap;

use std::future::poll_fn;
use std::sync::Arc;

use granary_core::hosting::{
    ActivationHost, BoxFuture, DeactivationReason, GrainInstance, MethodRef, Overlap, TrapKind, Turn,
    TurnContext, TurnFailure,
};
use wasmtime::Store;
use wasmtime::component::{self, ComponentExportIndex, ComponentType, Func, Lift, Lower, Val};

use crate::class::{Method, Shared};
use crate::fast;
use crate::state::{HostState, on_epoch};
use crate::trap;
use crate::value::{self, ValueError};

/// What a dynamic value costs of wasmtime's host-call fuel, for each element of a list (the size of [`Val`]).
pub(crate) const VAL_FUEL: usize = 40;

/// Host-call fuel beside the largest value: for the strings and records of host calls.
const FUEL_BASE: usize = 8 << 20;

/// A live instance.
pub(crate) struct Instance {
    shared: Arc<Shared>,
    store: Store<HostState>,
    instance: component::Instance,
    /// The methods' functions, looked up when they are first called.
    functions: Box<[Option<Callable>]>,
    sound: bool,
}

/// A method's function.
#[derive(Clone)]
struct Callable {
    function: Func,
    /// The way without dynamic values, where there is one.
    fast: Option<Arc<dyn fast::Call<HostState>>>,
}

/// `deactivation-reason` of the contract.
#[derive(Debug, Clone, Copy, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
enum Reason {
    #[component(name = "shutting-down")]
    ShuttingDown,
    #[component(name = "idle")]
    Idle,
    #[component(name = "application-requested")]
    ApplicationRequested,
    #[component(name = "migrating")]
    Migrating,
    #[component(name = "duplicate")]
    Duplicate,
    #[component(name = "runtime-requested")]
    RuntimeRequested,
}

impl From<DeactivationReason> for Reason {
    fn from(reason: DeactivationReason) -> Self {
        match reason {
            DeactivationReason::ShuttingDown => Self::ShuttingDown,
            DeactivationReason::Idle => Self::Idle,
            DeactivationReason::ApplicationRequested => Self::ApplicationRequested,
            DeactivationReason::Migrating => Self::Migrating,
            DeactivationReason::Duplicate => Self::Duplicate,
            DeactivationReason::ActivationFailed
            | DeactivationReason::DirectoryFailure
            | DeactivationReason::RuntimeRequested
            | DeactivationReason::StateConflict
            | DeactivationReason::Undeployed => Self::RuntimeRequested,
        }
    }
}

impl Instance {
    /// Makes a store and instantiates the component in it, under the limits of a turn.
    pub(crate) async fn new(shared: Arc<Shared>, host: Arc<dyn ActivationHost>) -> Result<Self, TurnFailure> {
        let limits = &shared.info.limits;
        let ticks_max = shared.engine.ticks(limits.turn_cpu_max);
        let (grants, outgoing) = (Arc::clone(&shared.grants), Arc::clone(shared.engine.outgoing()));
        let state = HostState::new(host, limits, ticks_max, grants, outgoing);
        let mut store = Store::new(shared.pre.engine(), state);
        store.limiter(|state| &mut state.memory);
        store.epoch_deadline_callback(on_epoch);
        store.set_epoch_deadline(1);
        // A list of bytes of the largest allowed size must pass as dynamic values, in each direction.
        let value_bytes_max = store.data().value_bytes_max;
        store.set_hostcall_fuel(value_bytes_max.saturating_mul(VAL_FUEL).saturating_add(FUEL_BASE));
        match shared.pre.instantiate_async(&mut store).await {
            Ok(instance) => {
                store.data_mut().flush_log();
                let functions = shared.methods.iter().map(|_| None).collect();
                Ok(Self { shared, store, instance, functions, sound: true })
            }
            Err(error) => Err(trap::failure(&error, store.data_mut())),
        }
    }

    async fn run(&mut self, turn: Turn, context: TurnContext) -> Result<Vec<u8>, TurnFailure> {
        if !self.sound {
            return Err(TurnFailure::Trapped {
                kind: TrapKind::Other,
                message: "the instance ended in an earlier turn".to_owned(),
            });
        }
        self.store.data_mut().start_turn(context);
        self.store.set_epoch_deadline(1);
        let shared = Arc::clone(&self.shared);
        let hooks = &shared.hooks;
        match turn {
            Turn::Invoke { method, args } => self.invoke(&method, args).await,
            Turn::Activate => match &hooks.activate {
                Some(export) => {
                    let (outcome,) = self.hook::<_, (Result<(), String>,)>(export, ()).await?;
                    outcome.map(|()| Vec::new()).map_err(refused)
                }
                None => Ok(Vec::new()),
            },
            Turn::Deactivate(reason) => match &hooks.deactivate {
                Some(export) => {
                    self.hook::<_, ()>(export, (Reason::from(reason),)).await.map(|()| Vec::new())
                }
                None => Ok(Vec::new()),
            },
            Turn::Dehydrate => {
                let export = hooks.dehydrate.as_ref().ok_or_else(no_migration)?;
                let (outcome,) = self.hook::<_, (Result<Vec<u8>, String>,)>(export, ()).await?;
                outcome.map_err(refused)
            }
            Turn::Rehydrate(bytes) => {
                let export = hooks.rehydrate.as_ref().ok_or_else(no_migration)?;
                let (outcome,) = self.hook::<_, (Result<(), String>,)>(export, (bytes,)).await?;
                outcome.map(|()| Vec::new()).map_err(refused)
            }
        }
    }

    async fn invoke(&mut self, wanted: &MethodRef, args: Vec<u8>) -> Result<Vec<u8>, TurnFailure> {
        let shared = Arc::clone(&self.shared);
        let (position, method) = shared.find(wanted).map_err(TurnFailure::BadRequest)?;
        let bytes_max = self.store.data().value_bytes_max;
        if args.len() > bytes_max {
            let text = format!("the arguments have {} bytes, the limit is {bytes_max}", args.len());
            return Err(TurnFailure::BadRequest(text));
        }
        let callable = self
            .callable(position, method)
            .ok_or_else(|| TurnFailure::BadRequest(format!("{} is not callable", wanted.method)))?;
        // Bad arguments are refused before any guest code runs, which lowering them would do.
        let undecodable =
            |error: ValueError| TurnFailure::BadRequest(format!("the arguments do not decode: {error}"));
        let outcome = match callable.fast {
            Some(fast) => {
                granary_wit::validate_args(&method.signature, &args, bytes_max)
                    .map_err(|error| undecodable(error.into()))?;
                self.sound = false;
                let outcome = fast.call(&mut self.store, args).await;
                outcome.map(|bytes| value::bounded(bytes, bytes_max))
            }
            None => {
                let params = value::decode_params(&method.signature, &args).map_err(undecodable)?;
                let mut results = vec![Val::Bool(false); usize::from(method.signature.result.is_some())];
                self.sound = false;
                let mut outcome = callable.function.call_async(&mut self.store, &params, &mut results).await;
                if outcome.is_ok() && shared.info.asynchronous {
                    outcome = self.rest().await;
                }
                outcome.map(|()| value::encode_result(&method.signature, results.first(), bytes_max))
            }
        };
        let state = self.store.data_mut();
        let result = outcome.map_err(|error| trap::failure(&error, state))?;
        state.flush_log();
        match result {
            Ok(bytes) => {
                self.sound = true;
                Ok(bytes)
            }
            Err(error) => {
                let kind = if error.is_too_large() { TrapKind::ResultTooLarge } else { TrapKind::Other };
                Err(trap::ended(kind, &format!("the result of {}: {error}", wanted.method), state))
            }
        }
    }

    fn callable(&mut self, position: usize, method: &Method) -> Option<Callable> {
        let slot = self.functions.get_mut(position)?;
        if slot.is_none() {
            let function = self.instance.get_func(&mut self.store, method.export)?;
            // The fast values' safety argument is about the calling convention of synchronous components.
            let synchronous = !self.shared.info.asynchronous;
            let fast = synchronous.then(|| fast::export(&function, &self.store, &method.signature)).flatten();
            *slot = Some(Callable { function, fast });
        }
        slot.clone()
    }

    /// Lets end what a turn left running when it gave its result: with the turn, nothing of the grain runs on.
    async fn rest(&mut self) -> wasmtime::Result<()> {
        let until = self.store.data().wait_until();
        let rest = self.store.run_concurrent(async |accessor| {
            poll_fn(|context| accessor.poll_no_interesting_tasks(context)).await;
        });
        tokio::time::timeout_at(until.into(), rest).await.unwrap_or_else(|_| Err(overlap::waited_too_long()))
    }

    /// Calls an export of the contract, whose types are known.
    async fn hook<P, R>(&mut self, export: &ComponentExportIndex, params: P) -> Result<R, TurnFailure>
    where
        P: component::ComponentNamedList + Lower + Send + Sync + 'static,
        R: component::ComponentNamedList + Lift + Send + Sync + 'static,
    {
        self.sound = false;
        let outcome = match self.instance.get_typed_func::<P, R>(&mut self.store, export) {
            Ok(function) => function.call_async(&mut self.store, params).await,
            Err(error) => Err(error),
        };
        let state = self.store.data_mut();
        match outcome {
            Ok(result) => {
                state.flush_log();
                self.sound = true;
                Ok(result)
            }
            Err(error) => Err(trap::failure(&error, state)),
        }
    }
}

fn refused(error: String) -> TurnFailure {
    TurnFailure::Refused(crate::text::bounded(&error, crate::text::MESSAGE_BYTES_MAX))
}

fn no_migration() -> TurnFailure {
    TurnFailure::BadRequest("the component does not export granary:grain/migration".to_owned())
}

impl GrainInstance for Instance {
    fn overlap(&mut self) -> Option<Overlap<'_>> {
        self.shared.info.reentrant.then(|| overlap::begin(self))
    }

    fn turn(&mut self, turn: Turn, context: TurnContext) -> BoxFuture<'_, Result<Vec<u8>, TurnFailure>> {
        Box::pin(self.run(turn, context))
    }
}

#[cfg(test)]
mod tests;
