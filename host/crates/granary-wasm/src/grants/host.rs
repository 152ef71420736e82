//! Hosts: as a deployment grants them, and as a request names one. Both are read by the same rules, so that a name
//! cannot be written in a way that one side takes for something else.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::address::{Special, special};

/// The longest name of a host, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// The longest label of a name, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// A host by name or by address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    /// In lower case.
    Name(String),
    /// Never an IPv4 address in the form of an IPv6 one.
    Address(IpAddr),
}

/// A host, and perhaps a port, that a deployment grants: `api.example.org`, `192.0.2.1:8080`, `[2001:db8::1]:8080`.
/// Without a port it is the scheme's own one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpGrant {
    host: Host,
    port: Option<u16>,
}

/// Where one request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// The port that the scheme has by itself.
    default_port: u16,
}

/// Why a request names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host with an optional port")]
pub(crate) struct TargetError(String);

/// Why a host cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Not HOST or HOST:PORT.
    #[error(
        "{0:?} is no host: write HOST or HOST:PORT, without scheme, path or wildcard, such as api.example.org, 192.0.2.1:8080 or [2001:db8::1]:8080"
    )]
    Syntax(String),
    /// An address that no request can go to.
    #[error("{0} cannot be granted: it is {1}")]
    Address(IpAddr, &'static str),
}

impl Host {
    /// Reads a name, an IPv4 address, or an IPv6 address in brackets.
    fn parse(text: &str) -> Option<Self> {
        if let Some(inside) = text.strip_prefix('[') {
            let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= LABEL_BYTES_MAX
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if text.len() > NAME_BYTES_MAX || !text.split('.').all(label) {
            return None;
        }
        // What resolvers take for an address in another notation (127.1, 0x7f000001) is no name.
        let last = text.rsplit('.').next().unwrap_or_default();
        let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
            || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        (!numeric).then(|| Self::Name(text.to_ascii_lowercase()))
    }

    /// Reads a host and an optional port.
    fn parse_with_port(text: &str) -> Option<(Self, Option<u16>)> {
        let colon = match text.rfind(']') {
            Some(bracket) => text.get(bracket..)?.find(':').map(|at| bracket + at),
            None => text.find(':'),
        };
        let Some(colon) = colon else { return Some((Self::parse(text)?, None)) };
        let (host, port) = (text.get(..colon)?, text.get(colon + 1..)?);
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let port: u16 = port.parse().ok()?;
        (port != 0).then_some(())?;
        Some((Self::parse(host)?, Some(port)))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl HttpGrant {
    /// Whether a request to the target is granted: the very same name or address, and the same port.
    pub(crate) fn covers(&self, target: &Target) -> bool {
        self.host == target.host && self.port.unwrap_or(target.default_port) == target.port
    }
}

impl FromStr for HttpGrant {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let syntax = || HostError::Syntax(crate::text::bounded(text, NAME_BYTES_MAX));
        let (host, port) = Host::parse_with_port(text).ok_or_else(syntax)?;
        if let Host::Address(address) = host
            && let Some(kind @ (Special::Unspecified | Special::Multicast)) = special(address)
        {
            return Err(HostError::Address(address, kind.text()));
        }
        Ok(Self { host, port })
    }
}

impl TryFrom<String> for HttpGrant {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        text.parse()
    }
}

impl From<HttpGrant> for String {
    fn from(grant: HttpGrant) -> Self {
        grant.to_string()
    }
}

impl fmt::Display for HttpGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => write!(f, "{}", self.host),
        }
    }
}

impl Target {
    /// The target of a request with this authority.
    ///
    /// # Errors
    /// [`TargetError`] when that is no host, or has user information.
    pub(crate) fn parse(authority: &str, default_port: u16) -> Result<Self, TargetError> {
        let (host, port) = Host::parse_with_port(authority)
            .ok_or_else(|| TargetError(crate::text::bounded(authority, NAME_BYTES_MAX)))?;
        Ok(Self { host, port: port.unwrap_or(default_port), default_port })
    }
}

/// As a `host` header has it: without the port that the scheme has by itself.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.port == self.default_port {
            write!(f, "{}", self.host)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
