//! The identity of a silo's links: one certificate for both directions, and the CA of the cluster.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::Resumption;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::{TlsError, explain};
use crate::read::{KEY, bytes, certified_key, roots};
use crate::{Reload, provider};

/// Where the identity of a silo's links lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFiles {
    /// The silo's certificate, and those between it and the CA.
    pub cert: PathBuf,
    /// Its private key, closed to others.
    pub key: PathBuf,
    /// The cluster's CA. A change of CA holds both for a while.
    pub ca: PathBuf,
}

/// What a silo shows to other silos, and what it wants of them.
#[derive(Debug)]
pub struct LinkTls {
    files: LinkFiles,
    address: IpAddr,
    current: ArcSwap<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    content: [Vec<u8>; 3],
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl LinkTls {
    /// Reads and checks the files. `address` is where the silo listens: its certificate must name it.
    ///
    /// # Errors
    /// A file cannot be read or parsed, the key is another certificate's, the CA did not sign it, it has expired,
    /// is not for both directions, or does not name the address.
    pub fn load(files: LinkFiles, address: IpAddr) -> Result<Self, TlsError> {
        let loaded = build(&files, address, content(&files)?)?;
        Ok(Self { files, address, current: ArcSwap::from_pointee(loaded) })
    }

    /// For connections that others open: who has no certificate of the CA is refused.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().server)
    }

    /// For connections that this silo opens.
    #[must_use]
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current.load().client)
    }
}

impl Reload for LinkTls {
    fn reload(&self) -> Result<bool, TlsError> {
        let content = content(&self.files)?;
        if content == self.current.load().content {
            return Ok(false);
        }
        self.current.store(Arc::new(build(&self.files, self.address, content)?));
        Ok(true)
    }
}

fn content(files: &LinkFiles) -> Result<[Vec<u8>; 3], TlsError> {
    Ok([bytes("certificate", &files.cert)?, bytes(KEY, &files.key)?, bytes("CA", &files.ca)?])
}

fn build(files: &LinkFiles, address: IpAddr, content: [Vec<u8>; 3]) -> Result<Loaded, TlsError> {
    let [cert, key, ca] = &content;
    let identity = certified_key((&files.cert, cert), (&files.key, key))?;
    let roots = roots("CA", &files.ca, ca)?;
    let clients = clients_of(&roots).map_err(|reason| ca_error(files, reason))?;
    check(files, address, &identity, &roots, &*clients)?;
    let identity = Arc::new(SingleCertAndKey::from(identity));
    let unusable = |error: rustls::Error| ca_error(files, explain(&error));
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::clone(&identity) as _);
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_client_cert_resolver(identity);
    client.resumption = Resumption::disabled();
    Ok(Loaded { server: Arc::new(server), client: Arc::new(client), content })
}

fn ca_error(files: &LinkFiles, reason: String) -> TlsError {
    TlsError::Certificate { path: files.ca.clone(), reason }
}

fn clients_of(roots: &Arc<RootCertStore>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider())
        .build()
        .map_err(|error| error.to_string())
}

/// Looks at the own certificate as another silo would: better now than at the first connection.
fn check(
    files: &LinkFiles,
    address: IpAddr,
    identity: &CertifiedKey,
    roots: &Arc<RootCertStore>,
    clients: &dyn ClientCertVerifier,
) -> Result<(), TlsError> {
    let refused = |error: rustls::Error| {
        let ca = files.ca.display();
        let reason = format!("{} (CA {ca})", explain(&error));
        TlsError::Certificate { path: files.cert.clone(), reason }
    };
    let servers = WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), provider())
        .build()
        .map_err(|error| ca_error(files, error.to_string()))?;
    let (certificate, others) = identity.cert.split_first().ok_or_else(|| TlsError::Certificate {
        path: files.cert.clone(),
        reason: "there is none".to_owned(),
    })?;
    let now = UnixTime::now();
    clients.verify_client_cert(certificate, others, now).map_err(refused)?;
    let name = ServerName::IpAddress(address.into());
    servers.verify_server_cert(certificate, others, &name, &[], now).map_err(refused)?;
    Ok(())
}
