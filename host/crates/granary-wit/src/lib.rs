//! WIT types as Granary sees them: signatures, method hashes, derived reference packages, and the value encoding.

mod compare;
mod derive;
mod grain;
mod hash;
mod types;

#[cfg(test)]
mod testing;

pub use compare::{Mismatch, compare, compare_params};
pub use derive::{
    DerivedImport, DerivedPackage, DerivedShapeError, Flavour, derive_all, derive_package, derived_of,
    is_grain_interface,
};
pub use grain::{
    GRAIN_VERSION, GRAIN_WIT, GrainPackageError, call_error_type, grain_ref_type, push_grain_package,
};
pub use hash::{HASH_VERSION, method_hash, params_hash};
pub use types::{
    Brief, Case, FUNCTIONS_MAX, Field, Interface, Signature, TYPE_DEPTH_MAX, TYPE_NODES_MAX, Type, TypeError,
};
