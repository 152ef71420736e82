//! The macros of granary-guest.
