//! PEM files: read within a bound, and parsed.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, RootCertStore};

use crate::error::{TlsError, explain};
use crate::provider;

/// The longest PEM file that is read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads all certificates of a PEM file: a chain, or the CAs that are trusted.
///
/// # Errors
/// The file cannot be read, or holds no certificate.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    certificates("certificate", path, &bytes("certificate", path)?)
}

/// The content of a file. A key's must be closed to others.
pub(crate) fn bytes(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |reason: String| TlsError::Unreadable { what, path: path.to_owned(), reason };
    // One descriptor for the rights and the content, so that both are of the same file.
    let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let meta = file.metadata().map_err(|error| unreadable(error.to_string()))?;
    if !meta.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    if what == KEY && meta.mode() & 0o077 != 0 {
        return Err(TlsError::Exposed { path: path.to_owned(), mode: meta.mode() & 0o777 });
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// What error texts call a file with a private key.
pub(crate) const KEY: &str = "key";

pub(crate) fn certificates(
    what: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let not_pem = |reason: String| TlsError::NotPem { what, path: path.to_owned(), reason };
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = parsed.map_err(|error| not_pem(error.to_string()))?;
    if certificates.is_empty() {
        return Err(not_pem("it has no section `BEGIN CERTIFICATE`".to_owned()));
    }
    Ok(certificates)
}

/// A chain and its key, which must belong together.
pub(crate) fn certified_key(
    (certificate_path, certificate_pem): (&Path, &[u8]),
    (key_path, key_pem): (&Path, &[u8]),
) -> Result<CertifiedKey, TlsError> {
    let chain = certificates("certificate", certificate_path, certificate_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| TlsError::NotPem {
        what: KEY,
        path: key_path.to_owned(),
        reason: error.to_string(),
    })?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            TlsError::KeyMismatch { key: key_path.to_owned(), certificate: certificate_path.to_owned() }
        }
        Error::InvalidCertificate(_) => {
            TlsError::Certificate { path: certificate_path.to_owned(), reason: explain(&error) }
        }
        other => TlsError::Key { path: key_path.to_owned(), reason: explain(&other) },
    })
}

/// The CAs that are trusted.
pub(crate) fn roots(what: &'static str, path: &Path, pem: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(what, path, pem)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::Certificate { path: path.to_owned(), reason: explain(&error) })?;
    }
    Ok(Arc::new(roots))
}
