//! Write Granary grains in Rust.
