use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use granary_core::hosting::{CallError, GrainClass, LogLevel, TextFormat};

use super::*;
use crate::class::Class;
use crate::testing::{FakeHost, WASI, class, class_with, component};

mod calls;
mod overlap;
mod traps;

/// An activation of a test component, called with JSON.
struct Activation {
    class: Arc<Class>,
    host: Arc<FakeHost>,
    instance: Box<dyn GrainInstance>,
}

impl Activation {
    async fn new(class: Arc<Class>, host: FakeHost) -> Self {
        let host = Arc::new(host);
        let instance = class.instantiate(Arc::clone(&host) as Arc<dyn ActivationHost>).await.unwrap();
        Self { class, host, instance }
    }

    async fn call(&mut self, method: &str, args: &str) -> Result<String, TurnFailure> {
        self.call_in(method, args, TurnContext::default()).await
    }

    async fn call_in(
        &mut self,
        method: &str,
        args: &str,
        context: TurnContext,
    ) -> Result<String, TurnFailure> {
        let method = self.class.method(method).unwrap();
        let args = self.class.args_from_text(&method, TextFormat::Json, args).unwrap();
        let result = self.instance.turn(Turn::Invoke { method: method.clone(), args }, context).await?;
        Ok(self.class.result_to_text(&method, TextFormat::Json, &result).unwrap())
    }

    async fn turn(&mut self, turn: Turn) -> Result<Vec<u8>, TurnFailure> {
        self.instance.turn(turn, TurnContext::default()).await
    }
}

fn trapped(outcome: Result<String, TurnFailure>) -> (TrapKind, String) {
    match outcome {
        Err(TurnFailure::Trapped { kind, message }) => (kind, message),
        other => panic!("not a trap: {other:?}"),
    }
}

const HOOKS: &str = r#"(module
  (memory (export "memory") 4)
  (global $top (mut i32) (i32.const 4096))
  (global $state (mut i32) (i32.const 0))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    global.get $top global.get $top local.get 3 i32.add global.set $top)
  (data (i32.const 16) "not today")
  (func (export "acme:h/h#set") (param i32) local.get 0 global.set $state)
  (func (export "acme:h/h#get") (result i32) global.get $state)
  ;; result<_, string>: ok while the state is 0
  (func (export "granary:grain/lifecycle@0.1.0#activate") (result i32)
    (i32.store8 (i32.const 64) (i32.ne (global.get $state) (i32.const 0)))
    (i32.store (i32.const 68) (i32.const 16))
    (i32.store (i32.const 72) (i32.const 9))
    i32.const 64)
  (func (export "granary:grain/lifecycle@0.1.0#deactivate") (param i32)
    local.get 0 i32.const 100 i32.add global.set $state)
  ;; result<list<u8>, string>: four bytes
  (func (export "granary:grain/migration@0.1.0#dehydrate") (result i32)
    (i32.store (i32.const 32) (global.get $state))
    (i32.store8 (i32.const 64) (i32.const 0))
    (i32.store (i32.const 68) (i32.const 32))
    (i32.store (i32.const 72) (i32.const 4))
    i32.const 64)
  (func (export "granary:grain/migration@0.1.0#rehydrate") (param i32 i32) (result i32)
    (global.set $state (i32.load (local.get 0)))
    (i32.store8 (i32.const 64) (i32.ne (local.get 1) (i32.const 4)))
    (i32.store (i32.const 68) (i32.const 16))
    (i32.store (i32.const 72) (i32.const 9))
    i32.const 64)
)"#;

const HOOKS_WIT: &str = "package acme:h; interface h { set: func(to: u32); get: func() -> u32; }
    world w { export h; export granary:grain/lifecycle@0.1.0; export granary:grain/migration@0.1.0; }";

#[tokio::test]
async fn a_grain_takes_part_in_its_own_life() {
    let (class, _) = class(&component(HOOKS_WIT, HOOKS));
    let mut one = Activation::new(Arc::clone(&class), FakeHost::new()).await;
    assert_eq!(one.turn(Turn::Activate).await, Ok(Vec::new()));
    one.call("set", "[42]").await.unwrap();
    // The guest's own error is an answer, after which it goes on.
    assert_eq!(one.turn(Turn::Activate).await, Err(TurnFailure::Refused("not today".to_owned())));
    let state = one.turn(Turn::Dehydrate).await.unwrap();
    assert_eq!(state, [42, 0, 0, 0]);

    let mut two = Activation::new(class, FakeHost::new()).await;
    two.turn(Turn::Rehydrate(state)).await.unwrap();
    assert_eq!(two.call("get", "[]").await.unwrap(), "42");
    let error = two.turn(Turn::Rehydrate(vec![1, 2])).await.unwrap_err();
    assert!(matches!(error, TurnFailure::Refused(_)), "{error}");
    two.turn(Turn::Deactivate(DeactivationReason::Migrating)).await.unwrap();
    assert_eq!(two.call("get", "[]").await.unwrap(), "103");
}

#[tokio::test]
async fn hooks_that_are_not_exported_do_nothing() {
    let wit = "package acme:h; interface h { f: func(); } world w { export h; }";
    let (class, _) = class(&component(wit, r#"(module (func (export "acme:h/h#f")))"#));
    let mut grain = Activation::new(class, FakeHost::new()).await;
    assert_eq!(grain.turn(Turn::Activate).await, Ok(Vec::new()));
    assert_eq!(grain.turn(Turn::Deactivate(DeactivationReason::Idle)).await, Ok(Vec::new()));
    assert!(matches!(grain.turn(Turn::Dehydrate).await, Err(TurnFailure::BadRequest(_))));
    assert_eq!(grain.call("f", "[]").await.unwrap(), "null");
}

#[tokio::test]
async fn a_call_of_another_type_runs_nothing() {
    let (class, _) = class(&component(HOOKS_WIT, HOOKS));
    let mut grain = Activation::new(Arc::clone(&class), FakeHost::new()).await;
    let method = class.method("h.set").unwrap();
    let mut other = method.clone();
    other.hash.0[0] ^= 1;
    for (method, args) in
        [(other, vec![1, 0, 0, 0]), (method.clone(), vec![1]), (method, vec![1, 0, 0, 0, 0])]
    {
        let error = grain.turn(Turn::Invoke { method, args }).await.unwrap_err();
        assert!(matches!(error, TurnFailure::BadRequest(_)), "{error:?}");
    }
    assert_eq!(grain.call("get", "[]").await.unwrap(), "0");
    // A one-way call carries the hash of the parameters, and is the same method.
    let info = class.info().interfaces[0].methods["set"].params_hash;
    let method = MethodRef { hash: info, ..class.method("set").unwrap() };
    grain.turn(Turn::Invoke { method, args: vec![9, 0, 0, 0] }).await.unwrap();
    assert_eq!(grain.call("get", "[]").await.unwrap(), "9");
}
