//! Why an identity cannot be used, or a TLS handshake failed, in words that say what to do.

use std::path::PathBuf;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Why TLS files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("the {what} file {path} cannot be read: {reason}")]
    Unreadable { what: &'static str, path: PathBuf, reason: String },
    #[error("the {what} file {path} holds no {what} in PEM form: {reason}")]
    NotPem { what: &'static str, path: PathBuf, reason: String },
    #[error("the key file {path} has mode {mode:03o}, others could read it: chmod 600 {path}")]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the key in {key} does not belong to the certificate in {certificate}")]
    KeyMismatch { key: PathBuf, certificate: PathBuf },
    #[error("the key in {path} cannot be used: {reason}")]
    Key { path: PathBuf, reason: String },
    #[error("the certificate in {path} cannot be used: {reason}")]
    Certificate { path: PathBuf, reason: String },
}

/// Says what a TLS error means.
#[must_use]
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::NoCertificatesPresented => "the other side showed no certificate".to_owned(),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the other side does not speak TLS".to_owned(),
        Error::AlertReceived(alert) => alert_received(*alert),
        other => other.to_string(),
    }
}

/// Says what an I/O error of a TLS stream means.
#[must_use]
pub fn explain_io(error: &std::io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match tls {
        Some(error) => explain(error),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the other side closed the connection, as one without TLS does".to_owned()
        }
        None => error.to_string(),
    }
}

/// Says what a refused certificate means, if there is one among an error and its causes.
#[must_use]
pub fn explain_refused_certificate(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(error @ Error::InvalidCertificate(_)) = error.downcast_ref() {
        return Some(explain(error));
    }
    // What an I/O error wraps is not its source, but its source's predecessor.
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let inner = inner.map(|inner| inner as &(dyn std::error::Error + 'static));
    inner.or_else(|| error.source()).and_then(explain_refused_certificate)
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet: is the clock right?".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the certificate is not signed by the CA".to_owned()
        }
        CertificateError::NotValidForName => "the certificate does not name this address".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            format!("the certificate names {}, and not {expected}", presented.join(", "))
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not for this use: a silo's needs both serverAuth and clientAuth".to_owned()
        }
        other => format!("the certificate is bad: {other}"),
    }
}

fn alert_received(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::UnknownCA => "its CA did not sign this side's certificate",
        AlertDescription::CertificateRequired => "it wants a certificate, and this side has none",
        AlertDescription::CertificateExpired => "this side's certificate has expired",
        AlertDescription::BadCertificate | AlertDescription::UnsupportedCertificate => {
            "this side's certificate is not right for it"
        }
        AlertDescription::ProtocolVersion => "it has no TLS 1.3",
        other => return format!("the other side refused: {other:?}"),
    };
    format!("the other side refused: {why}")
}
