//! A small HTTP server, to which grains send requests.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// The server. It counts its connections, and ends with the process.
///
/// It answers `/echo` with the request's body, `/head` with the head, `/redirect` with another place, `/bytes/N` with N
/// bytes, `/gate/N` when N connections have asked for that, and `/never` never.
#[derive(Debug)]
pub struct Web {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Gate {
    waiting: Mutex<usize>,
    changed: Condvar,
}

impl Default for Web {
    fn default() -> Self {
        Self::start()
    }
}

impl Web {
    /// Listens on a port of 127.0.0.1.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            let gate = Arc::new(Gate::default());
            for stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                let gate = Arc::clone(&gate);
                // A client that breaks off is the client's business.
                std::thread::spawn(move || drop(serve(stream, &gate)));
            }
        });
        Self { address, connections }
    }

    /// How many connections were made so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, gate: &Gate) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let (place, number) = path.rsplit_once('/').unwrap_or_default();
    let number: usize = number.parse().unwrap_or_default();
    let answer = match (path.as_str(), place) {
        ("/echo", _) => ok(&body(&head, &mut reader)?),
        ("/head", _) => {
            body(&head, &mut reader)?;
            ok(head.as_bytes())
        }
        ("/redirect", _) => b"HTTP/1.1 302 Found\r\nlocation: /echo\r\ncontent-length: 0\r\n\r\n".to_vec(),
        ("/never", _) => {
            // Until the client has had enough.
            let _ = reader.read(&mut [0]);
            return Ok(());
        }
        (_, "/bytes") => ok(&vec![b'x'; number]),
        (_, "/gate") => {
            let mut waiting = gate.waiting.lock().unwrap();
            *waiting += 1;
            gate.changed.notify_all();
            drop(gate.changed.wait_while(waiting, |waiting| *waiting < number).unwrap());
            ok(b"open")
        }
        _ => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
    };
    (&stream).write_all(&answer)
}

fn ok(body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend(body);
    answer
}

/// A request's body, by its length or in chunks.
fn body(head: &str, reader: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let lines: BTreeSet<String> = head.lines().map(str::to_ascii_lowercase).collect();
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    if !lines.contains("transfer-encoding: chunked") {
        return Ok(body);
    }
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk)?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..size]);
    }
}
