//! A seeded simulator that runs the core machines of many silos in one thread.
