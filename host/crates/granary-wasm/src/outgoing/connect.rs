//! From a granted host to a connection: resolve once, check each address, connect to the very address that was checked.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use tokio::net::TcpStream;

use super::Outgoing;
use super::error::{ErrorCode, HttpError};
use crate::grants::{Host, Target, may_connect};

/// Addresses of one name that are tried, one after the other.
const ADDRESSES_TRIED_MAX: usize = 4;

/// Connects to a target that is granted. The caller bounds the time.
pub(super) async fn connect(
    outgoing: &Outgoing,
    target: &Target,
    private: bool,
) -> Result<TcpStream, HttpError> {
    let addresses = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolve(outgoing, name.clone(), target.port).await?,
    };
    let allowed = allowed(&addresses, target, private)?;
    let mut last = None;
    for address in allowed.into_iter().take(ADDRESSES_TRIED_MAX) {
        match TcpStream::connect(SocketAddr::new(address, target.port)).await {
            Ok(stream) => {
                // A slower connection is no reason to have none.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = Some((address, error)),
        }
    }
    Err(match last {
        Some((address, error)) => {
            let code = match error.kind() {
                ErrorKind::ConnectionRefused => ErrorCode::ConnectionRefused,
                ErrorKind::TimedOut => ErrorCode::ConnectionTimeout,
                ErrorKind::NetworkUnreachable => ErrorCode::DestinationIpUnroutable,
                _ => ErrorCode::DestinationUnavailable,
            };
            HttpError::new(code, format!("no connection to {target} at {address}: {error}"))
        }
        None => unknown(target),
    })
}

/// The addresses that a connection may be made to.
pub(super) fn allowed(
    addresses: &[IpAddr],
    target: &Target,
    private: bool,
) -> Result<Vec<IpAddr>, HttpError> {
    let mut refused = None;
    let mut allowed = Vec::new();
    for address in addresses {
        match may_connect(*address, &target.host, private) {
            Ok(()) => allowed.push(*address),
            Err(kind) => refused = Some((address, kind)),
        }
    }
    match refused {
        Some((address, kind)) if allowed.is_empty() => Err(HttpError::new(
            ErrorCode::DestinationIpProhibited,
            format!(
                "{target} is at {address}, {}; a deployment that wants this grants the address itself, or adds \
                 --allow-http-private",
                kind.text()
            ),
        )),
        _ => Ok(allowed),
    }
}

async fn resolve(outgoing: &Outgoing, name: String, port: u16) -> Result<Vec<IpAddr>, HttpError> {
    let failed = |text: String| HttpError::new(ErrorCode::DnsError(super::error::DnsError::default()), text);
    let permit = Arc::clone(&outgoing.lookups).acquire_owned().await;
    let permit = permit.map_err(|_| failed("names are not resolved any more".to_owned()))?;
    let asked = name.clone();
    // The permit goes with the thread, which cannot be told to stop: a slow resolver must not get more of them.
    let found = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let found = (asked.as_str(), port).to_socket_addrs();
        found.map(|addresses| addresses.map(|address| address.ip()).collect::<Vec<_>>())
    });
    match found.await {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(failed(format!("the name {name} does not resolve: {error}"))),
        Err(error) => Err(failed(format!("the look-up of {name} ended early: {error}"))),
    }
}

fn unknown(target: &Target) -> HttpError {
    HttpError::new(ErrorCode::DestinationNotFound, format!("{target} has no address"))
}
