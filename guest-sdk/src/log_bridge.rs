//! Records of the `log` crate go to the grain's log.

use log::{LevelFilter, Log, Metadata, Record};

use crate::logging::{self, Level};

/// What is let through before the grain says otherwise with `log::set_max_level`.
const LEVEL_DEFAULT: LevelFilter = LevelFilter::Info;

struct GrainLogger;

static LOGGER: GrainLogger = GrainLogger;

/// Does nothing when a logger is there already.
pub(crate) fn install() {
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(LEVEL_DEFAULT);
    }
}

impl Log for GrainLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            log::Level::Error => Level::Error,
            log::Level::Warn => Level::Warn,
            log::Level::Info => Level::Info,
            log::Level::Debug => Level::Debug,
            log::Level::Trace => Level::Trace,
        };
        let message = record.args();
        match message.as_str() {
            Some(text) => logging::log(level, record.target(), text),
            None => logging::log(level, record.target(), &message.to_string()),
        }
    }

    fn flush(&self) {}
}
