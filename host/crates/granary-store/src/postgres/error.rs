//! The server's errors, sorted into those that may pass and those that do not.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::StoreError;

/// The error with the address that it is about.
pub(super) fn store_error(address: &str, err: &Error) -> StoreError {
    if let Some(why) = granary_tls::explain_refused_certificate(err) {
        return StoreError::Unusable(format!("{address}: {why}"));
    }
    let text = format!("{address}: {}", explain(err));
    // The library tells it in no other way.
    if text.contains("server does not support TLS") {
        return StoreError::Unusable(text);
    }
    if err.code().is_some_and(is_lasting) {
        StoreError::Unusable(text)
    } else {
        StoreError::Unavailable(text)
    }
}

/// A stored value that does not read back: somebody else wrote to the table.
pub(super) fn malformed(address: &str, column: &str, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unusable(format!("{address}: a stored value of {column} cannot be read: {why}"))
}

/// Whether the connection ends with this error, or has ended: after `FATAL` the server closes it.
pub(super) fn ends_connection(err: &Error) -> bool {
    let severity = err.as_db_error().and_then(tokio_postgres::error::DbError::parsed_severity);
    err.is_closed() || matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

fn is_lasting(code: &SqlState) -> bool {
    // Also what a later start of the server, or a failover, may mend.
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return false;
    }
    // Wrong data, a wrong user or password, no such database or schema, a wrong statement or missing rights, and
    // damaged files. Everything else, such as no room, too many connections, a shutdown or a deadlock, may pass.
    matches!(code.code().get(..2), Some("22" | "28" | "3D" | "3F" | "42" | "XX"))
}

/// The server's message with its code, or the chain of causes on this side.
fn explain(err: &Error) -> String {
    if let Some(db) = err.as_db_error() {
        let detail = db.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
        return format!("{}{detail} [SQLSTATE {}]", db.message(), db.code().code());
    }
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        let more = err.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = err.source();
    }
    text
}
