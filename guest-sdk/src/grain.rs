//! A grain's life inside its component: what the exports that `#[grain]` generates do.
//!
//! A component instance is one activation, so there is one grain per instance, kept in a thread-local cell that
//! the generated code owns. Synchronous code of an instance never re-enters it, so that the cell is not borrowed
//! twice: an asynchronous turn takes the grain out, and overlapping ones borrow it only between two awaits.

use std::cell::RefCell;
use std::thread::LocalKey;

use crate::state::StateError;
use crate::types::DeactivationReason;

/// A struct that `#[grain]` marks. Implemented by that attribute only.
pub trait Grain: Default + 'static {
    /// The grain type.
    const GRAIN_TYPE: &'static str;

    /// The grain interfaces, as ids without a version: `acme:bank/account`.
    const INTERFACES: &'static [&'static str];

    /// Where the one grain of an instance is kept.
    #[doc(hidden)]
    fn __cell() -> &'static LocalKey<RefCell<Option<Self>>>;

    /// Gives the persistent fields their names, and reads those that have not been read.
    #[doc(hidden)]
    fn __load(&mut self) -> Result<(), StateError>;

    #[doc(hidden)]
    fn __activate(&mut self) -> Result<(), String>;

    #[doc(hidden)]
    fn __deactivate(&mut self, reason: DeactivationReason);

    /// `None` when the grain does not carry its memory.
    #[doc(hidden)]
    fn __dehydrate(&self) -> Option<Result<Vec<u8>, String>>;

    #[doc(hidden)]
    fn __rehydrate(memory: &[u8]) -> Result<Self, String>;

    /// Runs a method with encoded arguments, for the test context.
    #[cfg(not(target_family = "wasm"))]
    #[doc(hidden)]
    fn __serve(
        &mut self,
        interface: &str,
        method: &str,
        arguments: &[u8],
    ) -> Result<Vec<u8>, crate::types::CallError>;
}

/// What a grain does at the ends of its life. Implement it and say so: `#[grain(…, lifecycle)]`.
pub trait Lifecycle {
    /// Runs once, after persistent fields are read and before the first call. An error ends the activation, and
    /// its text goes to the callers that wait. Does not run after a migration that carried the memory along.
    ///
    /// # Errors
    /// Whatever keeps the grain from serving calls.
    fn activate(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Runs once before an orderly end. Not guaranteed to run: a silo can die.
    fn deactivate(&mut self, reason: DeactivationReason) {
        let _ = reason;
    }
}

/// A new, active grain.
pub(crate) fn start<G: Grain>() -> Result<G, String> {
    let mut grain = G::default();
    load(&mut grain)?;
    grain.__activate()?;
    Ok(grain)
}

/// A grain that goes on with carried memory; the store is not read for state that came along.
pub(crate) fn resume<G: Grain>(memory: &[u8]) -> Result<G, String> {
    let mut grain = G::__rehydrate(memory)?;
    load(&mut grain)?;
    Ok(grain)
}

fn load<G: Grain>(grain: &mut G) -> Result<(), String> {
    grain.__load().map_err(|error| error.to_string())
}

/// The export `lifecycle.activate`.
///
/// # Errors
/// Fails when state cannot be read or the grain refuses.
pub fn activate<G: Grain>() -> Result<(), String> {
    crate::logging::install();
    let grain = start::<G>()?;
    G::__cell().with(|cell| cell.replace(Some(grain)));
    Ok(())
}

/// The export `lifecycle.deactivate`.
pub fn deactivate<G: Grain>(reason: DeactivationReason) {
    if let Some(mut grain) = G::__cell().with(RefCell::take) {
        grain.__deactivate(reason);
    }
}

/// The export `migration.dehydrate`. The grain stays as it is: if the migration fails, it goes on.
///
/// # Errors
/// Fails when the memory cannot be written.
pub fn dehydrate<G: Grain>() -> Result<Vec<u8>, String> {
    G::__cell().with(|cell| {
        let grain = cell.borrow();
        let grain = grain.as_ref().ok_or("the grain is not active")?;
        grain.__dehydrate().ok_or("the grain does not carry its memory")?
    })
}

/// The export `migration.rehydrate`.
///
/// # Errors
/// Fails when the memory does not fit this version of the grain.
pub fn rehydrate<G: Grain>(memory: &[u8]) -> Result<(), String> {
    crate::logging::install();
    let grain = resume::<G>(memory)?;
    G::__cell().with(|cell| cell.replace(Some(grain)));
    Ok(())
}

/// A turn: runs one method of the grain. A host that did not ask for activation gets it here.
pub fn turn<G: Grain, R>(method: impl FnOnce(&mut G) -> R) -> R {
    G::__cell().with(|cell| {
        let mut slot = cell.borrow_mut();
        let grain = match &mut *slot {
            Some(grain) => grain,
            None => {
                crate::logging::install();
                slot.insert(started_or_trapped())
            }
        };
        method(grain)
    })
}

/// A turn that awaits, in a grain whose turns do not overlap: the host starts no other before it ends.
pub async fn async_turn<G: Grain, R>(method: impl AsyncFnOnce(&mut G) -> R) -> R {
    let taken = G::__cell().with(RefCell::take);
    let mut grain = taken.unwrap_or_else(|| {
        crate::logging::install();
        started_or_trapped()
    });
    let result = method(&mut grain).await;
    G::__cell().with(|cell| cell.replace(Some(grain)));
    result
}

/// A turn that awaits, in a grain whose turns overlap.
#[cfg(target_family = "wasm")]
pub async fn shared_turn<G: Grain, R>(method: impl AsyncFnOnce(crate::Shared<G>) -> R) -> R {
    // Activates the grain if the host did not.
    turn(|_: &mut G| ());
    method(crate::Shared::of_instance()).await
}

#[expect(clippy::panic, reason = "a method cannot run without its grain: a trap is how an instance says so")]
fn started_or_trapped<G: Grain>() -> G {
    start().unwrap_or_else(|error| panic!("the grain could not be activated: {error}"))
}
