//! What ends an instance, and that nothing else does.

use super::*;

const WIT: &str = "package acme:t;
interface t {
    forever: func(); abort: func(); recurse: func(); descend: func(); grow: func(); wild: func(); quit: func();
    big: func(size: u32) -> list<u8>;
    echo: func(bytes: list<u8>) -> list<u8>;
    say: func(text: string);
    panic: func(text: string);
    rest: func(nanos: u64);
    flood: func(lines: u32);
    dice: func() -> u64;
    nobody: func() -> u32;
}
world w {
    import wasi:cli/stdout@0.2.6; import wasi:cli/stderr@0.2.6; import wasi:io/streams@0.2.6;
    import wasi:cli/exit@0.2.6; import wasi:clocks/monotonic-clock@0.2.6; import wasi:random/random@0.2.6;
    import wasi:sockets/instance-network@0.2.6; import wasi:sockets/ip-name-lookup@0.2.6;
    export t;
}";

const CORE: &str = r#"(module
  (import "wasi:cli/stdout@0.2.6" "get-stdout" (func $stdout (result i32)))
  (import "wasi:cli/stderr@0.2.6" "get-stderr" (func $stderr (result i32)))
  (import "wasi:io/streams@0.2.6" "[method]output-stream.blocking-write-and-flush"
    (func $write (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.6" "[resource-drop]output-stream" (func $close (param i32)))
  (import "wasi:cli/exit@0.2.6" "exit" (func $exit (param i32)))
  (import "wasi:clocks/monotonic-clock@0.2.6" "subscribe-duration" (func $timer (param i64) (result i32)))
  (import "wasi:io/poll@0.2.6" "[method]pollable.block" (func $block (param i32)))
  (import "wasi:io/poll@0.2.6" "[resource-drop]pollable" (func $forget (param i32)))
  (import "wasi:random/random@0.2.6" "get-random-u64" (func $random (result i64)))
  (import "wasi:sockets/instance-network@0.2.6" "instance-network" (func $network (result i32)))
  (import "wasi:sockets/network@0.2.6" "[resource-drop]network" (func $unplug (param i32)))
  (import "wasi:sockets/ip-name-lookup@0.2.6" "resolve-addresses" (func $lookup (param i32 i32 i32 i32)))
  (memory (export "memory") 160)
  (global $top (mut i32) (i32.const 65536))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    global.get $top global.get $top local.get 3 i32.add global.set $top)
  (func $done (global.set $top (i32.const 65536)))
  (func (export "acme:t/t#forever") (loop $l br $l))
  (func (export "acme:t/t#abort") unreachable)
  (func $recurse (export "acme:t/t#recurse") call $recurse call $recurse)
  ;; Large frames on a shadow stack, as compiled code has them.
  (func $descend (param i32)
    (i32.store (local.get 0) (i32.const 0))
    (call $descend (i32.sub (local.get 0) (i32.const 1024)))
    (i32.store (local.get 0) (i32.const 1)))
  (func (export "acme:t/t#descend") (call $descend (i32.const 65536)))
  (func (export "acme:t/t#wild") (drop (i32.load (i32.const -8))))
  (func (export "acme:t/t#quit") (call $exit (i32.const 0)))
  (func (export "acme:t/t#grow")
    (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable)
  (func $list (param i32 i32) (result i32)
    (i32.store (i32.const 64) (local.get 0)) (i32.store (i32.const 68) (local.get 1)) i32.const 64)
  (func (export "acme:t/t#big") (param i32) (result i32) (call $list (i32.const 1024) (local.get 0)))
  (func (export "acme:t/t#echo") (param i32 i32) (result i32)
    call $done (call $list (local.get 0) (local.get 1)))
  (func $print (param $to i32) (param $text i32) (param $length i32)
    (call $write (local.get $to) (local.get $text) (local.get $length) (i32.const 96))
    (call $close (local.get $to)))
  (func (export "acme:t/t#say") (param i32 i32) call $done
    (call $print (call $stdout) (local.get 0) (local.get 1)))
  (func (export "acme:t/t#panic") (param i32 i32)
    (call $print (call $stderr) (local.get 0) (local.get 1)) unreachable)
  (func (export "acme:t/t#rest") (param i64) (local i32)
    (local.set 1 (call $timer (local.get 0))) (call $block (local.get 1)) (call $forget (local.get 1)))
  (data (i32.const 16) "x\0a")
  (func (export "acme:t/t#flood") (param i32)
    (loop $l
      (call $print (call $stdout) (i32.const 16) (i32.const 2))
      (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
  (func (export "acme:t/t#dice") (result i64) call $random)
  ;; The error case plus 10 times the outcome: 11 is err(access-denied).
  (func (export "acme:t/t#nobody") (result i32) (local i32)
    (local.set 0 (call $network))
    (call $lookup (local.get 0) (i32.const 16) (i32.const 1) (i32.const 96))
    (call $unplug (local.get 0))
    (i32.add (i32.mul (i32.load8_u (i32.const 96)) (i32.const 10)) (i32.load8_u (i32.const 97))))
)"#;

fn grain_class(properties: &[(&str, &str)]) -> Arc<Class> {
    let properties: BTreeMap<String, String> =
        properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    class_with(&component(&format!("{WIT} {WASI}"), CORE), &properties).0
}

async fn grain(properties: &[(&str, &str)]) -> Activation {
    Activation::new(grain_class(properties), FakeHost::new()).await
}

async fn refuses_further_turns(grain: &mut Activation) {
    let (kind, message) = trapped(grain.call("dice", "[]").await);
    assert_eq!((kind, message.as_str()), (TrapKind::Other, "the instance ended in an earlier turn"));
}

#[tokio::test]
async fn an_endless_loop_ends_with_its_budget_and_lets_others_run() {
    let mut grain = grain(&[("granary.turn-cpu-max", "60ms")]).await;
    let others = tokio::spawn(async {
        let mut turns = 0_u32;
        let end = Instant::now() + Duration::from_millis(30);
        while Instant::now() < end {
            tokio::task::yield_now().await;
            turns += 1;
        }
        turns
    });
    let (kind, message) = trapped(grain.call("forever", "[]").await);
    assert_eq!((kind, message.as_str()), (TrapKind::CpuBudget, "the turn used up its CPU budget of 60 ms"));
    assert!(others.await.unwrap() > 1, "the loop held the thread");
    refuses_further_turns(&mut grain).await;
}

#[tokio::test]
async fn each_way_to_fail_has_its_kind_and_one_line() {
    for (method, args, kind, message) in [
        ("abort", "[]", TrapKind::Panic, "the grain aborted"),
        ("recurse", "[]", TrapKind::StackOverflow, "stack overflow"),
        ("descend", "[]", TrapKind::StackOverflow, "stack overflow"),
        ("wild", "[]", TrapKind::Other, "memory access out of bounds"),
        ("quit", "[]", TrapKind::Panic, "the grain called exit(0)"),
        ("grow", "[]", TrapKind::OutOfMemory, "out of memory: more than 67108864 bytes"),
        ("big", "[5000000]", TrapKind::ResultTooLarge, "4194304 bytes, the limit"),
        ("big", "[10000000]", TrapKind::ResultTooLarge, "4194304 bytes, the limit"),
    ] {
        let mut grain = grain(&[]).await;
        let (found, text) = trapped(grain.call(method, args).await);
        assert_eq!(found, kind, "{method}: {text}");
        assert!(text.contains(message) && !text.contains('\n'), "{method}: {text}");
        refuses_further_turns(&mut grain).await;
    }
}

#[tokio::test]
async fn a_panic_is_told_to_the_caller_and_logged() {
    let mut grain = grain(&[]).await;
    let text = r#"["\nthread 'main' (1) panicked at src/lib.rs:7:9:\nindex out of bounds: the len is 3\nnote: run with\n"]"#;
    let (kind, message) = trapped(grain.call("panic", text).await);
    assert_eq!((kind, message.as_str()), (TrapKind::Panic, "panicked: index out of bounds: the len is 3"));
    let logged = grain.host.logged("stderr");
    assert!(logged.iter().any(|line| line.contains("src/lib.rs:7:9")), "{logged:?}");
    let ours = grain.host.logged("granary");
    assert_eq!(ours[0], "the activation ended: panicked: index out of bounds: the len is 3");
}

#[tokio::test]
async fn hostile_text_is_escaped_and_cut() {
    let mut grain = grain(&[]).await;
    let noise = "\\u001b[2J".repeat(1_000);
    let text = format!(r#"["panicked at x:\n{noise}\n"]"#);
    let (_, message) = trapped(grain.call("panic", &text).await);
    assert!(message.len() <= 512 && !message.contains('\u{1b}'), "{message}");
    assert!(grain.host.logged("stderr").iter().all(|it| it.len() <= 4_096 && !it.contains('\u{1b}')));
}

#[tokio::test]
async fn output_becomes_lines_of_the_log() {
    let mut grain = grain(&[]).await;
    grain.call("say", r#"["one\ntwo\u0007\nthr"]"#).await.unwrap();
    // What a turn began to print is complete at its end.
    assert_eq!(grain.host.logged("stdout"), ["one", "two\\u{7}", "thr"]);
    grain.call("flood", "[3000]").await.unwrap();
    assert!(grain.host.logged("stdout").len() <= 1_000);
}

#[tokio::test]
async fn large_values_pass_in_both_directions() {
    let mut grain = grain(&[]).await;
    let method = grain.class.method("echo").unwrap();
    let mut args = (1_u32 << 20).to_le_bytes().to_vec();
    args.extend((0..1_u32 << 20).map(|it| it.to_le_bytes()[0]));
    let result = grain.turn(Turn::Invoke { method, args: args.clone() }).await.unwrap();
    assert!(result == args);
    assert!(grain.call("big", "[4194300]").await.is_ok());
}

#[tokio::test]
async fn waiting_is_not_computing_and_outlasts_a_caller_in_a_hurry() {
    let mut grain = grain(&[("granary.turn-cpu-max", "2ms")]).await;
    // Waiting is not computing.
    grain.call("rest", "[20000000]").await.unwrap();
    let context = TurnContext { remaining: Some(Duration::from_millis(1)), ..TurnContext::default() };
    grain.call_in("rest", "[20000000]", context).await.unwrap();
}

#[tokio::test]
async fn what_wasi_does_not_give_is_denied_not_trapped() {
    let mut grain = grain(&[]).await;
    assert_eq!(grain.call("nobody", "[]").await.unwrap(), "11");
    assert_ne!(grain.call("dice", "[]").await.unwrap(), grain.call("dice", "[]").await.unwrap());
    assert_eq!(grain.call("nobody", "[]").await.unwrap(), "11");
}

#[tokio::test]
async fn a_dropped_turn_ends_the_instance() {
    let mut grain = grain(&[]).await;
    let rest = tokio::time::timeout(Duration::from_millis(5), grain.call("rest", "[10000000000]")).await;
    assert!(rest.is_err());
    refuses_further_turns(&mut grain).await;
}

#[tokio::test]
async fn code_that_runs_at_the_start_has_a_budget_too() {
    let wit = "package acme:t; interface t { f: func(); } world w { export t; }";
    let core = r#"(module (func (export "acme:t/t#f")) (func $start (loop $l br $l)) (start $start))"#;
    let budget = BTreeMap::from([("granary.turn-cpu-max".to_owned(), "20ms".to_owned())]);
    let (class, _) = class_with(&component(wit, core), &budget);
    let error = class.instantiate(Arc::new(FakeHost::new())).await.err().unwrap();
    assert!(matches!(error, TurnFailure::Trapped { kind: TrapKind::CpuBudget, .. }), "{error:?}");
}

#[tokio::test]
async fn one_trap_touches_no_other_instance() {
    let class = grain_class(&[]);
    let mut one = Activation::new(Arc::clone(&class), FakeHost::new()).await;
    let mut two = Activation::new(class, FakeHost::new()).await;
    trapped(one.call("abort", "[]").await);
    assert!(two.call("dice", "[]").await.is_ok());
}
