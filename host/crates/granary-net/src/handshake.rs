//! The handshake: both sides learn that they mean each other before anything else is said.
//!
//! The dialer sends one [`Hello`], the listener one [`HelloAck`]. Whoever is not spoken to in this protocol gets
//! no answer at all. Fields may be added at the end of both: an older reader ignores them.

use granary_core::id::SiloAddress;
use serde::{Deserialize, Serialize};

/// The lowest protocol number that this build speaks.
pub const PROTOCOL_MIN: u16 = 1;

/// The highest protocol number that this build speaks.
pub const PROTOCOL_MAX: u16 = 1;

/// The longest cluster id and silo name in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 256;

const MAGIC: [u8; 4] = *b"GRNY";

/// What a connection is for. Each lane has a connection of its own, so that a long message on one does not hold
/// up the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Membership, directory, manifest: small and urgent.
    System,
    /// Calls between grains.
    Application,
    /// Components and other large pieces.
    Bulk,
}

/// The dialer's first and only word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    magic: [u8; 4],
    protocol_min: u16,
    protocol_max: u16,
    pub(crate) cluster: String,
    pub(crate) from: SiloAddress,
    pub(crate) name: String,
    /// Whom the dialer believes to reach.
    pub(crate) to: SiloAddress,
    pub(crate) lane: Lane,
}

/// The listener's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HelloAck {
    magic: [u8; 4],
    /// The protocol number that both speak from here on, or why not.
    pub(crate) outcome: Result<u16, Refusal>,
}

/// Why a handshake was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("unknown magic: this is not Granary's silo protocol")]
    UnknownMagic,
    #[error("wrong protocol: the silo speaks {min} to {max}, this side {other_min} to {other_max}")]
    WrongProtocol { min: u16, max: u16, other_min: u16, other_max: u16 },
    #[error("wrong cluster: the silo belongs to cluster {of:?}, not to {meant:?}")]
    WrongCluster { of: String, meant: String },
    #[error("not the incarnation meant: {is} answers, {meant} was meant")]
    WrongIncarnation { is: SiloAddress, meant: SiloAddress },
    #[error("{0} is dead in the membership: it must not speak any more")]
    Dead(SiloAddress),
    #[error("the certificate does not name the address of {0}")]
    WrongCertificate(SiloAddress),
}

impl Hello {
    pub(crate) fn new(cluster: &str, from: SiloAddress, name: &str, to: SiloAddress, lane: Lane) -> Self {
        let (protocol_min, protocol_max) = (PROTOCOL_MIN, PROTOCOL_MAX);
        let (cluster, name) = (cluster.to_owned(), name.to_owned());
        Self { magic: MAGIC, protocol_min, protocol_max, cluster, from, name, to, lane }
    }

    /// The protocol number to speak with the sender, if it means this silo.
    pub(crate) fn judge(&self, cluster: &str, me: SiloAddress, dead: bool) -> Result<u16, Refusal> {
        if self.magic != MAGIC || self.cluster.len() > NAME_BYTES_MAX || self.name.len() > NAME_BYTES_MAX {
            return Err(Refusal::UnknownMagic);
        }
        let protocol = self.protocol_max.min(PROTOCOL_MAX);
        if protocol < self.protocol_min.max(PROTOCOL_MIN) {
            let (other_min, other_max) = (self.protocol_min, self.protocol_max);
            return Err(Refusal::WrongProtocol {
                min: PROTOCOL_MIN,
                max: PROTOCOL_MAX,
                other_min,
                other_max,
            });
        }
        if self.cluster != cluster {
            return Err(Refusal::WrongCluster { of: cluster.to_owned(), meant: self.cluster.clone() });
        }
        if self.to != me {
            return Err(Refusal::WrongIncarnation { is: me, meant: self.to });
        }
        if dead { Err(Refusal::Dead(self.from)) } else { Ok(protocol) }
    }
}

impl HelloAck {
    pub(crate) fn new(outcome: Result<u16, Refusal>) -> Self {
        Self { magic: MAGIC, outcome }
    }

    /// The protocol number agreed on.
    pub(crate) fn judge(self) -> Result<u16, Refusal> {
        if self.magic != MAGIC {
            return Err(Refusal::UnknownMagic);
        }
        match self.outcome? {
            protocol @ PROTOCOL_MIN..=PROTOCOL_MAX => Ok(protocol),
            other => Err(Refusal::WrongProtocol {
                min: other,
                max: other,
                other_min: PROTOCOL_MIN,
                other_max: PROTOCOL_MAX,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(generation: i32) -> SiloAddress {
        SiloAddress { ip: [127, 0, 0, 1].into(), port: 7000, generation }
    }

    fn hello() -> Hello {
        Hello::new("c", address(1), "a", address(2), Lane::System)
    }

    #[test]
    fn each_refusal_is_named() {
        assert_eq!(hello().judge("c", address(2), false), Ok(1));
        assert_eq!(
            Hello { magic: *b"HTTP", ..hello() }.judge("c", address(2), false),
            Err(Refusal::UnknownMagic)
        );
        let newer = Hello { protocol_min: 2, protocol_max: 3, ..hello() }.judge("c", address(2), false);
        assert!(newer.unwrap_err().to_string().starts_with("wrong protocol: the silo speaks 1 to 1"));
        let other = hello().judge("d", address(2), false).unwrap_err().to_string();
        assert_eq!(other, r#"wrong cluster: the silo belongs to cluster "d", not to "c""#);
        let old = hello().judge("c", address(3), false).unwrap_err().to_string();
        assert_eq!(old, "not the incarnation meant: 127.0.0.1:7000@3 answers, 127.0.0.1:7000@2 was meant");
        assert_eq!(hello().judge("c", address(2), true), Err(Refusal::Dead(address(1))));
    }

    #[test]
    fn the_highest_common_protocol_is_taken() {
        assert_eq!(Hello { protocol_max: 9, ..hello() }.judge("c", address(2), false), Ok(1));
        assert_eq!(HelloAck::new(Ok(1)).judge(), Ok(1));
        assert!(HelloAck::new(Ok(2)).judge().is_err());
    }
}
