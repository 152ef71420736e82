//! What an activation runs: a real grain, or a stand-in.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use crate::grain::{self, Grain};
use crate::types::{CallError, DeactivationReason};

use super::ServeStandIn;

/// What an activation runs.
pub(crate) trait Body {
    fn serve(&self, interface: &str, method: &str, arguments: &[u8]) -> Option<Result<Vec<u8>, CallError>>;
    fn deactivate(&self, reason: DeactivationReason);
    /// A new body that goes on with the memory of this one, when it carries its memory.
    fn moved(&self) -> Option<Result<Rc<dyn Body>, String>>;
    fn as_any(&self) -> &dyn Any;
}

/// A real grain.
pub(crate) struct TypedBody<G>(RefCell<G>);

impl<G: Grain> TypedBody<G> {
    pub(crate) fn start() -> Result<Self, String> {
        Ok(Self(RefCell::new(grain::start()?)))
    }

    pub(crate) fn cell(&self) -> &RefCell<G> {
        &self.0
    }

    /// The memory to carry, when the grain carries its memory.
    pub(crate) fn memory(&self) -> Option<Result<Vec<u8>, String>> {
        self.0
            .try_borrow()
            .map_or_else(|_| Some(Err("a turn is running".to_owned())), |grain| grain.__dehydrate())
    }
}

impl<G: Grain> Body for TypedBody<G> {
    fn serve(&self, interface: &str, method: &str, arguments: &[u8]) -> Option<Result<Vec<u8>, CallError>> {
        Some(self.0.try_borrow_mut().ok()?.__serve(interface, method, arguments))
    }

    fn deactivate(&self, reason: DeactivationReason) {
        if let Ok(mut grain) = self.0.try_borrow_mut() {
            grain.__deactivate(reason);
        }
    }

    fn moved(&self) -> Option<Result<Rc<dyn Body>, String>> {
        Some(self.memory()?.and_then(|memory| {
            let body: Rc<dyn Body> = Rc::new(Self(RefCell::new(grain::resume(&memory)?)));
            Ok(body)
        }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A stand-in for one interface.
pub(crate) struct StandIn {
    interface: &'static str,
    body: RefCell<ServeStandIn>,
}

impl StandIn {
    pub(crate) fn new(interface: &'static str, body: ServeStandIn) -> Self {
        Self { interface, body: RefCell::new(body) }
    }
}

impl Body for StandIn {
    fn serve(&self, interface: &str, method: &str, arguments: &[u8]) -> Option<Result<Vec<u8>, CallError>> {
        if interface != self.interface {
            return Some(Err(CallError::NotFound(format!("the stand-in has no interface `{interface}`"))));
        }
        Some((self.body.try_borrow_mut().ok()?)(method, arguments))
    }

    fn deactivate(&self, _reason: DeactivationReason) {}

    fn moved(&self) -> Option<Result<Rc<dyn Body>, String>> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
