//! Grains on one silo: catalog, activations, turns, calls, migration.
