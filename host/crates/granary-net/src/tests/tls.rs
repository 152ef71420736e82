//! Links under mutual TLS: what they let in, and whom they dial.

use std::path::PathBuf;

use granary_tls::{LinkFiles, provider};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, HandshakeKind, RootCertStore, ServerConfig};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::bad_peers::{hasty, patient};
use super::*;

const HERE: &str = "127.0.0.1";
const ELSEWHERE: &str = "127.0.0.2";

struct Ca {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
struct Leaf {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Ca {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { certificate: params.self_signed(&key).unwrap(), issuer: Issuer::new(params, key) }
    }

    fn leaf(&self, name: &str) -> Leaf {
        self.leaf_until(name, Duration::from_secs(3600))
    }

    fn leaf_until(&self, name: &str, valid: Duration) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = (std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).into();
        if !valid.is_zero() {
            params.not_after = (std::time::SystemTime::now() + valid).into();
        }
        Leaf { certificate: params.signed_by(&key, &self.issuer).unwrap(), key }
    }

    /// An identity for a silo at `name`, as its settings would give it.
    fn identity(&self, name: &str) -> Arc<LinkTls> {
        let (folder, leaf) = (tempfile::tempdir().unwrap(), self.leaf(name));
        let file = |name: &str, text: &str| -> PathBuf {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            path
        };
        let files = LinkFiles {
            cert: file("cert.pem", &leaf.certificate.pem()),
            key: file("key.pem", &leaf.key.serialize_pem()),
            ca: file("ca.pem", &self.certificate.pem()),
        };
        Arc::new(LinkTls::load(files, name.parse().unwrap()).unwrap())
    }

    async fn silo(&self, limits: NetLimits) -> Silo {
        Silo::start_secured("c", Some(self.identity(HERE)), limits).await
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        roots
    }

    /// A client made by hand.
    fn client(&self, leaf: Option<&Leaf>) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(self.roots());
        match leaf {
            None => builder.with_no_client_auth(),
            Some(leaf) => builder.with_client_auth_cert(leaf.chain(), leaf.private_key()).unwrap(),
        }
    }
}

impl Leaf {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.der().clone()]
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).unwrap()
    }
}

async fn handshake(to: SiloAddress, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(to.endpoint()).await.unwrap();
    TlsConnector::from(config).connect(ServerName::try_from(HERE).unwrap(), socket).await
}

/// Says hello on a TLS connection made by hand; whether anything was answered.
async fn is_answered(to: SiloAddress, config: ClientConfig) -> bool {
    let Ok(mut stream) = handshake(to, Arc::new(config)).await else { return false };
    let me = SiloAddress { ip: [127, 0, 0, 1].into(), port: 1, generation: 1 };
    let hello = encode(FrameKind::Hello, &Hello::new("c", me, "raw", to, Lane::Application)).unwrap();
    if stream.write_all(&hello).await.is_err() {
        return false;
    }
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 64])).await;
    matches!(read.expect("the silo says nothing and does not close"), Ok(1..))
}

fn not_delivered(outcome: Result<Response, NetError>) -> String {
    let Err(NetError::NotDelivered(why)) = outcome else { panic!("{outcome:?}") };
    why
}

async fn until_refused(silo: &Silo, count: u64) {
    until("the refusal is counted", || silo.network.stats().snapshot().connections_refused == count).await;
    assert_eq!(silo.handler.started.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn silos_of_one_ca_talk_on_all_lanes_and_in_both_directions() {
    let ca = Ca::new();
    let (a, b) = (ca.silo(patient()).await, ca.silo(patient()).await);
    for lane in [Lane::System, Lane::Application, Lane::Bulk] {
        assert_eq!(a.ask(b.me, lane, "echo").await, answer(b"body"));
        assert_eq!(b.ask(a.me, lane, "echo").await, answer(b"body"));
    }
    let large: Vec<u8> = (0_u32..5_000_000).map(|n| n.to_le_bytes()[0]).collect();
    let got = a.network.request(b.me, Lane::Bulk, admin("echo", &large), PATIENCE).await;
    assert!(got == answer(&large), "a long message comes back whole");
}

#[tokio::test]
async fn a_silo_of_another_ca_is_neither_dialled_nor_let_in() {
    let (a, b) = (Ca::new().silo(patient()).await, Ca::new().silo(patient()).await);
    let why = not_delivered(a.ask(b.me, Lane::Application, "echo").await);
    assert!(why.contains("TLS failed: the certificate is not signed by the CA"), "{why}");
    until_refused(&b, 1).await;
}

#[tokio::test]
async fn who_shows_no_certificate_is_not_answered() {
    let ca = Ca::new();
    let silo = ca.silo(patient()).await;
    assert!(is_answered(silo.me, ca.client(Some(&ca.leaf(HERE)))).await);
    assert!(!is_answered(silo.me, ca.client(None)).await);
    assert!(!is_answered(silo.me, ca.client(Some(&Ca::new().leaf(HERE)))).await, "one of another CA neither");
    until_refused(&silo, 2).await;
}

#[tokio::test]
async fn an_expired_certificate_is_refused_on_both_sides() {
    let ca = Ca::new();
    let silo = ca.silo(patient()).await;
    let expired = ca.leaf_until(HERE, Duration::ZERO);
    assert!(!is_answered(silo.me, ca.client(Some(&expired))).await);
    until_refused(&silo, 1).await;

    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(expired.chain(), expired.private_key())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = silo.start_asking(address(&listener), "echo", PATIENCE);
    let (socket, _) = listener.accept().await.unwrap();
    assert!(TlsAcceptor::from(Arc::new(config)).accept(socket).await.is_err());
    let why = not_delivered(asked.await.unwrap());
    assert!(why.contains("the certificate has expired"), "{why}");
}

#[tokio::test]
async fn a_certificate_must_name_the_address_in_both_directions() {
    let ca = Ca::new();
    let right = ca.silo(patient()).await;
    // It has a certificate of the right CA, for another address than the one it uses.
    let wrong = Silo::start_secured("c", Some(ca.identity(ELSEWHERE)), patient()).await;
    let dialled = not_delivered(right.ask(wrong.me, Lane::Application, "echo").await);
    assert!(dialled.contains(ELSEWHERE) && dialled.contains("not 127.0.0.1"), "{dialled}");
    until_refused(&wrong, 1).await;
    let let_in = not_delivered(wrong.ask(right.me, Lane::Application, "echo").await);
    assert!(let_in.contains(&format!("does not name the address of {}", wrong.me)), "{let_in}");
    until_refused(&right, 1).await;
}

#[tokio::test]
async fn plain_and_tls_fail_at_once_and_say_which_is_which() {
    let (plain, secure) = (Silo::start_with("c", patient()).await, Ca::new().silo(patient()).await);
    let to_secure = not_delivered(plain.ask(secure.me, Lane::Application, "echo").await);
    assert!(to_secure.contains("it speaks TLS, and this silo has none"), "{to_secure}");
    until_refused(&secure, 1).await;
    let to_plain = not_delivered(secure.ask(plain.me, Lane::Application, "echo").await);
    assert!(to_plain.contains("as one without TLS does"), "{to_plain}");
    until_refused(&plain, 1).await;
}

#[tokio::test]
async fn a_slow_or_endless_tls_handshake_is_ended() {
    let ca = Ca::new();
    let silo = ca.silo(hasty()).await;
    let mut silent = RawPeer::connect(silo.me).await;
    // The head of a record that never comes.
    let mut slow = RawPeer::connect(silo.me).await;
    slow.write(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await;
    assert_eq!(silent.next().await, None);
    until_refused(&silo, 2).await;

    // A client hello that claims 16 MiB and brings them record by record.
    let silo = ca.silo(patient()).await;
    let mut endless = RawPeer::connect(silo.me).await;
    let mut record = vec![0; 5 + 16_384];
    record[..9].copy_from_slice(&[0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0xff, 0xff, 0xff]);
    let mut sent = 0;
    while endless.socket.write_all(&record).await.is_ok() {
        sent += record.len();
        assert!(sent < 64 << 20, "the silo reads for ever");
    }
    until_refused(&silo, 1).await;
    assert!(silo.network.stats().snapshot().bytes_in == 0);
}

#[tokio::test]
async fn a_session_is_never_resumed() {
    let ca = Ca::new();
    let silo = ca.silo(patient()).await;
    let config = Arc::new(ca.client(Some(&ca.leaf(HERE))));
    for _ in 0..2 {
        let mut stream = handshake(silo.me, Arc::clone(&config)).await.unwrap();
        let me = SiloAddress { ip: [127, 0, 0, 1].into(), port: 1, generation: 1 };
        let hello = encode(FrameKind::Hello, &Hello::new("c", me, "raw", silo.me, Lane::System)).unwrap();
        stream.write_all(&hello).await.unwrap();
        assert!(stream.read(&mut [0; 64]).await.unwrap() > 0, "tickets, if any, have come with this");
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
    }
}
