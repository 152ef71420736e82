//! The edge over real sockets, with a backend that echoes.

mod secure;

use granary_core::hosting::{BoxFuture, CallError};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{AdminRequest, EdgeCall, EdgeCallError};

#[derive(Debug)]
struct Echo;

impl Backend for Echo {
    fn call(&self, call: EdgeCall) -> BoxFuture<'_, Result<String, EdgeCallError>> {
        Box::pin(async move {
            match call.method.as_str() {
                "echo" => Ok(call.arguments),
                "who" => Ok(json!(call.grain.to_string()).to_string()),
                "slow" => Err(EdgeCallError::Call(CallError::TimedOut)),
                other => Err(EdgeCallError::Call(CallError::NotFound(format!("no method {other}")))),
            }
        })
    }

    fn admin(&self, request: AdminRequest) -> BoxFuture<'_, Result<serde_json::Value, Problem>> {
        Box::pin(async move { Ok(json!({ "request": format!("{request:?}") })) })
    }

    fn ready(&self) -> Result<(), Vec<String>> {
        Err(vec!["joining".to_owned()])
    }

    fn metrics(&self) -> String {
        "# EOF\n".to_owned()
    }

    fn openapi(&self) -> Arc<str> {
        r#"{"openapi":"3.1.0"}"#.into()
    }

    fn version(&self) -> serde_json::Value {
        json!({ "name": "test" })
    }
}

struct Fixture {
    address: SocketAddr,
    server: EdgeServer,
    cancel: CancellationToken,
    tracker: TaskTracker,
}

async fn fixture(kind: EdgeKind, change: impl FnOnce(&mut EdgeLimits)) -> Fixture {
    protected(kind, EdgeAccess::default(), change).await
}

async fn protected(kind: EdgeKind, access: EdgeAccess, change: impl FnOnce(&mut EdgeLimits)) -> Fixture {
    let mut limits = EdgeLimits::of(kind);
    change(&mut limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
    let server = EdgeServer::start(kind, limits, access, listener, Arc::new(Echo), &tracker, cancel.clone());
    Fixture { address, server, cancel, tracker }
}

async fn talk(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

fn post(path: &str, extra: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{extra}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_call_reaches_the_grain_with_its_decoded_key() {
    let it = fixture(EdgeKind::Gateway, |_| {}).await;
    let answer = talk(it.address, &post("/v1/grains/t/a%2Fb/who", "", "[]")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("\"t/a/b\""), "{answer}");
}

#[tokio::test]
async fn errors_are_problems_with_a_status_and_a_code() {
    let it = fixture(EdgeKind::Gateway, |_| {}).await;
    for (request, status, code) in [
        (post("/v1/grains/t/k/nothing", "", "[]"), "404", "not-found"),
        (post("/v1/grains/t/k/slow", "", "[]"), "504", "timed-out"),
        (post("/v1/grains/t/k/echo", "content-type: image/png\r\n", "[]"), "415", "unsupported-media-type"),
        (post("/v1/grains/t/k/echo", "granary-timeout-ms: soon\r\n", "[]"), "400", "bad-request"),
        (post("/v1/grains/t/%00%ff/echo", "", "[]"), "400", "bad-request"),
        (post("/v1/nonsense", "", "[]"), "404", "not-found"),
        (post("/v1/deployments", "", "[]"), "404", "not-found"),
        (
            "GET /v1/grains/t/k/echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(),
            "405",
            "method-not-allowed",
        ),
    ] {
        let answer = talk(it.address, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}\n{answer}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{request}\n{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
    }
}

#[tokio::test]
async fn a_large_body_is_refused_whatever_it_claims() {
    let it = fixture(EdgeKind::Gateway, |limits| limits.body_bytes_max = 100).await;
    let claimed = talk(it.address, &post("/v1/grains/t/k/echo", "", &"x".repeat(101))).await;
    assert!(claimed.starts_with("HTTP/1.1 413"), "{claimed}");
    let chunked = format!(
        "POST /v1/grains/t/k/echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
         65\r\n{}\r\n0\r\n\r\n",
        "x".repeat(0x65)
    );
    let chunked = talk(it.address, &chunked).await;
    assert!(chunked.starts_with("HTTP/1.1 413"), "{chunked}");
}

#[tokio::test]
async fn silent_half_open_and_random_connections_are_closed() {
    let it = fixture(EdgeKind::Gateway, |limits| {
        limits.header_timeout = Duration::from_millis(50);
        limits.body_timeout = Duration::from_millis(50);
    })
    .await;
    for text in
        ["", "POST /v1/gr", "\u{1}\u{2}garbage\r\n\r\n", "POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab"]
    {
        let closed = tokio::time::timeout(Duration::from_secs(5), talk(it.address, text)).await;
        assert!(closed.is_ok(), "{text:?} was left open");
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused_and_counted() {
    let it = fixture(EdgeKind::Gateway, |limits| limits.connections_max = 1).await;
    let first = TcpStream::connect(it.address).await.unwrap();
    let mut second = TcpStream::connect(it.address).await.unwrap();
    assert_eq!(second.read(&mut [0; 1]).await.unwrap_or(0), 0);
    assert_eq!(it.server.stats().connections_refused.load(Ordering::Relaxed), 1);
    drop(first);
}

#[tokio::test]
async fn the_admin_api_is_on_the_admin_edge_only() {
    let it = fixture(EdgeKind::Admin, |_| {}).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(talk(it.address, &get("/v1/silos")).await.contains("List(Silos)"));
    assert!(talk(it.address, &get("/v1/activations/t/k")).await.contains("Describe(t/k)"));
    assert!(talk(it.address, &get("/readyz?verbose")).await.contains("joining"));
    assert!(talk(it.address, &get("/metrics")).await.contains("# EOF"));
    let deploy = post("/v1/deployments?name=a.wasm&force&property=x=y", "", "abc");
    let answer = talk(it.address, &deploy).await;
    assert!(answer.contains("force: true") && answer.contains("a.wasm"), "{answer}");
}

#[tokio::test]
async fn every_admin_route_but_health_and_version_wants_the_token() {
    let access = EdgeAccess { token: Some(AdminToken::new("0123456789abcdef")), tls: None };
    let it = protected(EdgeKind::Admin, access, |_| {}).await;
    let get = |path: &str, extra: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{extra}\r\n")
    };
    let right = "authorization: Bearer 0123456789abcdef\r\n";
    for extra in [
        "",
        "authorization: Bearer 0123456789abcdeX\r\n",
        "authorization: Bearer \r\n",
        "authorization: Basic 0123456789abcdef\r\n",
        "authorization: \u{e9}\r\n",
    ] {
        let routes = ["/v1/silos", "/v1/activations/t/k", "/metrics", "/v1/manifest", "/nothing"];
        let mut requests: Vec<String> = routes.iter().map(|path| get(path, extra)).collect();
        requests.push(post("/v1/deployments?name=a", extra, "abc"));
        requests.push(post("/v1/grains/t/k/echo", extra, "[]"));
        for request in requests {
            let answer = talk(it.address, &request).await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{request}\n{answer}");
            assert!(answer.contains("\"code\":\"unauthorized\""), "{answer}");
            assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
            assert!(!answer.contains("0123456789"), "{answer}");
        }
    }
    assert_eq!(it.server.stats().unauthorized.load(Ordering::Relaxed), 35);
    assert!(talk(it.address, &get("/v1/silos", right)).await.contains("List(Silos)"));
    assert!(talk(it.address, &get("/metrics", right)).await.contains("# EOF"));
    for probe in ["/healthz", "/version"] {
        assert!(talk(it.address, &get(probe, "")).await.starts_with("HTTP/1.1 200"));
    }
    assert!(talk(it.address, &get("/readyz", "")).await.starts_with("HTTP/1.1 503"));
}

#[tokio::test]
async fn the_gateway_asks_for_no_token() {
    let access = EdgeAccess { token: Some(AdminToken::new("0123456789abcdef")), tls: None };
    let it = protected(EdgeKind::Gateway, access, |_| {}).await;
    assert!(talk(it.address, &post("/v1/grains/t/k/echo", "", "[]")).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_drain_ends_the_server() {
    let it = fixture(EdgeKind::Gateway, |_| {}).await;
    it.cancel.cancel();
    it.tracker.close();
    tokio::time::timeout(Duration::from_secs(5), it.tracker.wait()).await.unwrap();
    assert!(TcpStream::connect(it.address).await.is_err());
}
