//! `granary tls`: makes the certificates that silos show to each other.

use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use granary_tls::{LinkFiles, LinkTls};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::{CliError, output};
use crate::exit_code;

/// How long the CA is valid.
const CA_VALID: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long a silo's certificate is valid.
const SILO_VALID: Duration = Duration::from_secs(825 * 24 * 3600);

/// Certificates begin a little earlier, for clocks that are behind.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// The name of the CA. It stands in every certificate, so a second run with the same key issues for the same CA.
const CA_NAME: &str = "Granary cluster CA";

#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    #[command(subcommand)]
    verb: TlsVerb,
}

#[derive(Debug, Subcommand)]
enum TlsVerb {
    /// Make a CA, and a certificate for each silo.
    Init(InitArgs),
}

/// Make a CA, and a certificate for each silo.
///
///     granary tls init tls                                # silo-1 to silo-3 on this host, to try it out
///     granary tls init tls --silo silo-1=192.0.2.10 --silo silo-2=192.0.2.11
///     granary silo --listen 192.0.2.10:11111 --tls-cert tls/silo-1.pem --tls-key tls/silo-1-key.pem \
///         --tls-ca tls/ca.pem
///
/// A CA that lies in the folder already is used, so that silos can be added later. Give each host its own
/// certificate, its own key, and ca.pem; keep ca-key.pem away from all of them.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
struct InitArgs {
    /// The folder for the files; made if need be.
    dir: PathBuf,
    /// A silo and the IP addresses on which it listens [default: silo-1 to silo-3 on loopback]
    #[arg(long = "silo", value_name = "NAME=IP[,IP…]", value_parser = parse_silo)]
    silos: Vec<SiloNames>,
    /// Replace certificates of silos that exist.
    #[arg(long)]
    force: bool,
}

/// A silo and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SiloNames {
    name: String,
    addresses: Vec<IpAddr>,
}

pub(crate) fn run(args: &TlsArgs) -> Result<(), CliError> {
    let TlsVerb::Init(args) = &args.verb;
    init(args)
}

fn parse_silo(text: &str) -> Result<SiloNames, String> {
    let (name, addresses) = text.split_once('=').ok_or("a silo is given as NAME=IP[,IP…]")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.bytes().all(plain) {
        return Err("a silo's name has 1 to 64 letters, digits, '-', '_' or '.'".to_owned());
    }
    if matches!(name, "ca" | "ca-key") || name.ends_with("-key") {
        return Err(format!("{name} would collide with a file of another meaning"));
    }
    let addresses: Result<Vec<IpAddr>, _> =
        addresses.split(',').map(|address| address.trim().parse()).collect();
    let addresses = addresses.map_err(|_| "a silo's certificate names IP addresses, such as 192.0.2.10")?;
    if addresses.iter().any(IpAddr::is_unspecified) {
        return Err("an address that names no interface is no silo's".to_owned());
    }
    Ok(SiloNames { name: name.to_owned(), addresses })
}

fn default_silos() -> Vec<SiloNames> {
    let loopback = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)];
    (1..=3).map(|number| SiloNames { name: format!("silo-{number}"), addresses: loopback.clone() }).collect()
}

fn init(args: &InitArgs) -> Result<(), CliError> {
    let silos = if args.silos.is_empty() { default_silos() } else { args.silos.clone() };
    std::fs::create_dir_all(&args.dir).map_err(|error| cannot_write(&args.dir, &error))?;
    let ca = open_ca(&args.dir)?;
    for silo in &silos {
        let files = LinkFiles {
            cert: args.dir.join(format!("{}.pem", silo.name)),
            key: args.dir.join(format!("{}-key.pem", silo.name)),
            ca: args.dir.join("ca.pem"),
        };
        if !args.force && (files.cert.exists() || files.key.exists()) {
            return Err(CliError::data(format!(
                "{} exists: name other silos, or say --force to replace it",
                files.cert.display()
            )));
        }
        let (cert, key) = issue(&ca, silo).map_err(certificate_error)?;
        write(&files.cert, &cert, 0o644)?;
        write(&files.key, &key, 0o600)?;
        // What was written is judged as a silo will judge it.
        if let Some(address) = silo.addresses.first() {
            LinkTls::load(files.clone(), *address).map_err(|error| CliError::data(error.to_string()))?;
        }
        output::data(&format!("{} {}", files.cert.display(), files.key.display()))?;
    }
    let dir = args.dir.display();
    let first = silos.first().map_or("silo-1", |silo| &silo.name);
    output::note(&format!(
        "start each silo with its own: granary silo --name {first} --tls-cert {dir}/{first}.pem --tls-key \
         {dir}/{first}-key.pem --tls-ca {dir}/ca.pem\nkeep {dir}/ca-key.pem safe: who has it can join the cluster"
    ));
    Ok(())
}

/// The CA of the folder; it is made when there is none.
fn open_ca(dir: &Path) -> Result<Issuer<'static, KeyPair>, CliError> {
    let (cert_path, key_path) = (dir.join("ca.pem"), dir.join("ca-key.pem"));
    let params = ca_params().map_err(certificate_error)?;
    match (cert_path.exists(), key_path.exists()) {
        (true, true) => {
            let pem = std::fs::read_to_string(&key_path).map_err(|error| {
                CliError::data(format!("the key of the CA {} cannot be read: {error}", key_path.display()))
            })?;
            let key = KeyPair::from_pem(&pem).map_err(|error| {
                CliError::data(format!("the key of the CA {} cannot be used: {error}", key_path.display()))
            })?;
            Ok(Issuer::new(params, key))
        }
        (false, false) => {
            let key = KeyPair::generate().map_err(certificate_error)?;
            let cert = params.self_signed(&key).map_err(certificate_error)?;
            write(&key_path, &key.serialize_pem(), 0o600)?;
            write(&cert_path, &cert.pem(), 0o644)?;
            Ok(Issuer::new(params, key))
        }
        (_, has_key) => {
            let (there, missing) = if has_key { (&key_path, &cert_path) } else { (&cert_path, &key_path) };
            Err(CliError::data(format!("{} is there without {}", there.display(), missing.display())))
        }
    }
}

fn ca_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, CA_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = (SystemTime::now() - CLOCK_SKEW).into();
    params.not_after = (SystemTime::now() + CA_VALID).into();
    Ok(params)
}

/// A silo's certificate and key, as PEM. Beside its addresses the certificate names the silo and `localhost`, for
/// clients of its HTTP ports.
fn issue(ca: &Issuer<'static, KeyPair>, silo: &SiloNames) -> Result<(String, String), rcgen::Error> {
    let mut names: Vec<String> = silo.addresses.iter().map(ToString::to_string).collect();
    names.push(silo.name.replace('_', "-"));
    if silo.addresses.iter().any(IpAddr::is_loopback) {
        names.push("localhost".to_owned());
    }
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, silo.name.as_str());
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = (SystemTime::now() - CLOCK_SKEW).into();
    params.not_after = (SystemTime::now() + SILO_VALID).into();
    Ok((params.signed_by(&key, ca)?.pem(), key.serialize_pem()))
}

/// Writes a file with these rights, whatever was there before.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), CliError> {
    use std::io::Write as _;

    let temporary = path.with_extension("new");
    let _ = std::fs::remove_file(&temporary);
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CliError {
    CliError::new(exit_code::FAILED, format!("cannot write {}: {error}", path.display()))
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn certificate_error(error: rcgen::Error) -> CliError {
    CliError::new(exit_code::INTERNAL, format!("cannot make a certificate: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path, silos: &[&str], force: bool) -> InitArgs {
        let silos = silos.iter().map(|silo| parse_silo(silo).unwrap()).collect();
        InitArgs { dir: dir.to_owned(), silos, force }
    }

    fn load(dir: &Path, name: &str, address: &str) -> Result<LinkTls, granary_tls::TlsError> {
        let files = LinkFiles {
            cert: dir.join(format!("{name}.pem")),
            key: dir.join(format!("{name}-key.pem")),
            ca: dir.join("ca.pem"),
        };
        LinkTls::load(files, address.parse().unwrap())
    }

    #[test]
    fn silos_can_be_added_to_a_ca_and_are_not_replaced_by_accident() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("tls");
        init(&args(&dir, &[], false)).unwrap();
        let ca = std::fs::read(dir.join("ca.pem")).unwrap();
        load(&dir, "silo-3", "::1").unwrap();
        init(&args(&dir, &["far=192.0.2.10,2001:db8::1"], false)).unwrap();
        assert_eq!(std::fs::read(dir.join("ca.pem")).unwrap(), ca);
        load(&dir, "far", "2001:db8::1").unwrap();
        assert!(load(&dir, "far", "127.0.0.1").is_err());
        let again = init(&args(&dir, &["far=192.0.2.10"], false)).unwrap_err();
        assert_eq!(again.code, exit_code::DATA);
        assert!(again.message.contains("far.pem exists"), "{}", again.message);
        init(&args(&dir, &["far=192.0.2.11"], true)).unwrap();
        load(&dir, "far", "192.0.2.11").unwrap();
    }

    #[test]
    fn a_foreign_ca_certificate_is_noticed() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        init(&args(one.path(), &[], false)).unwrap();
        init(&args(two.path(), &[], false)).unwrap();
        std::fs::copy(one.path().join("ca.pem"), two.path().join("ca.pem")).unwrap();
        let refused = init(&args(two.path(), &["new=127.0.0.1"], false)).unwrap_err();
        assert!(refused.message.contains("not signed by the CA"), "{}", refused.message);
        std::fs::remove_file(two.path().join("ca.pem")).unwrap();
        let refused = init(&args(two.path(), &["newer=127.0.0.1"], false)).unwrap_err();
        assert!(refused.message.contains("ca-key.pem is there without"), "{}", refused.message);
    }

    #[test]
    fn names_and_addresses_are_checked() {
        for wrong in [
            "silo-1",
            "=127.0.0.1",
            "a/b=127.0.0.1",
            "ca=127.0.0.1",
            "a-key=127.0.0.1",
            "a=host",
            "a=0.0.0.0",
        ] {
            assert!(parse_silo(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_silo("a=127.0.0.1, ::1").unwrap().addresses.len(), 2);
    }
}
