//! `https`: TLS on a connection to a granted host, whose certificate must be for the name that was granted.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::{ErrorCode, HttpError};
use crate::grants::{Host, Target};

/// Speaks TLS with the target. The caller bounds the time.
pub(super) async fn secure(
    config: Arc<ClientConfig>,
    target: &Target,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, HttpError> {
    let name = server_name(&target.host).ok_or_else(|| {
        HttpError::new(ErrorCode::TlsCertificateError, format!("{target} can have no certificate"))
    })?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
        let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        let code = match of_tls {
            Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => {
                ErrorCode::TlsCertificateError
            }
            Some(Error::AlertReceived(_)) => ErrorCode::TlsAlertReceived(super::error::TlsAlert::default()),
            Some(_) => ErrorCode::TlsProtocolError,
            None => ErrorCode::ConnectionTerminated,
        };
        HttpError::new(code, format!("no TLS with {target}: {error}"))
    })
}

fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Name(name) => ServerName::try_from(name.clone()).ok(),
        Host::Address(IpAddr::V4(address)) => Some(ServerName::from(*address)),
        Host::Address(IpAddr::V6(address)) => Some(ServerName::from(*address)),
    }
}
