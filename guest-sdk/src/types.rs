//! The words of `granary:grain/types`, as Rust types that people like to use: [`GrainRef`], [`CallError`] and
//! [`DeactivationReason`].
//!
//! Generated bindings are told to use these, so the names of fields and cases follow the WIT file exactly.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reference to a grain: a plain value that may be kept, compared and sent. It names a grain; it does not
/// say that one is alive.
///
/// Typed references (`AccountRef`) are made from it and turn into it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrainRef {
    /// The grain type, such as `account`.
    pub grain_type: String,
    /// The key: 1 to 512 bytes of UTF-8.
    pub key: String,
}

impl GrainRef {
    /// The reference to the grain of this type with this key. Nothing is checked until it is called.
    #[must_use]
    pub fn new(grain_type: impl Into<String>, key: impl Into<String>) -> Self {
        Self { grain_type: grain_type.into(), key: key.into() }
    }
}

/// `type/key`.
impl fmt::Display for GrainRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.grain_type, self.key)
    }
}

/// Why a call gave no result of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallError {
    /// The callee certainly did not start; calling again is safe.
    NotDelivered(String),
    /// The callee may or may not have run.
    UnknownOutcome(String),
    /// A bound was hit and nothing ran; try again after this many milliseconds.
    Overloaded(u32),
    /// The grain type, interface or method does not exist.
    NotFound(String),
    /// Caller and callee disagree about the method's type.
    Incompatible(String),
    /// The deadline passed; the callee may have run.
    TimedOut,
    /// The callee trapped, or its activation failed.
    Failed(String),
    /// The caller cancelled the call.
    Cancelled,
    /// The call would wait for itself: the chain of grains, oldest first.
    Deadlock(Vec<String>),
    /// The silo may not run turns at present.
    Fenced,
}

impl CallError {
    /// Whether the callee certainly did not run, so that nothing has to be undone and calling again is safe.
    #[must_use]
    pub fn is_not_run(&self) -> bool {
        match self {
            Self::NotDelivered(_)
            | Self::Overloaded(_)
            | Self::NotFound(_)
            | Self::Incompatible(_)
            | Self::Deadlock(_)
            | Self::Fenced => true,
            Self::UnknownOutcome(_) | Self::TimedOut | Self::Failed(_) | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDelivered(reason) => write!(f, "the call was not delivered: {reason}"),
            Self::UnknownOutcome(reason) => write!(f, "the outcome of the call is unknown: {reason}"),
            Self::Overloaded(ms) => write!(f, "the callee is overloaded, try again after {ms} ms"),
            Self::NotFound(what) => write!(f, "not found: {what}"),
            Self::Incompatible(what) => write!(f, "caller and callee disagree: {what}"),
            Self::TimedOut => f.write_str("the call timed out, its outcome is unknown"),
            Self::Failed(message) => write!(f, "the callee failed: {message}"),
            Self::Cancelled => f.write_str("the call was cancelled"),
            Self::Deadlock(chain) => {
                write!(f, "deadlock: the call would wait for itself: {}", chain.join(" -> "))
            }
            Self::Fenced => f.write_str("the silo may not run turns at present"),
        }
    }
}

impl std::error::Error for CallError {}

/// So that methods whose error is a text can pass a failed call on with `?`.
impl From<CallError> for String {
    fn from(error: CallError) -> Self {
        error.to_string()
    }
}

/// Why an activation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DeactivationReason {
    /// The silo stops.
    ShuttingDown,
    /// Nobody called the grain for its idle age.
    Idle,
    /// The grain asked for it.
    ApplicationRequested,
    /// The grain moves to another silo.
    Migrating,
    /// Another activation of the grain won.
    Duplicate,
    /// The host or an operator decided.
    RuntimeRequested,
}

impl DeactivationReason {
    /// The reason with this number in the WIT enum. For generated code.
    #[doc(hidden)]
    #[must_use]
    pub fn _lift(number: u8) -> Self {
        match number {
            0 => Self::ShuttingDown,
            1 => Self::Idle,
            2 => Self::ApplicationRequested,
            3 => Self::Migrating,
            4 => Self::Duplicate,
            _ => Self::RuntimeRequested,
        }
    }
}

/// Why a typed call of another grain gave no value: the method itself said so, or the call failed.
///
/// Methods that return `result<T, E>` in WIT give `Result<T, GrainError<E>>` through a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrainError<E> {
    /// The callee ran and returned this error.
    Grain(E),
    /// The call gave no result of its own.
    Call(CallError),
}

impl<E> GrainError<E> {
    /// Turns the callee's own error into another.
    pub fn map_grain<F>(self, change: impl FnOnce(E) -> F) -> GrainError<F> {
        match self {
            Self::Grain(error) => GrainError::Grain(change(error)),
            Self::Call(error) => GrainError::Call(error),
        }
    }

    /// One error out of both kinds.
    pub fn either<F>(self, grain: impl FnOnce(E) -> F, call: impl FnOnce(CallError) -> F) -> F {
        match self {
            Self::Grain(error) => grain(error),
            Self::Call(error) => call(error),
        }
    }

    /// The callee's own error, if it returned one.
    pub fn grain(self) -> Option<E> {
        match self {
            Self::Grain(error) => Some(error),
            Self::Call(_) => None,
        }
    }

    /// Why the call failed, if it did.
    pub fn call(&self) -> Option<&CallError> {
        match self {
            Self::Grain(_) => None,
            Self::Call(error) => Some(error),
        }
    }

    /// Whether the method certainly had no effect that it did not report itself: it returned an error of its
    /// own, or it did not run.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Grain(_) => true,
            Self::Call(error) => error.is_not_run(),
        }
    }
}

/// The callee's own error is shown by `Debug`, since types of a contract need not be `Display`.
impl<E: fmt::Debug> fmt::Display for GrainError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grain(error) => write!(f, "{error:?}"),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug> std::error::Error for GrainError<E> {}

impl<E> From<CallError> for GrainError<E> {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_shown_as_type_and_key() {
        assert_eq!(GrainRef::new("account", "a/b").to_string(), "account/a/b");
    }

    #[test]
    fn only_errors_that_prove_it_say_that_nothing_ran() {
        assert!(CallError::NotDelivered(String::new()).is_not_run());
        assert!(CallError::Deadlock(Vec::new()).is_not_run());
        assert!(!CallError::TimedOut.is_not_run());
        assert!(!CallError::Failed(String::new()).is_not_run());
        assert!(GrainError::Grain(()).is_settled());
        assert!(!GrainError::<()>::Call(CallError::UnknownOutcome(String::new())).is_settled());
    }

    #[test]
    fn reasons_keep_the_order_of_the_contract() {
        for number in 0..6 {
            assert_eq!(DeactivationReason::_lift(number) as u8, number);
        }
    }
}
