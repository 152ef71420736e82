//! The log: text on a terminal, JSON otherwise; `RUST_LOG` chooses what is logged.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// What is logged when nobody says otherwise. The client of NATS reports each failure as its own error; the store says
/// the same with the address and what follows.
const DEFAULT_FILTER: &str = "info,async_nats=off";

/// Installs the subscriber. A second call changes nothing.
pub(crate) fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber in one process, as in tests, is refused; the first one serves.
    let _ = if std::io::stderr().is_terminal() {
        builder.with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).try_init()
    };
}
