//! The inside of the test context: activations, turns, and the calls between them.
//!
//! Every borrow of a cell ends before a grain's code runs, so that grains may call the context at any time.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::grain::Grain;
use crate::logging::Level;
use crate::state::StateError;
use crate::types::{CallError, DeactivationReason, GrainRef};

use super::body::{Body, TypedBody};
use super::store::Store;
use super::{LogLine, wire};

/// One-way calls that may follow from one call of the test; more are an endless loop.
const SENDS_MAX: usize = 10_000;

thread_local! {
    /// The contexts of this thread; the last is in charge.
    static CONTEXTS: RefCell<Vec<Rc<Env>>> = const { RefCell::new(Vec::new()) };
}

/// What a grain asked for, to be done after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Deactivate,
    Migrate,
}

/// What happens to a call instead.
pub(crate) enum Fault {
    Fail(CallError),
    LoseReply,
}

/// One life of a grain.
struct Activation {
    grain: GrainRef,
    id: String,
    body: RefCell<Option<Rc<dyn Body>>>,
    request: Cell<Option<Request>>,
}

type Make = Box<dyn Fn() -> Result<Rc<dyn Body>, String>>;
type Answer = Box<dyn Fn(&str, &[u8]) -> Result<Vec<u8>, CallError>>;
type AnswerInvoke = Box<dyn Fn(&GrainRef, &str, &str) -> Result<String, CallError>>;

struct Sent {
    to: GrainRef,
    interface: String,
    method: String,
    arguments: Vec<u8>,
}

/// All that a context has.
#[derive(Default)]
pub(crate) struct Env {
    makers: RefCell<BTreeMap<String, Rc<Make>>>,
    grain_types: RefCell<BTreeMap<String, String>>,
    answers: RefCell<BTreeMap<(String, String), Rc<Answer>>>,
    on_invoke: RefCell<Option<Rc<AnswerInvoke>>>,
    activations: RefCell<BTreeMap<GrainRef, Rc<Activation>>>,
    activations_made: Cell<u64>,
    /// The turns that run, each called by the one before.
    turns: RefCell<Vec<Rc<Activation>>>,
    faults: RefCell<Vec<(String, String, Fault)>>,
    sent: RefCell<VecDeque<Sent>>,
    store: RefCell<Store>,
    request_values: RefCell<BTreeMap<String, String>>,
    logs: RefCell<Vec<LogLine>>,
}

impl Env {
    pub(crate) fn served(&self) -> Vec<String> {
        self.makers.borrow().keys().cloned().collect()
    }

    pub(crate) fn serves(&self, grain_type: &str) -> bool {
        self.makers.borrow().contains_key(grain_type)
    }

    pub(crate) fn serve(&self, grain_type: &str, interfaces: &[&str], make: Make) {
        self.makers.borrow_mut().insert(grain_type.to_owned(), Rc::new(make));
        for interface in interfaces {
            self.name(interface, grain_type);
        }
    }

    /// The first grain type of an interface stays its default.
    fn name(&self, interface: &str, grain_type: &str) {
        self.grain_types.borrow_mut().entry(interface.to_owned()).or_insert_with(|| grain_type.to_owned());
    }

    pub(crate) fn mock(&self, interface: &str, grain_type: &str, method: &str, answer: Answer) {
        self.name(interface, grain_type);
        self.answers.borrow_mut().insert((grain_type.to_owned(), method.to_owned()), Rc::new(answer));
    }

    pub(crate) fn on_invoke(&self, answer: AnswerInvoke) {
        self.on_invoke.replace(Some(Rc::new(answer)));
    }

    pub(crate) fn add_fault(&self, grain_type: &str, method: &str, fault: Fault) {
        self.faults.borrow_mut().push((grain_type.to_owned(), method.to_owned(), fault));
    }

    pub(crate) fn store(&self) -> RefMut<'_, Store> {
        self.store.borrow_mut()
    }

    pub(crate) fn set_request_value(&self, key: &str, value: &str) {
        self.request_values.borrow_mut().insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn logs(&self) -> Vec<LogLine> {
        self.logs.borrow().clone()
    }

    pub(crate) fn is_active(&self, grain: &GrainRef) -> bool {
        self.activations.borrow().contains_key(grain)
    }

    pub(crate) fn forget(&self, grain: &GrainRef) {
        self.activations.borrow_mut().remove(grain);
    }

    pub(crate) fn deadlock(&self, grain: &GrainRef) -> CallError {
        let mut chain: Vec<String> = self.turns.borrow().iter().map(|it| it.grain.to_string()).collect();
        if chain.last() != Some(&grain.to_string()) {
            chain.push(grain.to_string());
        }
        CallError::Deadlock(chain)
    }

    /// The activation of a grain, made when there is none.
    pub(crate) fn activation(&self, grain: &GrainRef) -> Result<(), CallError> {
        self.active(grain).map(drop)
    }

    fn active(&self, grain: &GrainRef) -> Result<Rc<Activation>, CallError> {
        if let Some(activation) = self.activations.borrow().get(grain) {
            return Ok(Rc::clone(activation));
        }
        let make = self.makers.borrow().get(&grain.grain_type).cloned().ok_or_else(|| {
            CallError::NotFound(format!(
                "the test context does not serve grain type `{}`, only {:?}; see `TestContext::serve`",
                grain.grain_type,
                self.served()
            ))
        })?;
        let activation = self.new_activation(grain, None);
        let body = self.within(&activation, || make()).map_err(CallError::Failed)?;
        activation.body.replace(Some(body));
        self.activations.borrow_mut().insert(grain.clone(), Rc::clone(&activation));
        Ok(activation)
    }

    fn new_activation(&self, grain: &GrainRef, body: Option<Rc<dyn Body>>) -> Rc<Activation> {
        let number = self.activations_made.get() + 1;
        self.activations_made.set(number);
        Rc::new(Activation {
            grain: grain.clone(),
            id: format!("{number:032x}"),
            body: RefCell::new(body),
            request: Cell::default(),
        })
    }

    /// Runs code as a turn of this activation.
    fn within<R>(&self, activation: &Rc<Activation>, code: impl FnOnce() -> R) -> R {
        /// Ends the turn, also when the grain panics.
        struct Turn<'a>(&'a RefCell<Vec<Rc<Activation>>>);

        impl Drop for Turn<'_> {
            fn drop(&mut self) {
                self.0.borrow_mut().pop();
            }
        }

        self.turns.borrow_mut().push(Rc::clone(activation));
        let _turn = Turn(&self.turns);
        code()
    }

    /// Runs a turn of a grain, and then what it asked for.
    pub(crate) fn turn<R>(
        &self,
        grain: &GrainRef,
        code: impl FnOnce(&dyn Body) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        let activation = self.active(grain)?;
        let body = activation.body.borrow().clone().ok_or_else(|| self.deadlock(grain))?;
        let result = self.within(&activation, || code(&*body));
        match activation.request.take() {
            Some(Request::Deactivate) => self.deactivate(grain, DeactivationReason::ApplicationRequested),
            Some(Request::Migrate) => {
                if let Some(moved) = self.within(&activation, || body.moved()) {
                    self.replace(&activation, moved).map_err(CallError::Failed)?;
                }
            }
            None => {}
        }
        if self.turns.borrow().is_empty() {
            self.deliver_sent();
        }
        result
    }

    fn replace(&self, activation: &Activation, moved: Result<Rc<dyn Body>, String>) -> Result<(), String> {
        let moved = self.new_activation(&activation.grain, Some(moved?));
        self.activations.borrow_mut().insert(moved.grain.clone(), moved);
        Ok(())
    }

    pub(crate) fn migrate(&self, grain: &GrainRef) -> Result<(), String> {
        let (activation, body) = self.existing(grain)?;
        let moved = self.within(&activation, || body.moved()).ok_or(NO_MIGRATION)?;
        self.replace(&activation, moved)
    }

    pub(crate) fn dehydrate<G: Grain>(&self, grain: &GrainRef) -> Result<Vec<u8>, String> {
        let (activation, body) = self.existing(grain)?;
        let body = body.as_any().downcast_ref::<TypedBody<G>>().ok_or("the grain is of another type")?;
        self.within(&activation, || body.memory()).ok_or(NO_MIGRATION)?
    }

    fn existing(&self, grain: &GrainRef) -> Result<(Rc<Activation>, Rc<dyn Body>), String> {
        let activation = self.activations.borrow().get(grain).cloned().ok_or("the grain is not active")?;
        let body = activation.body.borrow().clone().ok_or("the grain is being activated")?;
        Ok((activation, body))
    }

    pub(crate) fn deactivate(&self, grain: &GrainRef, reason: DeactivationReason) {
        let Ok((activation, body)) = self.existing(grain) else { return };
        self.within(&activation, || body.deactivate(reason));
        self.forget(grain);
    }

    fn call(
        &self,
        to: &GrainRef,
        interface: &str,
        method: &str,
        arguments: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        let fault = {
            let mut faults = self.faults.borrow_mut();
            let place = faults.iter().position(|(of, name, _)| *of == to.grain_type && name == method);
            place.map(|place| faults.remove(place).2)
        };
        match fault {
            Some(Fault::Fail(error)) => return Err(error),
            Some(Fault::LoseReply) => {
                self.run(to, interface, method, arguments)?;
                return Err(CallError::UnknownOutcome("the reply was lost".to_owned()));
            }
            None => {}
        }
        self.run(to, interface, method, arguments)
    }

    fn run(
        &self,
        to: &GrainRef,
        interface: &str,
        method: &str,
        arguments: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        let answer = self.answers.borrow().get(&(to.grain_type.clone(), method.to_owned())).cloned();
        if let Some(answer) = answer {
            return answer(&to.key, arguments);
        }
        if self.turns.borrow().iter().any(|turn| turn.grain == *to) {
            return Err(self.deadlock(to));
        }
        self.turn(to, |body| {
            body.serve(interface, method, arguments).unwrap_or_else(|| Err(self.deadlock(to)))
        })
    }

    fn deliver_sent(&self) {
        for _ in 0..SENDS_MAX {
            let Some(Sent { to, interface, method, arguments }) = self.sent.borrow_mut().pop_front() else {
                return;
            };
            if let Err(error) = self.call(&to, &interface, &method, &arguments) {
                // Nobody waits for the answer; the silo logs it, and so does the test context.
                self.log(Level::Warn, "granary", &format!("one-way call of {to} {method}: {error}"));
            }
        }
    }

    fn log(&self, level: Level, target: &str, message: &str) {
        let grain = self.turns.borrow().last().map(|turn| turn.grain.clone());
        let line = LogLine { grain, level, target: target.to_owned(), message: message.to_owned() };
        self.logs.borrow_mut().push(line);
    }
}

const NO_MIGRATION: &str = "the grain does not carry its memory: add `migration` to its attribute";

/// Puts a new context in charge of this thread.
pub(crate) fn install() -> Rc<Env> {
    let env = Rc::new(Env::default());
    CONTEXTS.with_borrow_mut(|contexts| contexts.push(Rc::clone(&env)));
    env
}

pub(crate) fn uninstall(env: &Rc<Env>) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.retain(|it| !Rc::ptr_eq(it, env)));
}

fn current() -> Option<Rc<Env>> {
    CONTEXTS.with_borrow(|contexts| contexts.last().cloned())
}

fn current_or_error() -> Result<Rc<Env>, CallError> {
    current().ok_or_else(|| CallError::NotDelivered("there is no `TestContext` on this thread".to_owned()))
}

/// For tests: a failure ends the test with what was expected.
#[expect(clippy::panic, reason = "this is how a test says that it is wrong")]
pub(crate) fn or_panic<T, E: fmt::Display>(result: Result<T, E>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}

pub(crate) fn resolve(interface: &str, key: &str) -> Result<GrainRef, CallError> {
    let env = current_or_error()?;
    let types = env.grain_types.borrow();
    match types.get(interface) {
        Some(grain_type) => Ok(GrainRef::new(grain_type, key)),
        None => Err(CallError::NotFound(format!(
            "the test context has no grain type for `{interface}`; see `TestContext::serve`"
        ))),
    }
}

pub(crate) fn call<A: Serialize, R: DeserializeOwned>(
    to: &GrainRef,
    interface: &str,
    method: &str,
    arguments: &A,
) -> Result<R, CallError> {
    wire::decode(&current_or_error()?.call(to, interface, method, &wire::encode(arguments)?)?)
}

/// Delivered when no turn is running any more.
pub(crate) fn send<A: Serialize>(
    to: &GrainRef,
    interface: &str,
    method: &str,
    arguments: &A,
) -> Result<(), CallError> {
    let env = current_or_error()?;
    let sent = Sent {
        to: to.clone(),
        interface: interface.to_owned(),
        method: method.to_owned(),
        arguments: wire::encode(arguments)?,
    };
    env.sent.borrow_mut().push_back(sent);
    if env.turns.borrow().is_empty() {
        env.deliver_sent();
    }
    Ok(())
}

pub(crate) fn invoke(to: &GrainRef, method: &str, arguments: &str) -> Result<String, CallError> {
    let answer = current_or_error()?.on_invoke.borrow().clone().ok_or_else(|| {
        CallError::NotFound("nothing answers dynamic calls; see `TestContext::on_invoke`".to_owned())
    })?;
    answer(to, method, arguments)
}

/// Runs an action on the store for the grain whose turn it is; a conflict ends the activation after the turn.
fn with_store<R>(
    action: impl FnOnce(&mut Store, &GrainRef) -> Result<R, StateError>,
) -> Result<R, StateError> {
    let env = current().ok_or(StateError::NotActive)?;
    let turn = env.turns.borrow().last().cloned().ok_or(StateError::NotActive)?;
    let result = action(&mut env.store.borrow_mut(), &turn.grain);
    if matches!(result, Err(StateError::Conflict(_))) {
        turn.request.set(Some(Request::Deactivate));
    }
    result
}

pub(crate) fn read_state(name: &str) -> Result<Option<(Vec<u8>, String)>, StateError> {
    with_store(|store, grain| store.try_read(grain, name))
}

pub(crate) fn write_state(name: &str, value: &[u8], expected: Option<&str>) -> Result<String, StateError> {
    with_store(|store, grain| store.try_write(grain, name, value, expected))
}

pub(crate) fn clear_state(name: &str, expected: Option<&str>) -> Result<(), StateError> {
    with_store(|store, grain| store.try_clear(grain, name, expected))
}

/// Kept by the context in charge; without one, lines go to standard error.
pub(crate) fn log(level: Level, target: &str, message: &str) {
    match current() {
        Some(env) => env.log(level, target, message),
        None => eprintln!("{level:?} {target}: {message}"),
    }
}

pub(crate) fn running_grain() -> Option<GrainRef> {
    current()?.turns.borrow().last().map(|turn| turn.grain.clone())
}

pub(crate) fn running_activation() -> Option<String> {
    current()?.turns.borrow().last().map(|turn| turn.id.clone())
}

pub(crate) fn request_value(key: &str) -> Option<String> {
    current()?.request_values.borrow().get(key).cloned()
}

pub(crate) fn request(request: Request) {
    if let Some(turn) = current().and_then(|env| env.turns.borrow().last().cloned()) {
        turn.request.set(Some(request));
    }
}
