//! Choosing a silo for a new activation.
//!
//! The property `placement-strategy` of a class says how: `random` (the default), `prefer-local`, or `hash-based`.

use std::collections::BTreeMap;

use granary_core::id::{Digest, GrainId, SiloAddress};

use crate::random::Random;

/// How to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Strategy {
    #[default]
    Random,
    PreferLocal,
    HashBased,
}

impl Strategy {
    /// The strategy in a class's properties; the default for an unknown one, which a deploy would have refused.
    pub(crate) fn of(properties: &BTreeMap<String, String>) -> Self {
        match properties.get("placement-strategy").map(String::as_str) {
            Some("prefer-local") => Self::PreferLocal,
            Some("hash-based") => Self::HashBased,
            _ => Self::Random,
        }
    }

    /// Chooses among `candidates`; `None` when there are none.
    pub(crate) fn choose(
        self,
        grain: &GrainId,
        candidates: &[SiloAddress],
        local: SiloAddress,
        random: &Random,
    ) -> Option<SiloAddress> {
        match self {
            Self::PreferLocal if candidates.contains(&local) => Some(local),
            Self::Random | Self::PreferLocal => random.choose(candidates),
            Self::HashBased => candidates.iter().copied().max_by_key(|silo| weight(grain, *silo)),
        }
    }
}

/// Rendezvous hashing: a silo that comes or goes changes the choice only of the grains that it takes or had.
fn weight(grain: &GrainId, silo: SiloAddress) -> Digest {
    Digest::of(format!("{grain}\0{silo}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silos(n: u16) -> Vec<SiloAddress> {
        (1..=n).map(|port| format!("127.0.0.1:{port}@1").parse().unwrap()).collect()
    }

    fn grain(n: usize) -> GrainId {
        format!("t/{n}").parse().unwrap()
    }

    #[test]
    fn random_placement_uses_every_silo() {
        let (silos, random) = (silos(3), Random::new([1; 32]));
        let mut counts = BTreeMap::<_, usize>::new();
        for n in 0..300 {
            *counts
                .entry(Strategy::Random.choose(&grain(n), &silos, silos[0], &random).unwrap())
                .or_default() += 1;
        }
        assert!(counts.len() == 3 && counts.values().all(|count| *count > 50), "{counts:?}");
        assert_eq!(Strategy::Random.choose(&grain(1), &[], silos[0], &random), None);
    }

    #[test]
    fn hash_based_placement_moves_only_the_grains_of_the_silo_that_left() {
        let (silos, random) = (silos(4), Random::new([1; 32]));
        for n in 0..100 {
            let before = Strategy::HashBased.choose(&grain(n), &silos, silos[0], &random).unwrap();
            let after = Strategy::HashBased.choose(&grain(n), &silos[..3], silos[0], &random).unwrap();
            assert!(after == before || before == silos[3]);
        }
    }

    #[test]
    fn prefer_local_takes_this_silo_where_it_serves_the_type() {
        let (silos, random) = (silos(3), Random::new([1; 32]));
        assert_eq!(Strategy::PreferLocal.choose(&grain(1), &silos, silos[2], &random), Some(silos[2]));
        assert_eq!(Strategy::PreferLocal.choose(&grain(1), &silos[..1], silos[2], &random), Some(silos[0]));
    }
}
