//! Processes that the rows drive: silos of the optimised build, and the peers with which they are compared. Each ends
//! with its handle.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Run;

/// How long a silo may take to become ready before the run is given up.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A process that ends with this value.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A data directory for silos.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    run: &'a Run,
    data: TempDir,
}

/// A silo process.
#[derive(Debug)]
pub(crate) struct Silo {
    pub(crate) gateway: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// From the start of the process to the moment when it said that it is ready.
    pub(crate) ready_after: Duration,
    process: Process,
}

impl<'a> Cluster<'a> {
    pub(crate) fn new(run: &'a Run) -> Result<Self> {
        Ok(Self { run, data: tempfile::tempdir()? })
    }

    /// Starts a silo and waits until it is ready.
    pub(crate) fn start(&self, name: &str) -> Result<Silo> {
        let ready = self.data.path().join(format!("{name}.ready"));
        let log = std::fs::File::create(self.data.path().join(format!("{name}.log")))?;
        let started = Instant::now();
        let child = Command::new(&self.run.granary)
            .args(["silo", "--name", name, "--listen", "127.0.0.1:0", "--gateway", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0", "--data"])
            .arg(self.data.path())
            .arg("--ready-file")
            .arg(&ready)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.run.granary.display()))?;
        let mut process = Process(child);
        let addresses = loop {
            if let Ok(text) = std::fs::read_to_string(&ready) {
                break serde_json::from_str::<Value>(&text)?;
            }
            if let Some(status) = process.0.try_wait()? {
                bail!("silo {name} ended with {status}");
            }
            if started.elapsed() > READY_WITHIN {
                bail!("silo {name} was not ready within {READY_WITHIN:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let ready_after = started.elapsed();
        let address = |key: &str| -> Result<SocketAddr> {
            Ok(addresses.get(key).and_then(Value::as_str).context("an address is missing")?.parse()?)
        };
        Ok(Silo { gateway: address("gateway")?, admin: address("admin")?, ready_after, process })
    }

    /// Deploys the test component; its grains live where they are called first.
    pub(crate) fn deploy(&self, silo: &Silo) -> Result<()> {
        let output = Command::new(&self.run.granary)
            .arg("deploy")
            .arg(&self.run.pinger)
            .args(["--property", "placement-strategy=prefer-local"])
            .env("GRANARY_URL", format!("http://{}", silo.admin))
            .output()?;
        ensure!(
            output.status.success(),
            "the deployment failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

impl Silo {
    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

/// A process of this program that serves what a silo is compared with.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    process: Process,
}

impl Peer {
    pub(crate) fn start(kind: &str) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(["peer", kind])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut process = Process(child);
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().context("no output")?).read_line(&mut line)?;
        match line.trim().parse() {
            Ok(address) => Ok(Self { address, process }),
            Err(_) => bail!("the peer {kind} did not start: {line:?}"),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

/// An HTTP/1.1 connection that is kept, with no more than what a load generator needs.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends a prepared request and reads the whole answer; gives its body, or an error for any status but 200.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        self.stream.write_all(request).await?;
        loop {
            if let Some((status, body, used)) = answer(&self.buffer)? {
                let body = body.to_vec();
                self.buffer.drain(..used);
                ensure!(status == 200, "the answer was {status}: {}", String::from_utf8_lossy(&body));
                return Ok(body);
            }
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the connection was closed");
        }
    }
}

/// A POST with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A call of a method through a gateway.
pub(crate) fn call(key: &str, method: &str, args: &str) -> Vec<u8> {
    post(&format!("/v1/grains/pinger/{key}/{method}"), args)
}

/// Status, body and length of a whole answer at the start of the bytes; `None` while it is not all there.
fn answer(bytes: &[u8]) -> Result<Option<(u16, &[u8], usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(bytes.get(..end).unwrap_or_default())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status")?.parse()?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .context("an answer without a length")?;
    let used = end + 4 + length.1.trim().parse::<usize>()?;
    Ok(bytes.get(end + 4..used).map(|body| (status, body, used)))
}

/// A runtime for load generators: they share the machine with what they load.
pub(crate) fn load_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_when_all_of_it_is_there() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]HTTP";
        assert_eq!(answer(bytes).unwrap(), Some((200, &b"[]"[..], bytes.len() - 4)));
        assert_eq!(answer(&bytes[..bytes.len() - 5]).unwrap(), None);
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\nCont").unwrap(), None);
        assert!(answer(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
