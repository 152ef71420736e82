//! The hash ring of the local directory: which silo owns which grain (spec B2.1, B2.2).
//!
//! A ring is a pure function of the set of silos, so all silos with the same view have the same ring.

use crate::hash::{grain_hash, silo_hash};
use crate::id::{GrainId, SiloAddress};

/// The number of hashes on the whole ring.
const RING_SIZE: u64 = 1 << 32;

/// Silos, each with one point; a silo owns from its own point (inclusive) up to the next silo's point (exclusive).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ring {
    /// Sorted by signed hash, then by address.
    points: Vec<(i32, SiloAddress)>,
}

impl Ring {
    /// The ring of the given silos.
    #[must_use]
    pub fn new<'a>(silos: impl IntoIterator<Item = &'a SiloAddress>) -> Self {
        let mut points: Vec<_> = silos.into_iter().map(|silo| (silo_hash(silo), *silo)).collect();
        points.sort_unstable();
        points.dedup();
        Self { points }
    }

    /// The silo that owns the hash: the greatest point not above it, else the last one. `None` on an empty ring.
    #[must_use]
    pub fn owner(&self, hash: u32) -> Option<SiloAddress> {
        let hash = hash.cast_signed();
        let above = self.points.partition_point(|(point, _)| *point <= hash);
        let point = match above.checked_sub(1) {
            Some(index) => self.points.get(index),
            None => self.points.last(),
        };
        point.map(|(_, silo)| *silo)
    }

    /// The silo that owns the grain.
    #[must_use]
    pub fn owner_of(&self, grain: &GrainId) -> Option<SiloAddress> {
        self.owner(grain_hash(grain))
    }

    /// Whether the silo has a point on the ring.
    #[must_use]
    pub fn contains(&self, silo: &SiloAddress) -> bool {
        self.points.iter().any(|(_, other)| other == silo)
    }

    /// The silos in the order of their points.
    pub fn silos(&self) -> impl Iterator<Item = SiloAddress> + '_ {
        self.points.iter().map(|(_, silo)| *silo)
    }

    /// How many of the 2³² hashes the silo owns.
    #[must_use]
    pub fn share(&self, silo: &SiloAddress) -> u64 {
        let Some(index) = self.points.iter().position(|(_, other)| other == silo) else { return 0 };
        if self.points.len() == 1 {
            return RING_SIZE;
        }
        let at = |index: usize| self.points.get(index).map_or(0, |(point, _)| i64::from(*point));
        let (own, next) = (at(index), at((index + 1) % self.points.len()));
        let span = if index + 1 == self.points.len() { next + (1 << 32) - own } else { next - own };
        u64::try_from(span).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silo(text: &str) -> SiloAddress {
        text.parse().unwrap()
    }

    fn three() -> [SiloAddress; 3] {
        [silo("127.0.0.1:11111@1"), silo("127.0.0.1:11112@1"), silo("10.0.0.5:30000@7")]
    }

    #[test]
    fn owners_are_those_of_the_specification() {
        let ring = Ring::new(&three());
        for (hash, owner) in [
            (0x32BE_B128, "127.0.0.1:11111@1"),
            (0x0000_0005, "10.0.0.5:30000@7"),
            (0x1367_C81D, "127.0.0.1:11111@1"),
            (0x1367_C81C, "127.0.0.1:11112@1"),
            (0x8000_0000, "127.0.0.1:11111@1"),
            (0xF87B_3C12, "10.0.0.5:30000@7"),
        ] {
            assert_eq!(ring.owner(hash), Some(silo(owner)), "{hash:08X}");
        }
        assert_eq!(ring.owner_of(&"counter/42".parse().unwrap()), Some(silo("127.0.0.1:11111@1")));
    }

    #[test]
    fn an_empty_ring_has_no_owner_and_a_single_silo_owns_all() {
        assert_eq!(Ring::default().owner(7), None);
        let [one, ..] = three();
        let ring = Ring::new([&one]);
        assert_eq!(ring.owner(0), Some(one));
        assert_eq!(ring.owner(u32::MAX), Some(one));
        assert_eq!(ring.share(&one), 1 << 32);
    }

    #[test]
    fn the_shares_cover_the_ring_exactly() {
        let ring = Ring::new(&three());
        assert_eq!(three().iter().map(|silo| ring.share(silo)).sum::<u64>(), 1 << 32);
        assert!(three().iter().all(|silo| ring.share(silo) > 0 && ring.contains(silo)));
        assert_eq!(ring.share(&silo("127.0.0.1:1@1")), 0);
    }

    #[test]
    fn the_order_of_the_silos_does_not_matter() {
        let [a, b, c] = three();
        assert_eq!(Ring::new(&[a, b, c]), Ring::new(&[c, a, b, a]));
    }
}
