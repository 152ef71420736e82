//! The asynchronous engine: turns beside each other, several calls at once, and their ends.

use std::sync::atomic::Ordering;
use std::task::Poll;

use granary_core::hosting::{MethodRef, OverlappingTurns};
use granary_core::id::GrainId;
use tokio::sync::Semaphore;

use super::*;
use crate::state::OUTGOING_CALLS_MAX;

const WIT: &str = "package acme:x;
package acme:b-refs@1.0.0 {
    interface b-async {
        use granary:grain/types@0.1.0.{grain-ref, call-error};
        wait: async func(to: grain-ref, n: u64) -> result<u64, call-error>;
    }
}
interface x {
    slow: async func() -> u64;
    fan: async func(n: u64) -> u64;
    leave: async func() -> u64;
    boom: async func();
    spin: async func();
    plain: func() -> u64;
}
world w { import acme:b-refs/b-async@1.0.0; export x; }";

/// `slow` awaits one call, `fan` as many as it is told; both return the most turns that ran at once. `leave` returns
/// first, and then waits for a call. `plain` returns how many turns are running.
const CORE: &str = r#"(module
  (import "acme:b-refs/b-async@1.0.0" "[async-lower]wait" (func $wait (param i32 i32) (result i32)))
  (import "[export]acme:x/x" "[task-return]slow" (func $return-slow (param i64)))
  (import "[export]acme:x/x" "[task-return]fan" (func $return-fan (param i64)))
  (import "[export]acme:x/x" "[task-return]leave" (func $return-leave (param i64)))
  (import "$root" "[context-get-0]" (func $context-get (result i32)))
  (import "$root" "[context-set-0]" (func $context-set (param i32)))
  (import "$root" "[waitable-set-new]" (func $set-new (result i32)))
  (import "$root" "[waitable-set-drop]" (func $set-drop (param i32)))
  (import "$root" "[waitable-join]" (func $join (param i32 i32)))
  (import "$root" "[subtask-drop]" (func $subtask-drop (param i32)))
  (memory (export "memory") 4)
  (data (i32.const 16) "bk")
  (global $top (mut i32) (i32.const 4096))
  (global $in (mut i64) (i64.const 0))
  (global $most (mut i64) (i64.const 0))
  (func $alloc (param i32) (result i32)
    global.get $top
    global.get $top local.get 0 i32.const 7 i32.add i32.const -8 i32.and i32.add global.set $top)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (call $alloc (local.get 3)))
  (func $enter
    (global.set $in (i64.add (global.get $in) (i64.const 1)))
    (if (i64.gt_u (global.get $in) (global.get $most)) (then (global.set $most (global.get $in)))))
  (func $exit (global.set $in (i64.sub (global.get $in) (i64.const 1))))
  ;; Starts calls, and returns what it waits with: a set, and how many are in it.
  (func $start (param $calls i64) (result i32) (local $task i32) (local $call i32) (local $status i32)
    (local.set $task (call $alloc (i32.const 8)))
    (i32.store (local.get $task) (call $set-new))
    (block $done (loop $next
      (br_if $done (i64.eqz (local.get $calls)))
      (local.set $calls (i64.sub (local.get $calls) (i64.const 1)))
      (local.set $call (call $alloc (i32.const 64)))
      (i32.store (local.get $call) (i32.const 16))
      (i32.store offset=4 (local.get $call) (i32.const 1))
      (i32.store offset=8 (local.get $call) (i32.const 17))
      (i32.store offset=12 (local.get $call) (i32.const 1))
      (i64.store offset=16 (local.get $call) (local.get $calls))
      (local.set $status (call $wait (local.get $call) (i32.add (local.get $call) (i32.const 24))))
      (if (i32.ne (i32.and (local.get $status) (i32.const 15)) (i32.const 2)) (then
        (call $join (i32.shr_u (local.get $status) (i32.const 4)) (i32.load (local.get $task)))
        (i32.store offset=4 (local.get $task)
          (i32.add (i32.load offset=4 (local.get $task)) (i32.const 1)))))
      (br $next)))
    (call $context-set (local.get $task))
    local.get $task)
  ;; What to return to the host: done, or wait.
  (func $code (param $task i32) (result i32)
    (if (result i32) (i32.load offset=4 (local.get $task))
      (then (i32.or (i32.shl (i32.load (local.get $task)) (i32.const 4)) (i32.const 2)))
      (else (call $set-drop (i32.load (local.get $task))) (i32.const 0))))
  (func $one-ended (param $subtask i32) (result i32) (local $task i32)
    (local.set $task (call $context-get))
    (call $subtask-drop (local.get $subtask))
    (i32.store offset=4 (local.get $task)
      (i32.sub (i32.load offset=4 (local.get $task)) (i32.const 1)))
    (call $code (local.get $task)))
  (func $slow-goes-on (param $code i32) (result i32)
    (if (i32.eqz (local.get $code)) (then (call $exit) (call $return-slow (global.get $most))))
    local.get $code)
  (func $fan-goes-on (param $code i32) (result i32)
    (if (i32.eqz (local.get $code)) (then (call $exit) (call $return-fan (global.get $most))))
    local.get $code)
  (func (export "[async-lift]acme:x/x#slow") (result i32)
    (call $enter)
    (call $slow-goes-on (call $code (call $start (i64.const 1)))))
  (func (export "[callback][async-lift]acme:x/x#slow") (param i32 i32 i32) (result i32)
    (call $slow-goes-on (call $one-ended (local.get 1))))
  (func (export "[async-lift]acme:x/x#fan") (param i64) (result i32)
    (call $enter)
    (call $fan-goes-on (call $code (call $start (local.get 0)))))
  (func (export "[callback][async-lift]acme:x/x#fan") (param i32 i32 i32) (result i32)
    (call $fan-goes-on (call $one-ended (local.get 1))))
  (func (export "[async-lift]acme:x/x#leave") (result i32) (local $task i32)
    (local.set $task (call $start (i64.const 1)))
    (call $return-leave (i64.const 7))
    (call $code (local.get $task)))
  (func (export "[callback][async-lift]acme:x/x#leave") (param i32 i32 i32) (result i32)
    (call $one-ended (local.get 1)))
  (func (export "[async-lift]acme:x/x#boom") (result i32) unreachable)
  (func (export "[callback][async-lift]acme:x/x#boom") (param i32 i32 i32) (result i32) unreachable)
  (func (export "[async-lift]acme:x/x#spin") (result i32) (loop $again (br $again)) unreachable)
  (func (export "[callback][async-lift]acme:x/x#spin") (param i32 i32 i32) (result i32) unreachable)
  (func (export "acme:x/x#plain") (result i64) (global.get $in))
)"#;

/// A host whose calls wait until they are let go.
fn gated() -> FakeHost {
    let mut host = FakeHost::answering(|call| Ok(call.args.clone()));
    host.gate = Some(Semaphore::new(0));
    host
}

async fn activation(reentrant: bool) -> Activation {
    let properties = BTreeMap::from([
        ("reentrant".to_owned(), reentrant.to_string()),
        ("granary.turn-cpu-max".to_owned(), "50ms".to_owned()),
    ]);
    let (class, _) = class_with(&component(WIT, CORE), &properties);
    assert!(class.info().asynchronous);
    assert_eq!(class.info().reentrant, reentrant);
    Activation::new(class, gated()).await
}

impl FakeHost {
    fn release(&self, calls: usize) {
        self.gate.as_ref().unwrap().add_permits(calls);
    }

    async fn wait_for(&self, calls: usize) {
        let all = async {
            while self.waiting.load(Ordering::SeqCst) != calls {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), all).await;
        waited.unwrap_or_else(|_| panic!("{} calls wait, not {calls}", self.waiting.load(Ordering::SeqCst)));
    }
}

/// A method without arguments, beside others.
struct Beside {
    class: Arc<Class>,
    turns: Arc<dyn OverlappingTurns>,
}

impl Beside {
    fn method(&self, name: &str) -> MethodRef {
        self.class.method(name).unwrap()
    }

    fn start(&self, name: &str) -> BoxFuture<'static, Result<Vec<u8>, TurnFailure>> {
        self.turns.start(self.method(name), Vec::new(), TurnContext::default())
    }
}

fn number(outcome: Result<Vec<u8>, TurnFailure>) -> u64 {
    u64::from_le_bytes(outcome.unwrap().try_into().unwrap())
}

#[tokio::test]
async fn the_turns_of_a_reentrant_instance_overlap_and_end_one_by_one() {
    let mut it = activation(true).await;
    let host = Arc::clone(&it.host);
    let Overlap { turns, driver } = it.instance.overlap().unwrap();
    let beside = Beside { class: Arc::clone(&it.class), turns };
    let calls = async {
        let slow: Vec<_> = (0..5).map(|_| beside.start("slow")).collect();
        host.wait_for(5).await;
        assert_eq!(number(beside.start("plain").await), 5, "a synchronous method runs in between");
        host.release(1);
        host.wait_for(4).await;
        host.release(4);
        for turn in slow {
            assert_eq!(number(turn.await), 5);
        }
        drop(beside);
    };
    let ((), ended) = tokio::join!(calls, driver);
    ended.unwrap();
    // The instance is sound, and takes turns that run alone again.
    assert_eq!(it.call("plain", "[]").await.unwrap(), "0");
    let Overlap { turns, driver } = it.instance.overlap().unwrap();
    drop(turns);
    assert_eq!(driver.await, Ok(()), "nothing was started");
}

#[tokio::test]
async fn each_overlapping_turn_calls_in_its_own_chain() {
    let mut it = activation(true).await;
    let host = Arc::clone(&it.host);
    let Overlap { turns, driver } = it.instance.overlap().unwrap();
    let beside = Beside { class: Arc::clone(&it.class), turns };
    let chains: Vec<Vec<GrainId>> =
        ["a/1", "b/2", "c/3"].iter().map(|name| vec![name.parse().unwrap()]).collect();
    let calls = async {
        let start = |chain: &Vec<GrainId>| {
            let context = TurnContext { chain: chain.clone(), ..TurnContext::default() };
            beside.turns.start(beside.method("slow"), Vec::new(), context)
        };
        let running: Vec<_> = chains.iter().map(start).collect();
        host.wait_for(3).await;
        host.release(3);
        for turn in running {
            turn.await.unwrap();
        }
        drop(beside);
    };
    let ((), ended) = tokio::join!(calls, driver);
    ended.unwrap();
    let mut seen: Vec<_> =
        it.host.calls.lock().unwrap().iter().map(|call| call.context.chain.clone()).collect();
    seen.sort();
    assert_eq!(seen, chains);
}

#[tokio::test]
async fn a_trap_ends_the_instance_and_every_overlapping_turn_hears_why() {
    for (method, kind) in [("boom", TrapKind::Panic), ("spin", TrapKind::CpuBudget)] {
        let mut it = activation(true).await;
        let host = Arc::clone(&it.host);
        let Overlap { turns, driver } = it.instance.overlap().unwrap();
        let beside = Beside { class: Arc::clone(&it.class), turns };
        let calls = async {
            let mut running: Vec<_> = (0..3).map(|_| beside.start("slow")).collect();
            host.wait_for(3).await;
            running.push(beside.start(method));
            let mut failures = Vec::new();
            for turn in running {
                failures.push(turn.await.unwrap_err());
            }
            let late = beside.start("plain").await.unwrap_err();
            assert!(late.to_string().contains("ended in an earlier turn"), "{late}");
            failures
        };
        let (failures, ended) = tokio::join!(calls, driver);
        let first = ended.unwrap_err();
        assert!(matches!(&first, TurnFailure::Trapped { kind: it, .. } if *it == kind), "{method}: {first}");
        assert!(failures.iter().all(|failure| *failure == first), "{failures:?}");
        let (_, message) = trapped(it.call("plain", "[]").await);
        assert!(message.contains("ended in an earlier turn"), "{message}");
        assert!(it.instance.overlap().unwrap().driver.await.is_err(), "nor does it overlap again");
    }
}

#[tokio::test]
async fn a_dropped_driver_ends_the_instance_and_its_turns() {
    let mut it = activation(true).await;
    let host = Arc::clone(&it.host);
    let Overlap { turns, mut driver } = it.instance.overlap().unwrap();
    let turn = Beside { class: Arc::clone(&it.class), turns }.start("slow");
    tokio::select! {
        _ = &mut driver => panic!("the driver waits for the turn"),
        () = host.wait_for(1) => {}
    }
    drop(driver);
    assert!(matches!(turn.await, Err(TurnFailure::Trapped { .. })));
    assert!(it.call("plain", "[]").await.is_err());
}

#[tokio::test]
async fn bad_orders_are_refused_and_the_others_go_on() {
    let mut it = activation(true).await;
    let Overlap { turns, driver } = it.instance.overlap().unwrap();
    let beside = Beside { class: Arc::clone(&it.class), turns };
    let calls = async {
        let arguments = beside.turns.start(beside.method("fan"), vec![1], TurnContext::default()).await;
        assert!(matches!(arguments, Err(TurnFailure::BadRequest(_))), "{arguments:?}");
        let unknown = MethodRef { method: "gone".into(), ..beside.method("fan") };
        let unknown = beside.turns.start(unknown, Vec::new(), TurnContext::default()).await;
        assert!(matches!(unknown, Err(TurnFailure::BadRequest(_))), "{unknown:?}");
        assert_eq!(number(beside.start("plain").await), 0);
        drop(beside);
    };
    let ((), ended) = tokio::join!(calls, driver);
    ended.unwrap();
}

#[tokio::test]
async fn a_turn_awaits_several_calls_at_once_also_where_turns_do_not_overlap() {
    let mut it = activation(false).await;
    assert!(it.instance.overlap().is_none());
    let host = Arc::clone(&it.host);
    let (most, ()) = tokio::join!(it.call("fan", "[10]"), async {
        host.wait_for(10).await;
        host.release(10);
    });
    assert_eq!(most.unwrap(), "1");
    assert_eq!(it.host.calls.lock().unwrap().len(), 10);
}

#[tokio::test]
async fn calls_beyond_the_bound_are_overloaded_and_trap_nothing() {
    let mut it = activation(false).await;
    let host = Arc::clone(&it.host);
    let (most, ()) = tokio::join!(it.call("fan", "[300]"), async {
        host.wait_for(OUTGOING_CALLS_MAX).await;
        host.release(OUTGOING_CALLS_MAX);
    });
    assert_eq!(most.unwrap(), "1");
    assert_eq!(it.host.calls.lock().unwrap().len(), OUTGOING_CALLS_MAX);
    host.release(1);
    assert_eq!(it.call("slow", "[]").await.unwrap(), "1", "the permits came back");
}

#[tokio::test]
async fn a_turn_ends_when_what_it_left_running_has_ended() {
    let mut it = activation(false).await;
    let host = Arc::clone(&it.host);
    let mut turn = Box::pin(it.call("leave", "[]"));
    tokio::select! {
        result = &mut turn => panic!("ended with its call waiting: {result:?}"),
        () = host.wait_for(1) => {}
    }
    let again = poll_fn(|context| Poll::Ready(turn.as_mut().poll(context).is_pending())).await;
    assert!(again, "it has returned its result, and still runs");
    host.release(1);
    assert_eq!(turn.await.unwrap(), "7");
}
