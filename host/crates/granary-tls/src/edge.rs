//! The identity of a silo's HTTP ports. Who calls there shows no certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};

use crate::error::{TlsError, explain};
use crate::read::{KEY, bytes, certified_key};
use crate::{Reload, provider};

/// Where the identity of the HTTP ports lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeFiles {
    /// The certificate, and those between it and its CA.
    pub cert: PathBuf,
    /// Its private key, closed to others.
    pub key: PathBuf,
}

/// What a silo's HTTP ports show.
#[derive(Debug)]
pub struct EdgeTls {
    files: EdgeFiles,
    current: ArcSwap<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    content: [Vec<u8>; 2],
    server: Arc<ServerConfig>,
}

impl EdgeTls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// A file cannot be read or parsed, the key is another certificate's, or the certificate has expired.
    pub fn load(files: EdgeFiles) -> Result<Self, TlsError> {
        let loaded = build(&files, content(&files)?)?;
        Ok(Self { files, current: ArcSwap::from_pointee(loaded) })
    }

    /// For connections that others open.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().server)
    }
}

impl Reload for EdgeTls {
    fn reload(&self) -> Result<bool, TlsError> {
        let content = content(&self.files)?;
        if content == self.current.load().content {
            return Ok(false);
        }
        self.current.store(Arc::new(build(&self.files, content)?));
        Ok(true)
    }
}

fn content(files: &EdgeFiles) -> Result<[Vec<u8>; 2], TlsError> {
    Ok([bytes("certificate", &files.cert)?, bytes(KEY, &files.key)?])
}

fn build(files: &EdgeFiles, content: [Vec<u8>; 2]) -> Result<Loaded, TlsError> {
    let [cert, key] = &content;
    let identity = certified_key((&files.cert, cert), (&files.key, key))?;
    if let Some(certificate) = identity.cert.first() {
        check_time(&files.cert, certificate)?;
    }
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| TlsError::Certificate { path: files.cert.clone(), reason: explain(&error) })?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Loaded { server: Arc::new(server), content })
}

/// Finds a certificate out of its time. Its CA is not known here, so every other objection is the clients' affair.
fn check_time(path: &Path, certificate: &CertificateDer<'static>) -> Result<(), TlsError> {
    let mut roots = RootCertStore::empty();
    if roots.add(certificate.clone()).is_err() {
        return Ok(());
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let Ok(verifier) = builder.build() else { return Ok(()) };
    match verifier.verify_client_cert(certificate, &[], UnixTime::now()) {
        Err(
            error @ Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            ),
        ) => Err(TlsError::Certificate { path: path.to_owned(), reason: explain(&error) }),
        _ => Ok(()),
    }
}
