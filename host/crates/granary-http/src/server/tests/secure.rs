//! An edge that speaks HTTPS.

use std::os::unix::fs::PermissionsExt as _;

use granary_tls::{EdgeFiles, EdgeTls, provider};
use rcgen::generate_simple_self_signed;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::*;

/// An edge with a certificate for `localhost`, and a client that trusts it.
async fn secure(change: impl FnOnce(&mut EdgeLimits)) -> (Fixture, TlsConnector) {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let files = EdgeFiles {
        cert: file("cert.pem", &made.cert.pem()),
        key: file("key.pem", &made.signing_key.serialize_pem()),
    };
    let access = EdgeAccess { token: None, tls: Some(Arc::new(EdgeTls::load(files).unwrap())) };
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (protected(EdgeKind::Gateway, access, change).await, TlsConnector::from(Arc::new(client)))
}

#[tokio::test]
async fn calls_go_through_https() {
    let (it, client) = secure(|_| {}).await;
    let stream = TcpStream::connect(it.address).await.unwrap();
    let mut stream = client.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    stream.write_all(post("/v1/grains/t/k/echo", "", "[1]").as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("[1]"), "{answer}");
}

#[tokio::test]
async fn a_plain_request_is_told_to_speak_https() {
    let (it, _) = secure(|_| {}).await;
    let answer = talk(it.address, &post("/v1/grains/t/k/echo", "", "[1]")).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("this port speaks HTTPS"), "{answer}");
    assert_eq!(it.server.stats().requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_tls_handshake_that_does_not_go_on_is_ended() {
    let (it, _) = secure(|limits| limits.header_timeout = Duration::from_millis(50)).await;
    for bytes in [&[][..], &[0x16][..], &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01][..]] {
        let mut stream = TcpStream::connect(it.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut [0; 8])).await;
        assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{bytes:?} was left open: {closed:?}");
    }
}
