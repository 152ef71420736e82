//! A grain's life in the test context: activation, state, migration, logs, and calls that cannot be.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::cell::RefCell;

use granary_guest::DeactivationReason;
use granary_guest::logging::Level;
use granary_guest::prelude::*;
use granary_guest::testing::{Handle, TestContext};
use serde::{Deserialize, Serialize};

use contract::{Notes, NotesRef};

thread_local! {
    /// What the lifecycle saw.
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn seen() -> Vec<String> {
    SEEN.take()
}

#[grain(refs = ["test:life/notes"], wit = "tests/wit/life", lifecycle, migration)]
#[derive(Debug, Default, Serialize, Deserialize)]
struct NotesGrain {
    notes: Persistent<Vec<String>>,
    #[state("count")]
    total: Persistent<u64>,
    volatile: u32,
}

impl Lifecycle for NotesGrain {
    fn activate(&mut self) -> Result<(), String> {
        if context::key() == "refused" {
            return Err("not this one".to_owned());
        }
        SEEN.with_borrow_mut(|seen| seen.push(format!("activate with {} notes", self.notes.len())));
        Ok(())
    }

    fn deactivate(&mut self, reason: DeactivationReason) {
        SEEN.with_borrow_mut(|seen| seen.push(format!("deactivate: {reason:?}")));
    }
}

impl Notes for NotesGrain {
    fn add(&mut self, text: String) -> Result<u32, String> {
        self.volatile += 1;
        log::info!("adding {text}");
        let count = self.notes.update(|notes| {
            notes.push(text);
            notes.len()
        })?;
        *self.total += 1;
        self.total.write()?;
        u32::try_from(count).map_err(|error| error.to_string())
    }

    fn call_yourself(&mut self) -> Result<u32, String> {
        NotesRef::new(context::self_ref()).add("loop").map_err(|error| error.to_string())
    }

    fn call_and_be_called(&mut self, other: String) -> Result<u32, String> {
        if context::key() == other {
            return NotesRef::get("first")?.add("back").map_err(|error| error.to_string());
        }
        NotesRef::get(&other)?.call_and_be_called(&other).map_err(|error| error.to_string())
    }

    fn leave(&mut self) {
        context::deactivate_on_idle();
    }
}

fn start() -> (TestContext, Handle<NotesGrain>) {
    let ctx = TestContext::new();
    let grain = ctx.activate::<NotesGrain>("first").unwrap();
    (ctx, grain)
}

fn add(grain: &Handle<NotesGrain>, text: &str) -> Result<u32, String> {
    grain.call(|grain| grain.add(text.to_owned()))
}

#[test]
fn state_is_read_before_activation_and_kept_by_name() {
    let (ctx, grain) = start();
    assert_eq!(add(&grain, "a"), Ok(1));
    assert_eq!(ctx.stored::<Vec<String>>(grain.grain_ref(), "notes"), Some(vec!["a".to_owned()]));
    assert_eq!(ctx.stored::<u64>(grain.grain_ref(), "count"), Some(1));
    grain.deactivate(DeactivationReason::Idle);
    assert!(!grain.is_active());
    assert_eq!(add(&grain, "b"), Ok(2));
    assert_eq!(seen(), ["activate with 0 notes", "deactivate: Idle", "activate with 1 notes"]);
}

#[test]
fn a_refused_activation_says_why() {
    let ctx = TestContext::new();
    assert_eq!(ctx.activate::<NotesGrain>("refused").unwrap_err(), "not this one");
    ctx.fail_next_read(StateError::Unavailable("down".to_owned()));
    let error = ctx.activate::<NotesGrain>("other").unwrap_err();
    assert_eq!(error, "the store is unavailable: down");
    let error = NotesRef::get("refused").unwrap().add("x").unwrap_err();
    assert_eq!(error, GrainError::Call(CallError::Failed("not this one".to_owned())));
}

#[test]
fn state_of_another_type_is_named() {
    let (ctx, grain) = start();
    grain.kill();
    ctx.put_state(grain.grain_ref(), "notes", &7_u64);
    let error = ctx.activate::<NotesGrain>("first").unwrap_err();
    assert!(error.starts_with("the stored state `notes` cannot be read: "), "{error}");
}

#[test]
fn a_migration_carries_memory_state_and_etags_without_the_store() {
    let (ctx, grain) = start();
    add(&grain, "a").unwrap();
    seen();
    // A read would fail, and the lifecycle would note an activation.
    ctx.fail_next_read(StateError::Unavailable("down".to_owned()));
    grain.migrate().unwrap();
    assert_eq!(grain.call(|grain| (grain.volatile, grain.notes.len())), (1, 1));
    assert_eq!(add(&grain, "b"), Ok(2));
    assert_eq!(seen(), Vec::<String>::new());
}

#[test]
fn a_conflict_ends_the_activation_after_the_turn() {
    let (ctx, grain) = start();
    add(&grain, "a").unwrap();
    ctx.put_state(grain.grain_ref(), "notes", &vec!["other"]);
    let error = add(&grain, "b").unwrap_err();
    assert!(error.starts_with("somebody else wrote the state"), "{error}");
    assert!(!grain.is_active());
    assert_eq!(add(&grain, "b"), Ok(2));
}

#[test]
fn a_failed_write_leaves_memory_as_it_was() {
    let (ctx, grain) = start();
    ctx.fail_next_write(StateError::TooLarge("1 MiB is the limit".to_owned()));
    assert!(add(&grain, "a").is_err());
    assert_eq!(grain.call(|grain| grain.notes.len()), 0);
}

#[test]
fn state_is_cleared_and_read_again() {
    let (ctx, grain) = start();
    add(&grain, "a").unwrap();
    grain.call(|grain| {
        grain.notes.push("only in memory".to_owned());
        grain.notes.reload().unwrap();
        assert_eq!(*grain.notes, ["a"]);
        grain.notes.clear().unwrap();
        assert_eq!((grain.notes.len(), grain.notes.etag()), (0, None));
    });
    assert_eq!(ctx.stored::<Vec<String>>(grain.grain_ref(), "notes"), None);
    assert_eq!(add(&grain, "b"), Ok(1));
}

#[test]
fn a_cycle_of_calls_is_answered_with_the_chain() {
    let (_ctx, grain) = start();
    let error = grain.call(Notes::call_yourself).unwrap_err();
    assert_eq!(error, "deadlock: the call would wait for itself: notes/first");
    let error = grain.call(|grain| grain.call_and_be_called("second".to_owned())).unwrap_err();
    assert!(error.contains("notes/first -> notes/second -> notes/first"), "{error}");
}

#[test]
fn a_grain_may_ask_to_go() {
    let (_ctx, grain) = start();
    seen();
    grain.call(Notes::leave);
    assert!(!grain.is_active());
    assert_eq!(seen(), ["deactivate: ApplicationRequested"]);
}

#[test]
fn records_of_the_log_crate_arrive_with_their_grain() {
    let (ctx, grain) = start();
    add(&grain, "a").unwrap();
    let logs = ctx.logs();
    assert_eq!(logs.len(), 1);
    assert_eq!((logs[0].level, logs[0].message.as_str()), (Level::Info, "adding a"));
    assert_eq!(logs[0].grain.as_ref(), Some(grain.grain_ref()));
}

#[test]
fn events_of_the_tracing_crate_arrive_with_their_spans() {
    let (ctx, grain) = start();
    grain.call(|_grain| {
        let _outer = tracing::info_span!("transfer", amount = 5).entered();
        tracing::warn!(balance = 20, "withdrawn");
        tracing::debug!("not let through");
    });
    let logs = ctx.logs();
    assert_eq!(logs.len(), 1);
    assert_eq!(
        (logs[0].level, logs[0].message.as_str()),
        (Level::Warn, "transfer{amount=5}: withdrawn balance=20")
    );
}

#[test]
fn the_context_answers_for_the_running_grain() {
    let (ctx, grain) = start();
    ctx.set_request_value("tenant", "acme");
    let (key, id, tenant) =
        grain.call(|_| (context::key(), context::activation_id(), context::request_value("tenant")));
    assert_eq!((key.as_str(), id.len(), tenant.as_deref()), ("first", 32, Some("acme")));
    grain.migrate().unwrap();
    assert_ne!(grain.call(|_| context::activation_id()), id);
}

#[test]
fn calls_without_a_context_fail_and_do_not_panic() {
    let error = NotesRef::get("x").unwrap_err();
    assert_eq!(error, CallError::NotDelivered("there is no `TestContext` on this thread".to_owned()));
}

#[test]
fn dynamic_calls_are_answered_by_the_test() {
    let ctx = TestContext::new();
    ctx.on_invoke(|to, method, arguments| Ok(format!("\"{to} {method} {}\"", arguments.len())));
    let to = GrainRef::new("any", "k");
    assert_eq!(granary_guest::invoke(&to, "m", "[1]").unwrap(), "\"any/k m 3\"");
}
