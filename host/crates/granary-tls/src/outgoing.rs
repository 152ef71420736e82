//! Whom the outgoing requests of grains trust. They show no certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{TlsError, explain};
use crate::provider;
use crate::read::{bytes, certificates};

/// A configuration for connections to servers that have a certificate of one of these CAs.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn outgoing(ca: &Path) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    // A system's bundle may hold some that are too old to be understood: they are trusted by nobody then.
    let (known, _) = roots.add_parsable_certificates(certificates("CA", ca, &bytes("CA", ca)?)?);
    if known == 0 {
        let reason = "none of its certificates is one of a CA".to_owned();
        return Err(TlsError::Certificate { path: ca.to_owned(), reason });
    }
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| TlsError::Certificate { path: ca.to_owned(), reason: explain(&error) })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // What one grain's connection left must not show in another's.
    client.resumption = Resumption::disabled();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(client))
}
