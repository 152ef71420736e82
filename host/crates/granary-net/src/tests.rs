//! Networks on loopback, and peers made by hand that misbehave.

mod bad_peers;
mod format;
mod requests;
mod tls;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use granary_core::hosting::BoxFuture;
use granary_core::id::SiloAddress;
use granary_core::wire::{OneWay, Request, Response};
use granary_tls::LinkTls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::codec::Decoder;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::frame::{Frame, FrameDecoder, FrameKind, encode};
use crate::handshake::{Hello, HelloAck, Lane};
use crate::{FRAME_BYTES_MAX, Handler, NetConfig, NetError, NetLimits, Network};

/// Long enough for a slow machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers by the request's path, and remembers what came.
struct TestHandler {
    versions: Mutex<Vec<u64>>,
    disconnects: AtomicUsize,
    /// `wait` requests go on with a permit.
    gate: Semaphore,
    started: AtomicUsize,
    finished: AtomicUsize,
    remaining_ms: AtomicU64,
}

impl TestHandler {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            versions: Mutex::default(),
            disconnects: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            started: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            remaining_ms: AtomicU64::new(0),
        })
    }
}

impl Handler for TestHandler {
    fn one_way(&self, _from: SiloAddress, message: OneWay) {
        if let OneWay::DeploymentsChanged { version } = message {
            self.versions.lock().unwrap().push(version);
        }
    }

    fn request(&self, _from: SiloAddress, request: Request, remaining: Duration) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            let Request::Admin { path, body } = request else {
                return Response::Refused("not a test".into());
            };
            self.started.fetch_add(1, Ordering::SeqCst);
            let ms = u64::try_from(remaining.as_millis()).unwrap();
            self.remaining_ms.store(ms, Ordering::SeqCst);
            let body = match path.as_str() {
                "panic" => panic!("a handler that panics"),
                "huge" => vec![0; FRAME_BYTES_MAX],
                "wait" => {
                    self.gate.acquire().await.unwrap().forget();
                    body
                }
                _ => body,
            };
            self.finished.fetch_add(1, Ordering::SeqCst);
            Response::Admin { status: 200, body }
        })
    }

    fn disconnected(&self, _peer: SiloAddress) {
        self.disconnects.fetch_add(1, Ordering::SeqCst);
    }
}

struct Silo {
    network: Arc<Network>,
    handler: Arc<TestHandler>,
    me: SiloAddress,
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl Silo {
    async fn start() -> Self {
        Self::start_with("c", NetLimits::default()).await
    }

    async fn start_with(cluster: &str, limits: NetLimits) -> Self {
        Self::start_secured(cluster, None, limits).await
    }

    async fn start_secured(cluster: &str, tls: Option<Arc<LinkTls>>, limits: NetLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let me = address(&listener);
        let handler = TestHandler::new();
        let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
        let config = NetConfig { cluster: cluster.into(), me, name: "test".into(), tls, limits };
        let network = Network::start(
            config,
            listener,
            Arc::clone(&handler) as Arc<dyn Handler>,
            tracker.clone(),
            cancel.clone(),
        );
        Self { network, handler, me, tracker, cancel }
    }

    async fn ask(&self, to: SiloAddress, lane: Lane, path: &str) -> Result<Response, NetError> {
        self.network.request(to, lane, admin(path, b"body"), PATIENCE).await
    }

    /// Asks in the background.
    fn start_asking(
        &self,
        to: SiloAddress,
        path: &'static str,
        timeout: Duration,
    ) -> tokio::task::JoinHandle<Result<Response, NetError>> {
        let network = Arc::clone(&self.network);
        tokio::spawn(
            async move { network.request(to, Lane::Application, admin(path, b"body"), timeout).await },
        )
    }
}

fn address(listener: &TcpListener) -> SiloAddress {
    let endpoint = listener.local_addr().unwrap();
    SiloAddress { ip: endpoint.ip(), port: endpoint.port(), generation: 7 }
}

fn admin(path: &str, body: &[u8]) -> Request {
    Request::Admin { path: path.into(), body: body.into() }
}

fn answer(body: &[u8]) -> Result<Response, NetError> {
    Ok(Response::Admin { status: 200, body: body.into() })
}

/// Waits for a condition, with a deadline.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A connection made by hand.
struct RawPeer {
    socket: TcpStream,
    buffer: BytesMut,
}

impl RawPeer {
    async fn connect(to: SiloAddress) -> Self {
        Self::new(TcpStream::connect(to.endpoint()).await.unwrap())
    }

    fn new(socket: TcpStream) -> Self {
        Self { socket, buffer: BytesMut::new() }
    }

    /// Accepts a silo's connection and greets it; its lane.
    async fn accept(listener: &TcpListener) -> (Self, Lane) {
        let mut peer = Self::new(listener.accept().await.unwrap().0);
        let hello: Hello = peer.next().await.unwrap().decode().unwrap();
        peer.write(&encode(FrameKind::HelloAck, &HelloAck::new(Ok(1))).unwrap()).await;
        (peer, hello.lane)
    }

    /// Connects to a silo and is greeted by it.
    async fn greeted(to: SiloAddress) -> Self {
        let mut peer = Self::connect(to).await;
        let me = SiloAddress { ip: [127, 0, 0, 1].into(), port: 1, generation: 1 };
        peer.write(&encode(FrameKind::Hello, &Hello::new("c", me, "raw", to, Lane::Application)).unwrap())
            .await;
        let ack: HelloAck = peer.next().await.unwrap().decode().unwrap();
        assert_eq!(ack.judge(), Ok(1));
        peer
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// The next frame; `None` at the end or a reset.
    async fn next(&mut self) -> Option<Frame> {
        let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        loop {
            if let Some(frame) = decoder.decode(&mut self.buffer).unwrap() {
                return Some(frame);
            }
            let read = tokio::time::timeout(PATIENCE, self.socket.read_buf(&mut self.buffer));
            match read.await.expect("the silo says nothing and does not close") {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}
