//! The HTTP edges of a silo: gateway, admin API, health and metrics.
