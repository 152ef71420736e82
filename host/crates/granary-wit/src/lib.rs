//! WIT types as Granary sees them: signatures, method hashes, derived reference packages, and the value encoding.
//!
//! One implementation serves deploy checks, the wire, the command line and the macros of the Rust SDK. The
//! crate reads no files and knows no engine. What the SDK needs (types, hashes, derived packages) comes
//! without features; the value encoding and its text forms need the feature `values`.

mod compare;
mod derive;
mod grain;
mod hash;
#[cfg(feature = "values")]
mod json;
#[cfg(feature = "values")]
mod path;
mod types;
#[cfg(feature = "values")]
mod value;
#[cfg(feature = "values")]
mod wave;

#[cfg(test)]
#[cfg(feature = "values")]
mod round_trip;
#[cfg(test)]
mod testing;

pub use compare::{Mismatch, compare, compare_params};
pub use derive::{
    ContractTypes, DerivedImport, DerivedPackage, DerivedShapeError, Flavour, derive_package, derived_of,
    is_grain_interface,
};
pub use grain::{
    GRAIN_VERSION, GRAIN_WIT, GrainPackageError, call_error_type, grain_ref_type, push_grain_package,
};
pub use hash::{HASH_VERSION, method_hash, params_hash};
#[cfg(feature = "values")]
pub use json::{args_from_json, args_to_json, result_to_json, value_from_json, value_to_json};
#[cfg(feature = "values")]
pub use path::TEXT_BYTES_MAX;
pub use types::{
    Brief, Case, FUNCTIONS_MAX, Field, Interface, Signature, TYPE_DEPTH_MAX, TYPE_NODES_MAX, Type, TypeError,
};
#[cfg(feature = "values")]
pub use value::{
    Decoder, Encoder, ListMark, NAN_F32, NAN_F64, ValueError, WireError, validate, validate_args,
    validate_result,
};
#[cfg(feature = "values")]
pub use wave::{WAVE_BYTES_MAX, args_from_wave, args_to_wave, result_to_wave};
