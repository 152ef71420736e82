//! TLS identities from PEM files: read, checked, made into configurations, read again when they change.
//!
//! [`LinkTls`] is the one identity that a silo shows to other silos, in both directions; [`EdgeTls`] the one that
//! its HTTP ports show; [`outgoing`] is whom grains trust when they send requests. Nothing here opens a socket.
//!
//! Invariants:
//! - TLS 1.3 alone, and no resumption: each connection proves both sides anew, so that a changed CA is in force
//!   for every connection made after the change.
//! - What cannot be used is found when it is read, with the file's path, and never at the first connection.
//! - A changed file that cannot be used leaves the earlier identity in force.
//! - A key is neither logged nor printed.
//!
//! The rule of names is one for both directions: a silo's certificate names, as an IP address, the address on
//! which the silo listens.

mod edge;
mod error;
mod link;
mod outgoing;
mod read;

use std::net::IpAddr;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

pub use crate::edge::{EdgeFiles, EdgeTls};
pub use crate::error::{TlsError, explain, explain_io, explain_refused_certificate};
pub use crate::link::{LinkFiles, LinkTls};
pub use crate::outgoing::outgoing;
pub use crate::read::{FILE_BYTES_MAX, read_certificates};

/// An identity whose files may change under it.
pub trait Reload: Send + Sync {
    /// Takes the files' new content, if it has changed; whether it had.
    ///
    /// # Errors
    /// The new content cannot be used; the earlier one stays in force.
    fn reload(&self) -> Result<bool, TlsError>;
}

/// The cryptography behind all of Granary's TLS.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Whether a certificate names this IP address.
#[must_use]
pub fn names_address(certificate: &CertificateDer<'_>, address: IpAddr) -> bool {
    let name = ServerName::IpAddress(address.into());
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|certificate| rustls::client::verify_server_name(&certificate, &name).is_ok())
}

#[cfg(test)]
mod tests;
