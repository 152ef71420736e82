//! The grain's log. With the feature `log` (on by default) the records of the `log` crate arrive here, with the
//! feature `tracing` the events of the `tracing` crate; both are connected before the grain is activated.

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Every step.
    Trace,
    /// For whoever works on the grain.
    Debug,
    /// For whoever runs it.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Something failed.
    Error,
}

/// Writes one line to the grain's log. The host cuts long lines and drops lines beyond its rate limit.
pub fn log(level: Level, target: &str, message: &str) {
    #[cfg(target_family = "wasm")]
    {
        use crate::bindings::logging::Level as Host;

        let level = match level {
            Level::Trace => Host::Trace,
            Level::Debug => Host::Debug,
            Level::Info => Host::Info,
            Level::Warn => Host::Warn,
            Level::Error => Host::Error,
        };
        crate::bindings::logging::log(level, target, message);
    }
    #[cfg(not(target_family = "wasm"))]
    crate::testing::env::log(level, target, message);
}

/// Connects the logging crates, unless the grain set up its own.
pub(crate) fn install() {
    #[cfg(feature = "log")]
    crate::log_bridge::install();
    #[cfg(feature = "tracing")]
    crate::tracing_bridge::install();
}
