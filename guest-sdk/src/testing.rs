//! Runs grains natively, under plain `cargo test`.
//!
//! A [`TestContext`] is a small silo on the test's thread: it activates grains, keeps their state in memory with
//! etags, carries typed calls between them, and keeps what they log. While it lives, typed references work
//! anywhere on that thread.
//!
//! ```ignore
//! let ctx = TestContext::new();
//! ctx.serve::<AccountGrain>("account");
//! let transfer = ctx.activate::<TransferGrain>("desk").unwrap();
//! contract::AccountRef::get("alice").unwrap().deposit(10).unwrap();
//! assert!(transfer.call(|grain| grain.transfer("alice".into(), "bob".into(), 5)).is_ok());
//! ```
//!
//! A panic in a grain is not turned into a failed call: it fails the test, where it is.

mod body;
pub(crate) mod env;
pub(crate) mod host;
mod store;
mod wire;

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec;
use crate::grain::Grain;
use crate::logging::Level;
use crate::state::StateError;
use crate::types::{CallError, DeactivationReason, GrainRef};

use body::{Body, StandIn, TypedBody};
use env::{Env, Fault};

#[doc(hidden)]
pub use crate::concurrent::{now as __now, shared as __shared};
#[doc(hidden)]
pub use wire::{decode_arguments as __decode_arguments, encode_reply as __encode_reply};

/// A line that a grain logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The grain whose turn it was; `None` for the test itself.
    pub grain: Option<GrainRef>,
    /// How important.
    pub level: Level,
    /// The module, usually.
    pub target: String,
    /// The text.
    pub message: String,
}

/// A small silo on the test's thread. See the [module](self).
pub struct TestContext {
    env: Rc<Env>,
}

impl fmt::Debug for TestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestContext").field("serves", &self.env.served()).finish_non_exhaustive()
    }
}

impl Default for TestContext {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TestContext {
    fn drop(&mut self) {
        env::uninstall(&self.env);
    }
}

impl TestContext {
    /// A silo without grains and without state.
    #[must_use]
    pub fn new() -> Self {
        crate::logging::install();
        Self { env: env::install() }
    }

    /// Calls of this grain type reach real grains, activated on the first call.
    pub fn serve<G: Grain>(&self, grain_type: &str) {
        self.env.serve(grain_type, G::INTERFACES, Box::new(|| Ok(Rc::new(TypedBody::<G>::start()?))));
    }

    /// Calls of this grain type reach a stand-in. Generated code has typed forms of this: `contract::account::mock`.
    #[doc(hidden)]
    pub fn __serve_stand_in(&self, grain_type: &str, interface: &'static str, make: MakeStandIn) {
        let make = Rc::new(make);
        self.env.serve(
            grain_type,
            &[interface],
            Box::new(move || {
                let body = make(&env::running_grain().unwrap_or_else(|| GrainRef::new("", "")));
                Ok(Rc::new(StandIn::new(interface, body)))
            }),
        );
    }

    /// Calls of one method of a grain type are answered by a closure, which gets the key and the arguments as a
    /// tuple, and returns what the method returns. The interface need not be known otherwise:
    ///
    /// ```ignore
    /// ctx.mock("acme:bank/account", "account", "withdraw", |_key, (amount,): (u64,)| {
    ///     Err::<u64, _>(AccountError::Conflict)
    /// });
    /// ```
    pub fn mock<A, R>(
        &self,
        interface: &str,
        grain_type: &str,
        method: &str,
        answer: impl Fn(&str, A) -> R + 'static,
    ) where
        A: DeserializeOwned + 'static,
        R: Serialize + 'static,
    {
        self.env.mock(
            interface,
            grain_type,
            method,
            Box::new(move |key, arguments| {
                wire::encode_reply(&answer(key, wire::decode_arguments(arguments)?))
            }),
        );
    }

    /// Answers dynamic calls (`granary_guest::invoke`): grain, method, arguments as JSON.
    pub fn on_invoke(&self, answer: impl Fn(&GrainRef, &str, &str) -> Result<String, CallError> + 'static) {
        self.env.on_invoke(Box::new(answer));
    }

    /// Activates a grain of type `G::GRAIN_TYPE`, or gives the handle of one that is active. Other grains reach it
    /// through references.
    ///
    /// # Errors
    /// Fails as the activation does: state that cannot be read, or a refusal of the grain.
    pub fn activate<G: Grain>(&self, key: &str) -> Result<Handle<G>, String> {
        self.activate_as(G::GRAIN_TYPE, key)
    }

    /// The same, for a grain type that the deployment names otherwise.
    ///
    /// # Errors
    /// As [`TestContext::activate`].
    pub fn activate_as<G: Grain>(&self, grain_type: &str, key: &str) -> Result<Handle<G>, String> {
        if !self.env.serves(grain_type) {
            self.serve::<G>(grain_type);
        }
        let handle =
            Handle { grain: GrainRef::new(grain_type, key), env: Rc::clone(&self.env), types: PhantomData };
        self.env.activation(&handle.grain).map_err(|error| match error {
            CallError::Failed(message) => message,
            other => other.to_string(),
        })?;
        Ok(handle)
    }

    /// The next call of this method (of this grain type) fails so, and the callee does not run.
    pub fn fail_next_call(&self, grain_type: &str, method: &str, error: CallError) {
        self.env.add_fault(grain_type, method, Fault::Fail(error));
    }

    /// The next call of this method (of this grain type) runs, and its reply is lost: the caller gets
    /// [`CallError::UnknownOutcome`].
    pub fn lose_next_reply(&self, grain_type: &str, method: &str) {
        self.env.add_fault(grain_type, method, Fault::LoseReply);
    }

    /// What the store has under this name for this grain.
    ///
    /// # Panics
    /// Panics when the stored value is of another type.
    #[must_use]
    pub fn stored<T: DeserializeOwned>(&self, grain: &GrainRef, name: &str) -> Option<T> {
        let (bytes, _etag) = self.env.store().read(grain, name)?;
        Some(env::or_panic(codec::decode(&bytes), "the stored value is of another type"))
    }

    /// Writes to the store behind the grain's back, as another writer would: the grain's next write conflicts.
    ///
    /// # Panics
    /// Panics when the value cannot be written down.
    pub fn put_state<T: Serialize>(&self, grain: &GrainRef, name: &str, value: &T) {
        let bytes = env::or_panic(codec::encode(value), "the value cannot be written down");
        self.env.store().put(grain, name, bytes);
    }

    /// The next write or removal of state fails so, and changes nothing.
    pub fn fail_next_write(&self, error: StateError) {
        self.env.store().fail_next_write(error);
    }

    /// The next read of state fails so.
    pub fn fail_next_read(&self, error: StateError) {
        self.env.store().fail_next_read(error);
    }

    /// Sets a value of the request context that calls have from now on.
    pub fn set_request_value(&self, key: &str, value: &str) {
        self.env.set_request_value(key, value);
    }

    /// What grains logged so far.
    #[must_use]
    pub fn logs(&self) -> Vec<LogLine> {
        self.env.logs()
    }
}

/// Makes the stand-in for a grain with this reference.
#[doc(hidden)]
pub type MakeStandIn = Box<dyn Fn(&GrainRef) -> ServeStandIn>;

/// Runs a method of a stand-in with encoded arguments.
#[doc(hidden)]
pub type ServeStandIn = Box<dyn FnMut(&str, &[u8]) -> Result<Vec<u8>, CallError>>;

/// A grain in a [`TestContext`]. Like any reference it names the grain, active or not: a call activates it again
/// when it was deactivated.
pub struct Handle<G> {
    grain: GrainRef,
    env: Rc<Env>,
    types: PhantomData<fn() -> G>,
}

impl<G> fmt::Debug for Handle<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.grain).finish()
    }
}

impl<G: Grain> Handle<G> {
    /// The grain's reference.
    #[must_use]
    pub fn grain_ref(&self) -> &GrainRef {
        &self.grain
    }

    /// Runs a turn of the grain: `alice.call(|grain| grain.deposit(5))`.
    ///
    /// # Panics
    /// Panics when the grain cannot be activated, and when its turn is running.
    pub fn call<R>(&self, turn: impl FnOnce(&mut G) -> R) -> R {
        let result = self.env.turn(&self.grain, |body| {
            let cell = typed::<G>(body)?;
            let mut grain = cell.try_borrow_mut().map_err(|_| self.env.deadlock(&self.grain))?;
            Ok(turn(&mut grain))
        });
        env::or_panic(result, "the turn could not run")
    }

    /// Whether the grain is active.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.env.is_active(&self.grain)
    }

    /// Deactivates the grain, if it is active.
    pub fn deactivate(&self, reason: DeactivationReason) {
        self.env.deactivate(&self.grain, reason);
    }

    /// Forgets the activation without a word, as the death of its silo does.
    pub fn kill(&self) {
        self.env.forget(&self.grain);
    }

    /// Carries the memory to a new activation, as a migration does.
    ///
    /// # Errors
    /// Fails when the grain has no `migration`, is not active, or its memory cannot be written or read; then the
    /// activation stays as it was.
    pub fn migrate(&self) -> Result<(), String> {
        self.env.migrate(&self.grain)
    }

    /// The memory that a migration would carry.
    ///
    /// # Errors
    /// Fails when the grain has no `migration`, is not active, or its memory cannot be written.
    pub fn dehydrate(&self) -> Result<Vec<u8>, String> {
        self.env.dehydrate::<G>(&self.grain)
    }
}

fn typed<G: Grain>(body: &dyn Body) -> Result<&RefCell<G>, CallError> {
    body.as_any().downcast_ref::<TypedBody<G>>().map(TypedBody::cell).ok_or_else(|| {
        CallError::Incompatible(format!("the active grain is not a `{}`", std::any::type_name::<G>()))
    })
}

/// What generated code answers for a method that an interface does not have.
#[doc(hidden)]
#[must_use]
pub fn __unknown_method(interface: &str, method: &str) -> CallError {
    CallError::NotFound(format!("the interface `{interface}` has no method `{method}`"))
}
