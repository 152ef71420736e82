//! Example grain: transfer.
