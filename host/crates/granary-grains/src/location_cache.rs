//! Where grains were seen last: a bounded cache in two generations.
//!
//! Entries are hints. A wrong one costs a forward, never a wrong answer. When the young generation is full it
//! becomes the old one, and the old one is dropped; a hit in the old one moves the entry to the young one. So the
//! entries used least recently go first, with constant work for each use.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use granary_core::id::{GrainId, SiloAddress};

#[derive(Debug)]
pub(crate) struct LocationCache {
    generation_max: usize,
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<GrainId, SiloAddress>,
    old: HashMap<GrainId, SiloAddress>,
}

impl LocationCache {
    /// A cache of at most `entries_max` entries.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { generation_max: (entries_max / 2).max(1), generations: Mutex::default() }
    }

    pub(crate) fn get(&self, grain: &GrainId) -> Option<SiloAddress> {
        let mut generations = self.lock();
        if let Some(silo) = generations.young.get(grain) {
            return Some(*silo);
        }
        let silo = generations.old.remove(grain)?;
        self.put(&mut generations, grain.clone(), silo);
        Some(silo)
    }

    pub(crate) fn insert(&self, grain: &GrainId, silo: SiloAddress) {
        let mut generations = self.lock();
        if let Some(known) = generations.young.get_mut(grain) {
            *known = silo;
            return;
        }
        generations.old.remove(grain);
        self.put(&mut generations, grain.clone(), silo);
    }

    /// Removes the entry if it names this silo.
    pub(crate) fn remove(&self, grain: &GrainId, silo: SiloAddress) {
        let mut generations = self.lock();
        let Generations { young, old } = &mut *generations;
        for generation in [young, old] {
            if generation.get(grain) == Some(&silo) {
                generation.remove(grain);
            }
        }
    }

    /// Removes all entries that name this silo.
    pub(crate) fn forget_silo(&self, silo: SiloAddress) {
        let mut generations = self.lock();
        generations.young.retain(|_, known| *known != silo);
        generations.old.retain(|_, known| *known != silo);
    }

    fn put(&self, generations: &mut Generations, grain: GrainId, silo: SiloAddress) {
        if generations.young.len() >= self.generation_max {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(grain, silo);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grain(n: usize) -> GrainId {
        format!("t/{n}").parse().unwrap()
    }

    fn silo(n: u16) -> SiloAddress {
        format!("127.0.0.1:{n}@1").parse().unwrap()
    }

    #[test]
    fn entries_in_use_outlive_the_others_and_the_bound_holds() {
        let cache = LocationCache::new(100);
        for n in 0..1_000 {
            cache.insert(&grain(n), silo(1));
            cache.insert(&grain(0), silo(2));
            assert_eq!(cache.get(&grain(0)), Some(silo(2)));
            let generations = cache.lock();
            assert!(generations.young.len() + generations.old.len() <= 100);
        }
        assert_eq!(cache.get(&grain(1)), None);
    }

    #[test]
    fn an_entry_is_removed_only_by_the_silo_that_it_names() {
        let cache = LocationCache::new(10);
        cache.insert(&grain(1), silo(2));
        cache.remove(&grain(1), silo(1));
        assert_eq!(cache.get(&grain(1)), Some(silo(2)));
        cache.forget_silo(silo(2));
        assert_eq!(cache.get(&grain(1)), None);
    }
}
