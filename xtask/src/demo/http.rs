//! The smallest HTTP client that calls grains: one connection, one request at a time, every wait bounded.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest wait for the next bytes of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// A connection to a gateway.
#[derive(Debug)]
pub(super) struct Client {
    gateway: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

/// An answer's status and body.
#[derive(Debug)]
struct Answer {
    status: u16,
    keep_alive: bool,
    body: Vec<u8>,
}

impl Client {
    /// A client of this gateway; it connects when it calls.
    pub(super) fn new(gateway: SocketAddr) -> Self {
        Self { gateway, connection: None }
    }

    /// Calls a method, and returns its result. After any error the next call connects anew.
    pub(super) fn call(&mut self, grain: &str, method: &str, arguments: &Value) -> Result<Value> {
        let body = arguments.to_string();
        let request = format!(
            "POST /v1/grains/{grain}/{method} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.gateway,
            body.len()
        );
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        connection.get_mut().write_all(request.as_bytes()).context("could not send the request")?;
        let answer = read_answer(&mut connection)?;
        if answer.keep_alive {
            self.connection = Some(connection);
        }
        if answer.status != 200 {
            bail!("{grain} {method}: status {}: {}", answer.status, String::from_utf8_lossy(&answer.body));
        }
        serde_json::from_slice(&answer.body).context("the answer is no JSON")
    }

    fn connect(&self) -> Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect_timeout(&self.gateway, CONNECT_TIMEOUT)
            .with_context(|| format!("could not connect to {}", self.gateway))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(BufReader::new(stream))
    }
}

/// Reads one answer. The body's length has to be announced; the gateway always does that.
fn read_answer(connection: &mut impl std::io::BufRead) -> Result<Answer> {
    let mut head = connection.take(ANSWER_BYTES_MAX);
    let mut line = String::new();
    head.read_line(&mut line).context("the gateway did not answer")?;
    let status = parse_status(&line).with_context(|| format!("no HTTP status: {line:?}"))?;
    let (mut length, mut keep_alive) = (None, true);
    loop {
        line.clear();
        head.read_line(&mut line).context("the answer broke off in its headers")?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = Some(value.trim().parse::<u64>().context("bad content-length")?),
            "connection" => keep_alive = !value.trim().eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let length = length.context("the answer has no content-length")?;
    anyhow::ensure!(length <= ANSWER_BYTES_MAX, "the answer has {length} bytes");
    let mut body = Vec::new();
    connection.take(length).read_to_end(&mut body).context("the answer broke off")?;
    anyhow::ensure!(
        body.len() as u64 == length,
        "the answer broke off after {} of {length} bytes",
        body.len()
    );
    Ok(Answer { status, keep_alive, body })
}

fn parse_status(line: &str) -> Option<u16> {
    line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_what_follows_it_is_left() {
        let mut bytes: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\n10HTTP/1.1 ";
        let answer = read_answer(&mut bytes).unwrap();
        assert_eq!((answer.status, answer.keep_alive, answer.body.as_slice()), (200, true, b"10".as_slice()));
        assert_eq!(bytes, b"HTTP/1.1 ");
    }

    #[test]
    fn a_broken_answer_is_an_error() {
        for broken in
            ["", "junk\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"]
        {
            assert!(read_answer(&mut broken.as_bytes()).is_err(), "{broken:?}");
        }
    }
}
