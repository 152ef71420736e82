//! Stable hashes: the same number for the same bytes in every process and every release (spec B1.1–B1.4).
//!
//! Everything here is a pure function of its argument. No seeded or remembered variant exists, because one that
//! differs between processes makes silos disagree about the ring (spec B1.6).

use std::net::IpAddr;

use xxhash_rust::xxh32::xxh32;

use crate::id::{GrainId, SiloAddress};

/// xxHash32 with seed 0 (spec B1.1).
#[must_use]
pub fn stable_hash(bytes: &[u8]) -> u32 {
    xxh32(bytes, 0)
}

/// The hash of a grain's identity: type × 31 + key, wrapping (spec B1.2).
#[must_use]
pub fn grain_hash(grain: &GrainId) -> u32 {
    stable_hash(grain.grain_type().as_str().as_bytes())
        .wrapping_mul(31)
        .wrapping_add(stable_hash(grain.key().as_bytes()))
}

/// The silo's one point on the ring: the stable hash of 24 bytes, read as a signed number (spec B1.4).
///
/// The bytes are the address (IPv4 in the first four, the rest zero), then port and generation as little-endian
/// 32-bit numbers.
#[must_use]
pub fn silo_hash(silo: &SiloAddress) -> i32 {
    let ip = match silo.ip.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(v6) => v6.octets(),
    };
    let mut bytes = Vec::with_capacity(24);
    bytes.extend_from_slice(&ip);
    bytes.extend_from_slice(&u32::from(silo.port).to_le_bytes());
    bytes.extend_from_slice(&silo.generation.to_le_bytes());
    stable_hash(&bytes).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_hash_has_the_reference_values() {
        for (text, expected) in [
            ("", 0x02CC_5D05),
            ("a", 0x550D_7456),
            ("abc", 0x32D1_53FF),
            ("counter", 0x7CB0_76D3),
            ("42", 0x1960_4D9B),
            ("user", 0x7AF4_BCA1),
        ] {
            assert_eq!(stable_hash(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn grain_hash_has_the_reference_values() {
        for (grain, expected) in [("counter/42", 0x32BE_B128), ("user/a", 0x38B0_4BD5)] {
            assert_eq!(grain_hash(&grain.parse().unwrap()), expected, "{grain}");
        }
    }

    #[test]
    fn silo_hash_has_the_reference_values() {
        for (silo, unsigned, signed) in [
            ("127.0.0.1:11111@1", 0x1367_C81D_u32, 325_568_541),
            ("127.0.0.1:11112@1", 0x017E_E84D, 25_094_221),
            ("10.0.0.5:30000@7", 0xF87B_3C12, -126_141_422),
        ] {
            let hash = silo_hash(&silo.parse().unwrap());
            assert_eq!((hash.cast_unsigned(), hash), (unsigned, signed), "{silo}");
        }
    }

    #[test]
    fn a_mapped_ipv4_address_hashes_like_the_plain_one() {
        let plain: SiloAddress = "127.0.0.1:11111@1".parse().unwrap();
        let mapped = SiloAddress { ip: "::ffff:127.0.0.1".parse().unwrap(), ..plain };
        assert_eq!(silo_hash(&plain), silo_hash(&mapped));
    }
}
