//! The activations of this silo, by grain.
//!
//! Owns the rule that a silo has at most one activation of a grain. Methods return owned values: no guard of the map
//! leaves this file.

use std::fmt;
use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use granary_core::id::{ActivationId, GrainId};

use crate::activation::Activation;

#[derive(Default)]
pub(crate) struct Catalog(DashMap<GrainId, Arc<Activation>>);

/// What [`Catalog::get_or_insert`] found.
pub(crate) enum Found {
    Existing(Arc<Activation>),
    /// The caller has to start its task.
    Created(Arc<Activation>),
}

impl Catalog {
    pub(crate) fn get(&self, grain: &GrainId) -> Option<Arc<Activation>> {
        self.0.get(grain).map(|activation| Arc::clone(&activation))
    }

    /// The grain's activation, made now if there is none.
    pub(crate) fn get_or_insert(&self, grain: &GrainId, make: impl FnOnce() -> Activation) -> Found {
        match self.0.entry(grain.clone()) {
            Entry::Occupied(entry) => Found::Existing(Arc::clone(entry.get())),
            Entry::Vacant(entry) => {
                let activation = Arc::new(make());
                entry.insert(Arc::clone(&activation));
                Found::Created(activation)
            }
        }
    }

    /// Removes the grain's activation if it is this one.
    pub(crate) fn remove(&self, grain: &GrainId, activation: ActivationId) {
        self.0.remove_if(grain, |_, known| known.id() == activation);
    }

    /// All activations at some moment, in no order.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Activation>> {
        self.0.iter().map(|entry| Arc::clone(entry.value())).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalog({} activations)", self.0.len())
    }
}
