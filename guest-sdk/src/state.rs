//! Persistent state: [`Persistent`] fields, and why reading and writing them fails.

mod raw;

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::codec;

/// Why persistent state could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateError {
    /// Somebody else wrote since the value was read. Holds the etag that is stored now; `None` when there is no
    /// value. The activation ends after the turn, so that the next call reads again.
    Conflict(Option<String>),
    /// A newer activation of this grain owns the state.
    Fenced,
    /// The name or the value is beyond a limit.
    TooLarge(String),
    /// The store cannot be reached; a write may have been applied.
    Unavailable(String),
    /// The stored value does not fit the field's type.
    Unreadable {
        /// The name of the state.
        name: String,
        /// What does not fit.
        reason: String,
    },
    /// The value cannot be written down.
    Unwritable {
        /// The name of the state.
        name: String,
        /// What cannot be written.
        reason: String,
    },
    /// The field belongs to no active grain: the struct was made by hand and not activated.
    NotActive,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(Some(etag)) => {
                write!(f, "somebody else wrote the state since it was read; its etag is now {etag}")
            }
            Self::Conflict(None) => f.write_str("somebody else removed the state since it was read"),
            Self::Fenced => f.write_str("a newer activation of this grain owns the state"),
            Self::TooLarge(what) => write!(f, "the state is too large: {what}"),
            Self::Unavailable(reason) => write!(f, "the store is unavailable: {reason}"),
            Self::Unreadable { name, reason } => {
                write!(f, "the stored state `{name}` cannot be read: {reason}")
            }
            Self::Unwritable { name, reason } => write!(f, "the state `{name}` cannot be written: {reason}"),
            Self::NotActive => f.write_str("the state belongs to a grain that was not activated"),
        }
    }
}

impl std::error::Error for StateError {}

/// So that methods whose error is a text can pass a failed write on with `?`.
impl From<StateError> for String {
    fn from(error: StateError) -> Self {
        error.to_string()
    }
}

/// A value in the cluster's store, kept in memory while the grain is active.
///
/// It is read before the grain is activated; without a stored value it is `T::default()`. Changes through
/// `DerefMut` are in memory only, until [`Persistent::write`]; [`Persistent::set`] writes first and changes the
/// memory when the write is durable. A write succeeds only if nobody else wrote since.
#[derive(Debug, Default)]
pub struct Persistent<T> {
    value: T,
    /// Of the value that is stored, as far as this activation knows; `None` when there is none.
    etag: Option<String>,
    /// Empty until the grain is activated.
    name: &'static str,
    /// Whether value and etag came from the store or along with a migration.
    known: bool,
}

impl<T> Persistent<T> {
    /// The etag of the stored value; `None` when nothing is stored.
    #[must_use]
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    fn name(&self) -> Result<&'static str, StateError> {
        if self.name.is_empty() { Err(StateError::NotActive) } else { Ok(self.name) }
    }
}

impl<T: Serialize> Persistent<T> {
    /// Writes the value as it is in memory. Returns when the write is durable.
    ///
    /// # Errors
    /// See [`StateError`]. The value in memory stays as it is.
    pub fn write(&mut self) -> Result<(), StateError> {
        self.etag = Some(store(self.name()?, &self.value, self.etag.as_deref())?);
        Ok(())
    }

    /// Writes a new value, and takes it into memory when the write is durable.
    ///
    /// # Errors
    /// See [`StateError`]. The value in memory stays the old one.
    pub fn set(&mut self, value: T) -> Result<(), StateError> {
        self.etag = Some(store(self.name()?, &value, self.etag.as_deref())?);
        self.value = value;
        Ok(())
    }

    /// Changes a copy, writes it, and takes it into memory when the write is durable.
    ///
    /// # Errors
    /// See [`StateError`]. The value in memory stays the old one.
    pub fn update<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> Result<R, StateError>
    where
        T: Clone,
    {
        let mut value = self.value.clone();
        let result = change(&mut value);
        self.set(value)?;
        Ok(result)
    }
}

impl<T: DeserializeOwned + Default> Persistent<T> {
    /// Removes the stored value; in memory it becomes `T::default()`.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn clear(&mut self) -> Result<(), StateError> {
        raw::clear(self.name()?, self.etag.as_deref())?;
        self.value = T::default();
        self.etag = None;
        Ok(())
    }

    /// Reads the stored value again; what is in memory is lost.
    ///
    /// # Errors
    /// See [`StateError`]. The value in memory stays as it is.
    pub fn reload(&mut self) -> Result<(), StateError> {
        let name = self.name()?;
        (self.value, self.etag) = match raw::read(name)? {
            Some((bytes, etag)) => {
                let value = codec::decode(&bytes)
                    .map_err(|reason| StateError::Unreadable { name: name.to_owned(), reason })?;
                (value, Some(etag))
            }
            None => (T::default(), None),
        };
        self.known = true;
        Ok(())
    }

    /// Names the state, and reads it unless it came along with a migration. For generated code.
    #[doc(hidden)]
    pub fn __bind(&mut self, name: &'static str) -> Result<(), StateError> {
        self.name = name;
        if self.known { Ok(()) } else { self.reload() }
    }
}

fn store<T: Serialize>(name: &str, value: &T, expected: Option<&str>) -> Result<String, StateError> {
    let bytes =
        codec::encode(value).map_err(|reason| StateError::Unwritable { name: name.to_owned(), reason })?;
    raw::write(name, &bytes, expected)
}

impl<T> Deref for Persistent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Persistent<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// In carried memory: the value and its etag, so that the store is not read again.
impl<T: Serialize> Serialize for Persistent<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Carried { value: &self.value, etag: self.etag.as_deref() }.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Persistent<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Carried { value, etag } = Carried::<T, String>::deserialize(deserializer)?;
        Ok(Self { value, etag, name: "", known: true })
    }
}

#[derive(Serialize, Deserialize)]
struct Carried<T, E> {
    value: T,
    etag: Option<E>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_a_grain_that_was_not_activated_is_not_written() {
        let mut state = Persistent::<u64>::default();
        assert_eq!(state.write(), Err(StateError::NotActive));
        assert_eq!(state.clear(), Err(StateError::NotActive));
    }

    #[test]
    fn carried_state_keeps_its_etag() {
        let state = Persistent { value: 7_u64, etag: Some("3".to_owned()), name: "balance", known: true };
        let carried: Persistent<u64> = codec::decode(&codec::encode(&state).unwrap()).unwrap();
        assert_eq!((*carried, carried.etag(), carried.known), (7, Some("3"), true));
    }
}
