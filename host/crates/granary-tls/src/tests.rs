//! Identities made by hand, good ones and bad ones.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::*;

const HERE: &str = "127.0.0.1";

fn here() -> IpAddr {
    HERE.parse().unwrap()
}

struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn ca() -> Ca {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    Ca { pem, issuer: Issuer::new(params, key) }
}

/// A certificate and its key, as PEM.
fn leaf(ca: &Ca, name: &str, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    (params.signed_by(&key, &ca.issuer).unwrap().pem(), key.serialize_pem())
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn link(&self, ca: &Ca, (cert, key): &(String, String)) -> LinkFiles {
        LinkFiles {
            cert: self.file("cert.pem", cert),
            key: self.file("key.pem", key),
            ca: self.file("ca.pem", &ca.pem),
        }
    }
}

fn refused(files: LinkFiles) -> String {
    LinkTls::load(files, here()).unwrap_err().to_string()
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let (folder, ca) = (Folder::new(), ca());
    let good = folder.link(&ca, &leaf(&ca, HERE, |_| {}));
    assert!(LinkTls::load(good.clone(), here()).is_ok());

    let missing = refused(LinkFiles { ca: folder.0.path().join("none.pem"), ..good.clone() });
    assert!(missing.contains("the CA file") && missing.contains("none.pem cannot be read"), "{missing}");
    let empty = refused(LinkFiles { cert: folder.file("empty.pem", ""), ..good.clone() });
    assert!(empty.contains("empty.pem holds no certificate in PEM form"), "{empty}");
    let garbage = refused(LinkFiles { key: folder.file("garbage.pem", "garbage"), ..good.clone() });
    assert!(garbage.contains("garbage.pem holds no key in PEM form"), "{garbage}");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let broken = refused(LinkFiles { cert: folder.file("broken.pem", broken), ..good.clone() });
    assert!(broken.contains("broken.pem cannot be used"), "{broken}");
    let other = leaf(&ca, HERE, |_| {}).1;
    let mismatch = refused(LinkFiles { key: folder.file("other.pem", &other), ..good.clone() });
    assert!(mismatch.contains("other.pem does not belong to the certificate in"), "{mismatch}");
    std::fs::set_permissions(&good.key, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refused(good).contains("mode 640, others could read it: chmod 600"));
}

#[test]
fn a_certificate_that_other_silos_would_refuse_is_refused_at_home() {
    let (folder, own, other) = (Folder::new(), ca(), ca());
    let foreign = refused(folder.link(&own, &leaf(&other, HERE, |_| {})));
    assert!(
        foreign.contains("cert.pem cannot be used: the certificate is not signed by the CA"),
        "{foreign}"
    );
    let expired = leaf(&own, HERE, |params| {
        params.not_after = (SystemTime::now() - Duration::from_secs(60)).into();
    });
    assert!(refused(folder.link(&own, &expired)).contains("the certificate has expired"));
    let early = leaf(&own, HERE, |params| {
        params.not_before = (SystemTime::now() + Duration::from_secs(3600)).into();
    });
    assert!(refused(folder.link(&own, &early)).contains("is not valid yet"));
    let elsewhere = refused(folder.link(&own, &leaf(&own, "127.0.0.2", |_| {})));
    assert!(elsewhere.contains("127.0.0.2") && elsewhere.contains("not 127.0.0.1"), "{elsewhere}");
    let server_only = leaf(&own, HERE, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let server_only = refused(folder.link(&own, &server_only));
    assert!(server_only.contains("needs both serverAuth and clientAuth"), "{server_only}");
}

#[test]
fn changed_files_are_taken_and_bad_ones_leave_the_earlier_identity() {
    let (folder, ca) = (Folder::new(), ca());
    let files = folder.link(&ca, &leaf(&ca, HERE, |_| {}));
    let tls = LinkTls::load(files, here()).unwrap();
    let first = tls.server();
    assert_eq!(tls.reload(), Ok(false));
    let _ = folder.file("key.pem", "half a ke");
    assert!(tls.reload().is_err());
    assert!(Arc::ptr_eq(&first, &tls.server()), "a bad file changes nothing");
    let _ = folder.link(&ca, &leaf(&ca, HERE, |_| {}));
    assert_eq!(tls.reload(), Ok(true));
    assert!(!Arc::ptr_eq(&first, &tls.server()));
    assert_eq!(tls.reload(), Ok(false));
}

#[test]
fn an_edge_needs_no_ca_and_refuses_what_is_expired() {
    let (folder, ca) = (Folder::new(), ca());
    let (cert, key) = leaf(&ca, "example.org", |_| {});
    let files = EdgeFiles { cert: folder.file("cert.pem", &cert), key: folder.file("key.pem", &key) };
    let edge = EdgeTls::load(files.clone()).unwrap();
    let (cert, key) = leaf(&ca, "example.org", |params| {
        params.not_after = (SystemTime::now() - Duration::from_secs(60)).into();
    });
    let _ = (folder.file("cert.pem", &cert), folder.file("key.pem", &key));
    let expired = EdgeTls::load(files).unwrap_err().to_string();
    assert!(expired.contains("cert.pem cannot be used: the certificate has expired"), "{expired}");
    assert!(edge.reload().is_err());
}

#[test]
fn a_certificate_names_addresses_exactly() {
    let (cert, _) = leaf(&ca(), HERE, |_| {});
    let folder = Folder::new();
    let cert = read_certificates(&folder.file("cert.pem", &cert)).unwrap();
    assert!(names_address(&cert[0], here()));
    assert!(!names_address(&cert[0], "127.0.0.2".parse().unwrap()));
    assert!(!names_address(&cert[0], "::1".parse().unwrap()));
}
