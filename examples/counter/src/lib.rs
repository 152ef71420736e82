//! Example grain: counter.
