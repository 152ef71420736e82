//! Certificates for tests of TLS to a store's server.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A CA with a certificate for one name.
pub(crate) struct TlsFiles {
    folder: tempfile::TempDir,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl TlsFiles {
    pub(crate) fn new(name: &str) -> Self {
        let mut authority = CertificateParams::new(vec![]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let ca = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca.pem()).unwrap();
        Self { folder, certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        Path::join(self.folder.path(), "ca.pem")
    }
}
