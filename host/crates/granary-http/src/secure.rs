//! HTTPS on an edge: the TLS handshake before the first request, within its deadline.
//!
//! A client that speaks plain HTTP to the port is told so in plain HTTP, since nothing else would reach its user.

use std::time::Duration;

use granary_tls::{EdgeTls, explain_io};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::problem::Problem;

/// How much of a plain request is read before it is answered, so that closing does not reset the connection.
const PLAIN_BYTES_MAX: usize = 4096;

/// The first byte of a TLS connection: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// Takes a connection's TLS handshake. The error says what is wrong with it.
pub(crate) async fn accept(
    tls: &EdgeTls,
    stream: TcpStream,
    within: Duration,
) -> Result<TlsStream<TcpStream>, String> {
    timeout(within, handshake(tls, stream))
        .await
        .map_err(|_| format!("the TLS handshake took longer than {within:?}"))?
}

async fn handshake(tls: &EdgeTls, mut stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
    let mut first = [0];
    let count = stream.peek(&mut first).await.map_err(|error| error.to_string())?;
    if count == 0 {
        return Err("it was closed before the TLS handshake".to_owned());
    }
    if first != [TLS_HANDSHAKE] {
        let mut request = [0; PLAIN_BYTES_MAX];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(plain_refusal().as_bytes()).await;
        let _ = stream.shutdown().await;
        return Err("it does not speak TLS, and this port wants HTTPS".to_owned());
    }
    let accepted = TlsAcceptor::from(tls.server()).accept(stream).await;
    accepted.map_err(|error| format!("the TLS handshake failed: {}", explain_io(&error)))
}

/// What a plain HTTP client gets.
fn plain_refusal() -> String {
    let problem = Problem::bad_request("this port speaks HTTPS: say https:// and --ca-file");
    let body = serde_json::to_string(&problem).unwrap_or_default();
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
