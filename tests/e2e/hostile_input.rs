//! Strangers at the ports: random bytes, half-open and idle connections, frames that lie about their length.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use granary_tests::{Cluster, Silo, input};

/// Changed requests for each port.
const CHANGED_REQUESTS: u64 = 400;

/// What hostile connections may add to a silo's memory.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

/// How long a test waits for a connection to be closed. The silo closes after 5 s at most; the machine may be busy.
const CLOSED_WITHIN: Duration = Duration::from_secs(60);

fn ports(silo: &Silo) -> [&str; 3] {
    [&silo.listen, &silo.gateway, &silo.admin]
}

/// Reads until the other side closes, and returns after how long; fails when it stays open.
fn assert_closed(mut stream: TcpStream, since: Instant, what: &str) -> Duration {
    stream.set_read_timeout(Some(CLOSED_WITHIN)).unwrap();
    let mut sink = [0; 4096];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{what}: not closed after {:?}: {error}", since.elapsed()),
        }
        assert!(since.elapsed() <= CLOSED_WITHIN, "{what}: still written to after {:?}", since.elapsed());
    }
    since.elapsed()
}

fn noise(bytes: usize) -> Vec<u8> {
    // xorshift; reproducible, and nothing like a request.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = Vec::with_capacity(bytes);
    while noise.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

/// Runs an attack on each port, and checks the silo's memory.
fn attack(silo: &Silo, what: &str, run: impl Fn(&str)) {
    for port in ports(silo) {
        let rss = silo.rss();
        run(port);
        let grown = silo.rss().saturating_sub(rss);
        assert!(grown <= GROWTH_BYTES_MAX, "{what} at {port}: memory grew by {grown} bytes");
    }
    assert_eq!(silo.cli(&["call", "counter/a", "increment", "0"]).ok(), "0");
}

/// Lines that one speaker may have logged about all attacks. One of each kind in a few seconds is the rule; an attack
/// of 1 000 connections on a busy machine takes more than those.
const LOG_LINES_MAX: usize = 20;

/// No attack made a port say a line for each connection.
fn assert_quiet(silo: &Silo) {
    let log = silo.log();
    for speaker in ["granary_net", "\"edge\":\"Gateway\"", "\"edge\":\"Admin\""] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(speaker)).collect();
        assert!(lines.len() <= LOG_LINES_MAX, "{speaker} said too many lines: {lines:#?}");
    }
}

fn silo_with_counter(cluster: &Cluster) -> Silo {
    let silo = cluster.start("silo-1");
    silo.deploy(&["counter"]);
    let _ = silo.cli(&["call", "counter/a", "increment", "0"]).ok();
    silo
}

#[test]
fn random_bytes_and_lying_frames_end_their_connection() {
    let cluster = Cluster::new();
    let silo = silo_with_counter(&cluster);
    attack(&silo, "random bytes", |port| {
        let mut stream = TcpStream::connect(port).unwrap();
        let since = Instant::now();
        let _ = stream.write_all(&noise(64 << 10));
        let _ = assert_closed(stream, since, "random bytes");
    });
    attack(&silo, "a frame of 4 GiB", |port| {
        let mut stream = TcpStream::connect(port).unwrap();
        let since = Instant::now();
        let _ = stream.write_all(&[0xff; 4]);
        let _ = stream.write_all(&[1; 1024]);
        let _ = assert_closed(stream, since, "a frame of 4 GiB");
    });
    assert_quiet(&silo);
}

#[test]
fn half_open_and_idle_connections_are_closed() {
    let cluster = Cluster::new();
    let silo = silo_with_counter(&cluster);
    attack(&silo, "a half-sent head", |port| {
        let mut stream = TcpStream::connect(port).unwrap();
        let since = Instant::now();
        stream.write_all(b"POST /v1/gr").unwrap();
        println!(
            "{port}: a half-sent head: closed after {:.1?}",
            assert_closed(stream, since, "a half-sent head")
        );
    });
    attack(&silo, "1 000 idle connections", |port| {
        let open = |_| TcpStream::connect(port).ok().map(|stream| (stream, Instant::now()));
        let streams: Vec<(TcpStream, Instant)> = (0..1_000).filter_map(open).collect();
        assert!(streams.len() >= 500, "only {} connections", streams.len());
        let last =
            streams.into_iter().map(|(stream, since)| assert_closed(stream, since, "an idle connection"));
        println!("{port}: idle connections: the last closed after {:.1?}", last.max().unwrap());
    });
    assert_quiet(&silo);
}

/// Valid requests to the edges, and a valid first word to a silo of another cluster.
fn requests() -> Vec<Vec<u8>> {
    let close = "host: x\r\nconnection: close\r\n";
    let post = |path: &str, headers: &str, body: &str| {
        let length = body.len();
        format!("POST {path} HTTP/1.1\r\n{close}{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
    };
    vec![
        post("/v1/grains/counter/a/increment", "content-type: application/json\r\n", "[0]"),
        post("/v1/grains/counter/a%2Fb/increment", "granary-timeout-ms: 500\r\n", r#"{"by": 0}"#),
        post("/v1/deployments?name=x.wasm", "content-type: application/wasm\r\n", "\0asm\r\0\u{1}\0"),
        format!("POST /v1/grains/counter/a/get HTTP/1.1\r\n{close}transfer-encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n")
            .into_bytes(),
        format!("GET /v1/activations HTTP/1.1\r\n{close}traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n")
            .into_bytes(),
        format!("GET /metrics HTTP/1.1\r\n{close}\r\n").into_bytes(),
        b"\x1e\0\0\0\x11GRNY\x01\x01\x01c\0\x0a\0\0\x01\xd8\x36\x0a\x03one\0\x0a\0\0\x01\xd9\x36\x0c\x02".to_vec(),
    ]
}

/// P15: each is answered, or its connection is closed, in time.
#[test]
fn changed_requests_are_answered_or_closed() {
    let cluster = Cluster::new();
    let silo = silo_with_counter(&cluster);
    let samples = requests();
    for port in ports(&silo) {
        let (mut answered, mut server_errors, mut slowest) = (0, 0, Duration::ZERO);
        for seed in 0..CHANGED_REQUESTS {
            let request = input::generate(&samples, seed);
            let mut stream = TcpStream::connect(port).unwrap();
            let since = Instant::now();
            stream.set_read_timeout(Some(CLOSED_WITHIN)).unwrap();
            let _ = stream.write_all(&request);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
                Err(error) => panic!("{port}, seed {seed}: open after {:?}: {error}", since.elapsed()),
            }
            slowest = slowest.max(since.elapsed());
            answered += u32::from(!answer.is_empty());
            server_errors += u32::from(answer.starts_with(b"HTTP/1.1 500"));
        }
        println!(
            "{port}: {CHANGED_REQUESTS} requests, {answered} answered, {server_errors} with 500, slowest {slowest:.1?}"
        );
        assert!(slowest <= CLOSED_WITHIN, "{port}: {slowest:?}");
        assert_eq!(server_errors, 0, "{port}");
    }
    assert_eq!(silo.cli(&["call", "counter/a", "increment", "0"]).ok(), "0");
    assert!(!silo.log().contains("panicked at"), "the host panicked");
}
