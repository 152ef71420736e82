//! End-to-end tests with real silo processes and real components.
