//! Where grains were last seen: a bounded cache in front of the directory (spec B4.8, simplified).
//!
//! An entry is a hint. Whoever uses one must be able to learn from the receiver that it is wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::GrainAddress;
use crate::id::{GrainId, SiloAddress};

/// Default size of the cache in entries.
pub const LOCATION_CACHE_ENTRIES: usize = 100_000;

/// Keeps the most recently used locations.
#[derive(Debug)]
pub struct LocationCache {
    entries_max: usize,
    entries: BTreeMap<GrainId, (GrainAddress, u64)>,
    /// From last use to grain; the first is the next to go.
    by_use: BTreeMap<u64, GrainId>,
    uses: u64,
}

impl Default for LocationCache {
    fn default() -> Self {
        Self::new(LOCATION_CACHE_ENTRIES)
    }
}

impl LocationCache {
    /// A cache of at most `entries_max` entries; 0 turns caching off.
    #[must_use]
    pub fn new(entries_max: usize) -> Self {
        Self { entries_max, entries: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The last known location, which counts as used now.
    pub fn get(&mut self, grain: &GrainId) -> Option<GrainAddress> {
        let (address, used) = self.entries.get_mut(grain)?;
        let key = self.by_use.remove(used)?;
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(address.clone())
    }

    /// Remembers a location, unless a newer registration is known; the least recently used one makes place.
    pub fn put(&mut self, address: GrainAddress) {
        if self.entries_max == 0 {
            return;
        }
        if let Some((known, used)) = self.entries.get(&address.grain) {
            if known.fence > address.fence {
                return;
            }
            self.by_use.remove(used);
        } else if self.entries.len() >= self.entries_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, address.grain.clone());
        self.entries.insert(address.grain.clone(), (address, self.uses));
    }

    /// Forgets the grain if it is remembered on that silo, whichever the activation (spec B4.8c).
    pub fn invalidate(&mut self, grain: &GrainId, silo: &SiloAddress) {
        if self.entries.get(grain).is_some_and(|(address, _)| address.silo == *silo)
            && let Some((_, used)) = self.entries.remove(grain)
        {
            self.by_use.remove(&used);
        }
    }

    /// Forgets everything on silos that are not among these.
    pub fn retain_silos(&mut self, hosting: &BTreeSet<SiloAddress>) {
        let by_use = &mut self.by_use;
        self.entries.retain(|_, (address, used)| {
            let keep = hosting.contains(&address.silo);
            if !keep {
                by_use.remove(used);
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ActivationId;

    fn address(key: u32, port: u16, fence: u64) -> GrainAddress {
        GrainAddress {
            grain: format!("counter/{key}").parse().unwrap(),
            activation: ActivationId(u128::from(key)),
            silo: format!("127.0.0.1:{port}@1").parse().unwrap(),
            fence,
            previous: None,
        }
    }

    #[test]
    fn the_least_recently_used_location_goes_first() {
        let mut cache = LocationCache::new(2);
        let (a, b, c) = (address(1, 1, 1), address(2, 1, 1), address(3, 1, 1));
        cache.put(a.clone());
        cache.put(b.clone());
        assert_eq!(cache.get(&a.grain), Some(a.clone()));
        cache.put(c.clone());
        assert_eq!((cache.get(&b.grain), cache.len()), (None, 2));
        assert_eq!((cache.get(&a.grain), cache.get(&c.grain)), (Some(a), Some(c)));
    }

    #[test]
    fn the_size_stays_exact_under_any_mix_of_operations() {
        let mut cache = LocationCache::new(10);
        for step in 0..10_000_u32 {
            let key = step.wrapping_mul(2_654_435_761) >> 27;
            let it = address(key, u16::try_from(key % 3 + 1).unwrap(), u64::from(step));
            match step % 5 {
                0..=2 => cache.put(it),
                3 => drop(cache.get(&it.grain)),
                _ => cache.invalidate(&it.grain, &it.silo),
            }
            assert!(cache.len() <= 10);
            assert_eq!(cache.entries.len(), cache.by_use.len());
        }
    }

    #[test]
    fn invalidation_looks_at_the_silo_and_not_at_the_activation() {
        let mut cache = LocationCache::default();
        let it = address(1, 1, 1);
        cache.put(it.clone());
        cache.invalidate(&it.grain, &address(1, 2, 1).silo);
        assert_eq!(cache.len(), 1);
        cache.invalidate(&it.grain, &it.silo);
        assert!(cache.is_empty());
    }

    #[test]
    fn an_older_registration_does_not_replace_a_newer_one() {
        let mut cache = LocationCache::default();
        cache.put(address(1, 2, 5));
        cache.put(address(1, 1, 4));
        assert_eq!(cache.get(&address(1, 1, 1).grain), Some(address(1, 2, 5)));
    }

    #[test]
    fn locations_on_silos_that_are_gone_are_purged() {
        let mut cache = LocationCache::default();
        let (a, b) = (address(1, 1, 1), address(2, 2, 1));
        cache.put(a.clone());
        cache.put(b.clone());
        cache.retain_silos(&BTreeSet::from([b.silo]));
        assert_eq!((cache.get(&a.grain), cache.get(&b.grain)), (None, Some(b)));
    }

    #[test]
    fn size_zero_turns_caching_off() {
        let mut cache = LocationCache::new(0);
        cache.put(address(1, 1, 1));
        assert!(cache.is_empty());
    }
}
