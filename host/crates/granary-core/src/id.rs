//! Identities: silos, grains, activations, digests, and the time that machines are told.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest grain key in bytes (decision A7).
pub const GRAIN_KEY_BYTES_MAX: usize = 512;

/// A silo's own monotonic time in microseconds since an origin of the silo's choosing.
///
/// Times of two silos are never compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// The time `duration` after this one, saturating.
    #[must_use]
    pub fn after(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long it is since `earlier`; zero when `earlier` lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// A text that is not a valid identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("a grain key has 1 to {GRAIN_KEY_BYTES_MAX} bytes, this one has {0}")]
    KeyLength(usize),
    #[error("a grain type has 1 to 128 bytes of letters, digits and '-._', this is {0:?}")]
    GrainType(String),
    #[error("a grain id is TYPE/KEY, this is {0:?}")]
    GrainId(String),
    #[error("a silo address is IP:PORT@GENERATION, this is {0:?}")]
    SiloAddress(String),
    #[error("a digest has 64 hexadecimal digits, this is {0:?}")]
    Digest(String),
}

/// The name of a grain type, such as `counter`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrainType(Arc<str>);

impl GrainType {
    /// Checks and keeps a grain type's name.
    ///
    /// # Errors
    /// Fails when the name is empty, longer than 128 bytes, or has characters beyond `A-Z a-z 0-9 - . _`.
    pub fn new(name: &str) -> Result<Self, IdError> {
        let ok = (1..=128).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
        if ok { Ok(Self(name.into())) } else { Err(IdError::GrainType(name.chars().take(64).collect())) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A grain: its type and its key. Its text form is `type/key`, split at the first `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrainId {
    grain_type: GrainType,
    key: Arc<str>,
}

impl GrainId {
    /// # Errors
    /// Fails when the key is empty or longer than [`GRAIN_KEY_BYTES_MAX`].
    pub fn new(grain_type: GrainType, key: &str) -> Result<Self, IdError> {
        if key.is_empty() || key.len() > GRAIN_KEY_BYTES_MAX {
            return Err(IdError::KeyLength(key.len()));
        }
        Ok(Self { grain_type, key: key.into() })
    }

    #[must_use]
    pub fn grain_type(&self) -> &GrainType {
        &self.grain_type
    }

    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl FromStr for GrainId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (grain_type, key) =
            text.split_once('/').ok_or_else(|| IdError::GrainId(text.chars().take(64).collect()))?;
        Self::new(GrainType::new(grain_type)?, key)
    }
}

/// One start of a silo: where it listens, and a number that grows with each start on that endpoint (spec B1.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiloAddress {
    pub ip: IpAddr,
    pub port: u16,
    /// Whole seconds since 2022-01-01 UTC at the start, or more when the endpoint had that generation already.
    pub generation: i32,
}

impl SiloAddress {
    /// The endpoint without the generation.
    #[must_use]
    pub fn endpoint(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }
}

/// Order of spec B1.3: generation, port, IP (IPv4 first, and as the little-endian reading of its bytes).
impl Ord for SiloAddress {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        fn ip_order(ip: IpAddr) -> (u8, u32, [u8; 16]) {
            match ip {
                IpAddr::V4(v4) => (0, u32::from_le_bytes(v4.octets()), [0; 16]),
                IpAddr::V6(v6) => (1, 0, v6.octets()),
            }
        }
        (self.generation, self.port, ip_order(self.ip)).cmp(&(
            other.generation,
            other.port,
            ip_order(other.ip),
        ))
    }
}

impl PartialOrd for SiloAddress {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for SiloAddress {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let err = || IdError::SiloAddress(text.chars().take(64).collect());
        let (endpoint, generation) = text.rsplit_once('@').ok_or_else(err)?;
        let endpoint: SocketAddr = endpoint.parse().map_err(|_| err())?;
        let generation = generation.parse().map_err(|_| err())?;
        Ok(Self { ip: endpoint.ip().to_canonical(), port: endpoint.port(), generation })
    }
}

/// One activation of a grain: random, unique for all time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActivationId(pub u128);

/// A SHA-256 digest: of a component, of compiled code, of a method's type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The first twelve hexadecimal digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl FromStr for Digest {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let err = || IdError::Digest(text.chars().take(80).collect());
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(err());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| err())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| err())?;
        }
        Ok(Self(bytes))
    }
}

/// `Debug` is `Display` for identities: logs and test failures read the same.
macro_rules! display {
    ($type:ty, $value:ident, $f:ident => $body:expr) => {
        impl fmt::Display for $type {
            fn fmt(&self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $value = self;
                $body
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}
display!(GrainType, it, f => f.write_str(&it.0));
display!(GrainId, it, f => write!(f, "{}/{}", it.grain_type, it.key));
display!(SiloAddress, it, f => write!(f, "{}@{}", it.endpoint(), it.generation));
display!(ActivationId, it, f => write!(f, "{:032x}", it.0));
display!(Digest, it, f => it.0.iter().try_for_each(|byte| write!(f, "{byte:02x}")));
