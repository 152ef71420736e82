//! WIT types as Granary sees them: signatures, method hashes, derived reference packages, and the value encoding.
