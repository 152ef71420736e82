//! What a grain asks of its host: other grains, state, its own identity, the log.

use super::*;

const WIT: &str = "package acme:x;
package acme:bank-refs@1.0.0 {
    interface account {
        use granary:grain/types@0.1.0.{grain-ref, call-error};
        deposit: func(to: grain-ref, amount: u64) -> result<u64, call-error>;
    }
    interface account-send {
        use granary:grain/types@0.1.0.{grain-ref, call-error};
        deposit: func(to: grain-ref, amount: u64) -> result<_, call-error>;
    }
}
interface x {
    use granary:grain/types@0.1.0.{grain-ref, call-error};
    use granary:grain/state@0.1.0.{stored, state-error};
    use granary:grain/logging@0.1.0.{level};
    pay: func(to: grain-ref, amount: u64) -> result<u64, call-error>;
    send: func(to: grain-ref, amount: u64) -> result<_, call-error>;
    ask: func(to: grain-ref, method: string, arguments: string) -> result<string, call-error>;
    find: func(iface: string, key: string) -> result<grain-ref, call-error>;
    who: func() -> grain-ref;
    left: func() -> option<u64>;
    header: func(key: string) -> option<string>;
    load: func(name: string) -> result<option<stored>, state-error>;
    save: func(name: string, value: list<u8>, expected: option<string>) -> result<string, state-error>;
    note: func(level: level, target: string, message: string);
    go: func(silo: option<string>);
}
world w {
    import acme:bank-refs/account@1.0.0; import acme:bank-refs/account-send@1.0.0;
    import granary:grain/calls@0.1.0; import granary:grain/context@0.1.0;
    import granary:grain/state@0.1.0; import granary:grain/logging@0.1.0;
    export x;
}";

/// Each export hands its arguments to the import of the same type, and the import's result on.
const CORE: &str = r#"(module
  (import "acme:bank-refs/account@1.0.0" "deposit" (func $pay (param i32 i32 i32 i32 i64 i32)))
  (import "acme:bank-refs/account-send@1.0.0" "deposit" (func $send (param i32 i32 i32 i32 i64 i32)))
  (import "granary:grain/calls@0.1.0" "invoke" (func $ask (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "granary:grain/calls@0.1.0" "resolve" (func $find (param i32 i32 i32 i32 i32)))
  (import "granary:grain/context@0.1.0" "self-ref" (func $who (param i32)))
  (import "granary:grain/context@0.1.0" "remaining-ms" (func $left (param i32)))
  (import "granary:grain/context@0.1.0" "request-value" (func $header (param i32 i32 i32)))
  (import "granary:grain/context@0.1.0" "migrate-on-idle" (func $go (param i32 i32 i32)))
  (import "granary:grain/state@0.1.0" "read" (func $load (param i32 i32 i32)))
  (import "granary:grain/state@0.1.0" "write" (func $save (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "granary:grain/logging@0.1.0" "log" (func $note (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 16)
  (global $top (mut i32) (i32.const 65536))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    global.get $top global.get $top local.get 3 i32.const 7 i32.add i32.const -8 i32.and i32.add global.set $top)
  (func (export "acme:x/x#pay") (param i32 i32 i32 i32 i64) (result i32)
    (call $pay (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#send") (param i32 i32 i32 i32 i64) (result i32)
    (call $send (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#ask") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $ask (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5) (local.get 6)
      (local.get 7) (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#find") (param i32 i32 i32 i32) (result i32)
    (call $find (local.get 0) (local.get 1) (local.get 2) (local.get 3) (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#who") (result i32) (call $who (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#left") (result i32) (call $left (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#header") (param i32 i32) (result i32)
    (call $header (local.get 0) (local.get 1) (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#load") (param i32 i32) (result i32)
    (call $load (local.get 0) (local.get 1) (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#save") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $save (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5) (local.get 6)
      (i32.const 64)) i32.const 64)
  (func (export "acme:x/x#note") (param i32 i32 i32 i32 i32)
    (call $note (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4)))
  (func (export "acme:x/x#go") (param i32 i32 i32)
    (call $go (local.get 0) (local.get 1) (local.get 2)))
)"#;

const TO: &str = r#"{"grain-type":"account","key":"bob"}"#;

fn caller_class(properties: &[(&str, &str)]) -> Arc<Class> {
    let properties: BTreeMap<String, String> =
        properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    class_with(&component(WIT, CORE), &properties).0
}

async fn caller(host: FakeHost) -> Activation {
    Activation::new(caller_class(&[]), host).await
}

#[tokio::test]
async fn a_derived_call_goes_to_the_grain_with_its_type_and_context() {
    let host = FakeHost::answering(|call| {
        let mut sum = [0; 8];
        sum.copy_from_slice(&call.args);
        Ok((u64::from_le_bytes(sum) + 1).to_le_bytes().to_vec())
    });
    let mut grain = caller(host).await;
    let context = TurnContext {
        chain: vec!["x/alice".parse().unwrap()],
        remaining: Some(Duration::from_secs(5)),
        request_context: vec![("tenant".to_owned(), "t1".to_owned())],
        trace_parent: None,
    };
    let result = grain.call_in("pay", &format!("[{TO}, 41]"), context.clone()).await.unwrap();
    assert_eq!(result, r#"{"ok":42}"#);
    let calls = grain.host.calls.lock().unwrap();
    let call = &calls[0];
    assert_eq!(call.to.to_string(), "account/bob");
    assert_eq!((&*call.method.interface, &*call.method.method), ("acme:bank/account", "deposit"));
    assert!(!call.one_way);
    assert_eq!(call.context.chain, context.chain);
    assert_eq!(call.context.request_context, context.request_context);
    let left = call.context.remaining.unwrap();
    assert!(left <= Duration::from_secs(5) && left > Duration::from_secs(1), "{left:?}");
    assert_eq!(call.method.hash, grain.class.info().references[0].methods["deposit"].hash);
}

#[tokio::test]
async fn a_one_way_call_is_answered_by_its_acceptance() {
    let mut grain = caller(FakeHost::answering(|_| Ok(Vec::new()))).await;
    assert_eq!(grain.call("send", &format!("[{TO}, 1]")).await.unwrap(), r#"{"ok":null}"#);
    assert!(grain.host.calls.lock().unwrap()[0].one_way);
}

#[tokio::test]
async fn every_failed_call_is_a_value() {
    let errors = [
        CallError::NotDelivered("a".to_owned()),
        CallError::UnknownOutcome("b".to_owned()),
        CallError::Overloaded { retry_after_ms: 7 },
        CallError::NotFound("c".to_owned()),
        CallError::Incompatible("d".to_owned()),
        CallError::TimedOut,
        CallError::Failed("e".to_owned()),
        CallError::Cancelled,
        CallError::Deadlock(vec!["a/1".to_owned(), "b/2".to_owned()]),
        CallError::Fenced,
    ];
    let expected = [
        r#"{"not-delivered":"a"}"#,
        r#"{"unknown-outcome":"b"}"#,
        r#"{"overloaded":7}"#,
        r#"{"not-found":"c"}"#,
        r#"{"incompatible":"d"}"#,
        r#""timed-out""#,
        r#"{"failed":"e"}"#,
        r#""cancelled""#,
        r#"{"deadlock":["a/1","b/2"]}"#,
        r#""fenced""#,
    ];
    for (error, expected) in errors.into_iter().zip(expected) {
        let answer = error.clone();
        let mut grain = caller(FakeHost::answering(move |_| Err(answer.clone()))).await;
        let result = grain.call("pay", &format!("[{TO}, 1]")).await.unwrap();
        assert_eq!(result, format!(r#"{{"err":{expected}}}"#));
    }
}

#[tokio::test]
async fn what_cannot_be_sent_or_read_is_a_value_too() {
    let mut grain = caller(FakeHost::answering(|_| Ok(vec![1, 2, 3]))).await;
    let result = grain.call("pay", &format!("[{TO}, 1]")).await.unwrap();
    assert!(result.contains("does not decode"), "{result}");
    let result = grain.call("pay", r#"[{"grain-type":"no good","key":"k"}, 1]"#).await.unwrap();
    assert!(result.contains("not-found"), "{result}");
    let result = grain.call("pay", r#"[{"grain-type":"account","key":""}, 1]"#).await.unwrap();
    assert!(result.contains("1 to 512 bytes"), "{result}");
    assert_eq!(grain.host.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn waiting_for_another_grain_is_not_computing() {
    let mut host = FakeHost::answering(|_| Ok(1_u64.to_le_bytes().to_vec()));
    host.call_time = Duration::from_millis(30);
    let mut grain = Activation::new(caller_class(&[("granary.turn-cpu-max", "1ms")]), host).await;
    for _ in 0..5 {
        assert_eq!(grain.call("pay", &format!("[{TO}, 1]")).await.unwrap(), r#"{"ok":1}"#);
    }
}

#[tokio::test]
async fn calls_by_name_and_references_by_interface() {
    let mut grain = caller(FakeHost::new()).await;
    let result = grain.call("ask", &format!(r#"[{TO}, "deposit", "[5]"]"#)).await.unwrap();
    assert_eq!(result, r#"{"ok":"account/bob deposit [5]"}"#);
    let result = grain.call("find", r#"["acme:bank/account", "eve"]"#).await.unwrap();
    assert_eq!(result, r#"{"ok":{"grain-type":"account","key":"eve"}}"#);
}

#[tokio::test]
async fn a_grain_knows_itself_and_its_call() {
    let mut grain = caller(FakeHost::new()).await;
    assert_eq!(grain.call("who", "[]").await.unwrap(), r#"{"grain-type":"test","key":"alice"}"#);
    assert_eq!(grain.call("left", "[]").await.unwrap(), "null");
    let context = TurnContext {
        remaining: Some(Duration::from_millis(500)),
        request_context: vec![("tenant".to_owned(), "t1".to_owned())],
        ..TurnContext::default()
    };
    let left: u64 = grain.call_in("left", "[]", context.clone()).await.unwrap().parse().unwrap();
    assert!((1..=500).contains(&left));
    assert_eq!(grain.call_in("header", r#"["tenant"]"#, context).await.unwrap(), r#""t1""#);
    grain.call("go", r#"["silo-2"]"#).await.unwrap();
    let requests = grain.host.requests.lock().unwrap();
    assert_eq!(
        *requests,
        [granary_core::hosting::LifecycleRequest::MigrateOnIdle(Some("silo-2".to_owned()))]
    );
}

#[tokio::test]
async fn state_is_written_under_its_etag() {
    let mut grain = caller(FakeHost::new()).await;
    assert_eq!(grain.call("load", r#"["s"]"#).await.unwrap(), r#"{"ok":null}"#);
    assert_eq!(grain.call("save", r#"["s", "AQID", null]"#).await.unwrap(), r#"{"ok":"x"}"#);
    let conflict = grain.call("save", r#"["s", "AQID", "other"]"#).await.unwrap();
    assert_eq!(conflict, r#"{"err":{"conflict":"x"}}"#);
    assert_eq!(grain.call("load", r#"["s"]"#).await.unwrap(), r#"{"ok":{"value":"AQID","etag":"x"}}"#);
}

#[tokio::test]
async fn log_records_keep_level_and_target() {
    let mut grain = caller(FakeHost::new()).await;
    grain.call("note", r#"["warn", "my::target", "low\u0000 on ink"]"#).await.unwrap();
    let lines = grain.host.lines.lock().unwrap();
    assert_eq!(*lines, [(LogLevel::Warn, "my::target".to_owned(), "low\\u{0} on ink".to_owned())]);
}
