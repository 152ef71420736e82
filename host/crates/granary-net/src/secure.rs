//! Opens a socket for frames: plain TCP, or mutual TLS with a bound on what is read before it is agreed.
//!
//! The deadline of the whole handshake is the callers'. After the handshake both kinds of connection are read and
//! written through the same code.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use granary_core::id::SiloAddress;
use granary_tls::{LinkTls, explain_io};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, split};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// How many bytes of a TLS handshake are read from the other side. A chain of three certificates has about 4 KiB.
pub const TLS_HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// The reading side of a connection.
pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Sync + Unpin>;

/// The writing side of a connection.
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// A connection that is ready for frames.
pub(crate) struct Opened {
    pub(crate) read: ReadHalf,
    pub(crate) write: WriteHalf,
    /// What the side that opened the connection has shown; `None` on plain TCP.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

/// Opens a connection that another silo made. The error says what is wrong with it.
pub(crate) async fn accept(tls: Option<&LinkTls>, socket: TcpStream) -> Result<Opened, String> {
    socket.set_nodelay(true).map_err(|err| err.to_string())?;
    let Some(tls) = tls else { return Ok(plain(socket)) };
    let acceptor = TlsAcceptor::from(tls.server());
    let mut stream = acceptor.accept(Metered::new(socket)).await.map_err(|error| tls_failed(&error))?;
    let (metered, connection) = stream.get_mut();
    metered.lift();
    let certificate = first(connection.peer_certificates());
    Ok(opened(stream, certificate))
}

/// Opens a connection that this silo made. The other side must show a certificate that names its address.
pub(crate) async fn connect(
    tls: Option<&LinkTls>,
    socket: TcpStream,
    to: SiloAddress,
) -> Result<Opened, String> {
    socket.set_nodelay(true).map_err(|err| err.to_string())?;
    let Some(tls) = tls else { return Ok(plain(socket)) };
    let name = ServerName::IpAddress(to.ip.into());
    let connector = TlsConnector::from(tls.client());
    let mut stream =
        connector.connect(name, Metered::new(socket)).await.map_err(|error| tls_failed(&error))?;
    stream.get_mut().0.lift();
    // The name was checked in the handshake.
    Ok(opened(stream, None))
}

/// Whether a connection begins with a TLS record. No true hello does: it would be longer than any is.
pub(crate) fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [0x14..=0x17, 0x03, ..])
}

fn tls_failed(error: &io::Error) -> String {
    format!("TLS failed: {}", explain_io(error))
}

fn first(chain: Option<&[CertificateDer<'static>]>) -> Option<CertificateDer<'static>> {
    chain.and_then(<[_]>::first).cloned()
}

fn plain(socket: TcpStream) -> Opened {
    let (read, write) = socket.into_split();
    Opened { read: Box::new(read), write: Box::new(write), certificate: None }
}

fn opened<S>(stream: S, certificate: Option<CertificateDer<'static>>) -> Opened
where
    S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
{
    let (read, write) = split(stream);
    Opened { read: Box::new(read), write: Box::new(write), certificate }
}

/// A socket that gives at most [`TLS_HANDSHAKE_BYTES_MAX`] bytes and one read more, until the bound is lifted.
#[derive(Debug)]
struct Metered {
    socket: TcpStream,
    left: usize,
}

impl Metered {
    fn new(socket: TcpStream) -> Self {
        Self { socket, left: TLS_HANDSHAKE_BYTES_MAX }
    }

    fn lift(&mut self) {
        self.left = usize::MAX;
    }
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.left == 0 {
            let why = format!("the handshake is longer than {TLS_HANDSHAKE_BYTES_MAX} bytes");
            return Poll::Ready(Err(io::Error::other(why)));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.socket).poll_read(cx, buf))?;
        if this.left != usize::MAX {
            this.left = this.left.saturating_sub(buf.filled().len() - before);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
