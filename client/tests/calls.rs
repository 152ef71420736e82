//! Deliveries against gateways that are made for the test: what is sent again, what is not, and the bounds.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use granary_client::{CallError, Client, ConnectError, GrainError, Options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

granary_client::contract! { wit = "../examples/bank/wit", module = "bank" }

use bank::AccountError;

/// A gateway that answers each request by what `answer` makes of its number and text: a status and a body, status 0
/// for no answer at all, `None` for a connection that ends.
struct Fake {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Fake {
    async fn start(answer: impl Fn(usize, &str) -> Option<(u16, String)> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let (answer, count) = (Arc::new(answer), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&answer), Arc::clone(&count)));
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: Arc<impl Fn(usize, &str) -> Option<(u16, String)> + Send + Sync>,
    count: Arc<AtomicUsize>,
) {
    loop {
        let mut text = String::new();
        let mut buffer = [0; 4096];
        // Requests are small: they are whole when their last byte, the array's end, is there.
        while !text.ends_with(']') {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(n) => text.push_str(&String::from_utf8_lossy(&buffer[..n])),
            }
        }
        let number = count.fetch_add(1, Ordering::SeqCst);
        let Some((status, body)) = answer(number, &text) else { return };
        if status == 0 {
            std::future::pending::<()>().await;
        }
        let reply = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(reply.as_bytes()).await.unwrap();
    }
}

fn problem(status: u16, code: &str) -> Option<(u16, String)> {
    Some((status, format!(r#"{{"status":{status},"code":"{code}","detail":"x","retry_after_ms":1}}"#)))
}

fn ok(body: &str) -> Option<(u16, String)> {
    Some((200, body.to_owned()))
}

/// A port that nobody listens on.
fn nobody() -> String {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("http://{address}")
}

#[tokio::test]
async fn a_typed_call_is_one_request_with_arguments_and_deadline() {
    let fake = Fake::start(|_, text| {
        let line = "POST /v1/grains/account/alice%2F1/acme%3Abank%2Faccount%2Edeposit HTTP/1.1\r\n";
        let fits = text.starts_with(line) && text.contains("granary-timeout-ms: ") && text.ends_with("[5]");
        if fits { ok("{\"ok\":12}") } else { problem(404, "not-found") }
    })
    .await;
    let client = Client::connect([&fake.url]).await.unwrap();
    let alice = bank::AccountRef::get(&client, "alice/1");
    assert_eq!(alice.deposit(5).await, Ok(12));
    assert_eq!(alice.key(), "alice/1");
    assert_eq!(fake.requests(), 1);
}

#[tokio::test]
async fn the_grains_own_error_is_typed_and_not_a_failed_call() {
    let fake = Fake::start(|_, _| ok(r#"{"err":{"insufficient-funds":{"balance":1,"needed":5}}}"#)).await;
    let client = Client::connect([&fake.url]).await.unwrap();
    let error = bank::AccountRef::get(&client, "a").withdraw(5).await.unwrap_err();
    let short = bank::Shortage { balance: 1, needed: 5 };
    assert_eq!(error, GrainError::Grain(AccountError::InsufficientFunds(short)));
}

#[tokio::test]
async fn what_did_not_run_is_sent_again_and_what_may_have_is_not() {
    for code in ["not-delivered", "overloaded", "fenced"] {
        let fake = Fake::start(move |n, _| if n < 3 { problem(503, code) } else { ok("7") }).await;
        let client = Client::connect([&fake.url]).await.unwrap();
        assert_eq!(bank::AccountRef::get(&client, "a").balance().await, Ok(7), "{code}");
        assert_eq!(fake.requests(), 4, "{code}");
    }
    let finals =
        ["unknown-outcome", "failed", "timed-out", "cancelled", "not-found", "incompatible", "deadlock"];
    for code in finals {
        let fake = Fake::start(move |_, _| problem(500, code)).await;
        let client = Client::connect([&fake.url]).await.unwrap();
        let error = bank::AccountRef::get(&client, "a").balance().await.unwrap_err();
        assert_eq!(fake.requests(), 1, "{code}: {error}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_has_an_unknown_outcome_and_is_not_tried_again() {
    let fake = Fake::start(|_, _| None).await;
    let client = Client::connect([&fake.url]).await.unwrap();
    let error = bank::AccountRef::get(&client, "a").balance().await.unwrap_err();
    assert!(matches!(error, CallError::UnknownOutcome(_)), "{error:?}");
    assert_eq!(fake.requests(), 1);
}

#[tokio::test]
async fn another_gateway_takes_over_when_one_cannot_be_reached() {
    let fake = Fake::start(|_, _| ok("7")).await;
    let client = Client::connect([nobody(), fake.url.clone(), nobody()]).await.unwrap();
    for _ in 0..6 {
        assert_eq!(bank::AccountRef::get(&client, "a").balance().await, Ok(7));
    }
    assert_eq!(fake.requests(), 6);
}

#[tokio::test]
async fn a_call_without_answer_ends_at_its_deadline() {
    let fake = Fake::start(|_, _| Some((0, String::new()))).await;
    let client = Client::connect([&fake.url]).await.unwrap();
    let started = Instant::now();
    let account = bank::AccountRef::get(&client, "a").within(Duration::from_millis(100));
    assert_eq!(account.balance().await, Err(CallError::TimedOut));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn calls_beyond_the_bound_wait_and_are_not_delivered_when_none_ends() {
    let fake = Fake::start(|_, _| Some((0, String::new()))).await;
    let options = Options { in_flight_max: 2, ..Options::default() };
    let client = Client::connect_with([&fake.url], options).await.unwrap();
    let account = bank::AccountRef::get(&client, "a");
    let held: Vec<_> = (0..2)
        .map(|_| {
            let account = account.within(Duration::from_secs(60));
            tokio::spawn(async move { account.balance().await })
        })
        .collect();
    while fake.requests() < 2 {
        tokio::task::yield_now().await;
    }
    let error = account.within(Duration::from_millis(50)).balance().await.unwrap_err();
    assert!(matches!(&error, CallError::NotDelivered(text) if text.contains("all 2 calls")), "{error:?}");
    assert_eq!(fake.requests(), 2);
    held.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn an_overload_that_lasts_ends_at_the_deadline_with_its_own_error() {
    let fake = Fake::start(|_, _| problem(503, "overloaded")).await;
    let client = Client::connect([&fake.url]).await.unwrap();
    let account = bank::AccountRef::get(&client, "a").within(Duration::from_millis(30));
    assert_eq!(account.balance().await, Err(CallError::Overloaded(1)));
}

#[tokio::test]
async fn urls_are_checked_and_a_cluster_that_is_not_there_is_said() {
    for url in ["", "127.0.0.1:1", "https://h:1", "http://h:1/x", "ftp://h"] {
        let error = Client::connect([url]).await.unwrap_err();
        assert!(matches!(error, ConnectError::Url { .. }), "{url}: {error}");
    }
    assert_eq!(Client::connect([""; 0]).await.unwrap_err(), ConnectError::NoUrl);
    let error = Client::connect([nobody()]).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn a_result_of_another_contract_is_told_with_its_place() {
    let fake = Fake::start(|_, _| ok("{\"ok\":\"many\"}")).await;
    let client = Client::connect([&fake.url]).await.unwrap();
    let error = bank::AccountRef::get(&client, "a").deposit(1).await.unwrap_err();
    assert!(error.to_string().contains("$.ok: expected u64, found a string"), "{error}");
}
