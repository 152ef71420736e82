//! WIT types as Granary sees them: signatures, method hashes, derived reference packages, and the value encoding.

mod compare;
mod hash;
mod types;

#[cfg(test)]
mod testing;

pub use compare::{Mismatch, compare, compare_params};
pub use hash::{HASH_VERSION, method_hash, params_hash};
pub use types::{
    Brief, Case, FUNCTIONS_MAX, Field, Interface, Signature, TYPE_DEPTH_MAX, TYPE_NODES_MAX, Type, TypeError,
};
