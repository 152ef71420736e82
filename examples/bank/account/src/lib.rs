//! Example grain: account.
