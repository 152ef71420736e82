//! What a deployment grants to its component beyond the fixed list of imports (DECISIONS A10, RELIABILITY P18): values
//! of the environment, and hosts that it may send HTTP requests to. Owns their syntax and their bounds.
//!
//! Invariants:
//! - Whatever is not named here is not granted; the default grants nothing.
//! - A value that exists keeps the bounds, wherever it was read from.
//! - Values of the environment may be secrets: nothing here shows them, `Debug` included.

mod address;
mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use address::may_connect;
pub(crate) use host::{Host, Target};
pub use host::{HostError, HttpGrant};

/// Values of the environment that a deployment gives, at most.
pub const ENV_VALUES_MAX: usize = 64;

/// The longest name of such a value, in bytes.
pub const ENV_NAME_BYTES_MAX: usize = 128;

/// All names and values together, in bytes.
pub const ENV_BYTES_MAX: usize = 8 << 10;

/// Hosts that a deployment grants, at most.
pub const HTTP_HOSTS_MAX: usize = 32;

/// What a deployment grants.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Grants {
    env: BTreeMap<String, String>,
    http: BTreeSet<HttpGrant>,
    http_private: bool,
}

/// The form in which grants are recorded. A record with something unknown comes from a later version, which may mean
/// to forbid what this one would allow: it is refused.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Record {
    env: BTreeMap<String, String>,
    http: BTreeSet<HttpGrant>,
    http_private: bool,
}

/// Why grants are not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// No name, or one that no environment can hold.
    #[error(
        "the environment name {0:?} is not one: it has letters, digits and `_`, does not begin with a digit, and has at most {ENV_NAME_BYTES_MAX} bytes"
    )]
    EnvName(String),
    /// A value with a NUL byte.
    #[error("the environment value of {0} holds a NUL byte")]
    EnvValue(String),
    /// The same name again.
    #[error("the environment name {0} is given twice")]
    EnvTwice(String),
    /// Too much of it.
    #[error(
        "{values} environment values with {bytes} bytes are too much: at most {ENV_VALUES_MAX} with {ENV_BYTES_MAX} bytes, names included"
    )]
    EnvTooLarge { values: usize, bytes: usize },
    /// A host that cannot be granted.
    #[error("{0}")]
    Host(#[from] HostError),
    /// Too many hosts.
    #[error("{0} hosts are too many: at most {HTTP_HOSTS_MAX} are granted")]
    HostsTooMany(usize),
    /// Private addresses without any host.
    #[error("private addresses are allowed, and no host is: add --allow-http HOST")]
    PrivateAlone,
    /// The recorded form.
    #[error("the recorded grants do not parse: {0}")]
    Record(String),
}

impl Grants {
    /// Grants of these values and hosts.
    ///
    /// # Errors
    /// [`GrantError`]: what is wrong, and what would be right.
    pub fn new(
        env: impl IntoIterator<Item = (String, String)>,
        http: impl IntoIterator<Item = HttpGrant>,
        http_private: bool,
    ) -> Result<Self, GrantError> {
        let mut values = BTreeMap::new();
        for (name, value) in env {
            if values.contains_key(&name) {
                return Err(GrantError::EnvTwice(name));
            }
            values.insert(name, value);
        }
        Record { env: values, http: http.into_iter().collect(), http_private }.try_into()
    }

    /// Reads the recorded form; nothing at all is the record of a deployment that grants nothing.
    ///
    /// # Errors
    /// [`GrantError::Record`] when it is not that.
    pub fn from_record(text: &str) -> Result<Self, GrantError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text)
            .map_err(|error| GrantError::Record(crate::text::first_line(&error.to_string())))
    }

    /// The recorded form; empty for no grants.
    #[must_use]
    pub fn to_record(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        // Maps of text always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The names of the environment values, without the values.
    pub fn env_names(&self) -> impl Iterator<Item = &str> {
        self.env.keys().map(String::as_str)
    }

    /// The hosts that may be sent requests to.
    pub fn http(&self) -> impl Iterator<Item = &HttpGrant> {
        self.http.iter()
    }

    /// Whether granted names may stand for private addresses.
    #[must_use]
    pub fn http_private(&self) -> bool {
        self.http_private
    }

    /// The environment that a grain sees.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        self.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether any host is granted.
    pub(crate) fn has_http(&self) -> bool {
        !self.http.is_empty()
    }

    /// Whether requests may go there.
    pub(crate) fn allows(&self, target: &Target) -> bool {
        self.http.iter().any(|grant| grant.covers(target))
    }
}

impl TryFrom<Record> for Grants {
    type Error = GrantError;

    fn try_from(record: Record) -> Result<Self, GrantError> {
        for (name, value) in &record.env {
            let mut letters = name.bytes();
            let first = letters.next().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphabetic());
            let rest = letters.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            if !first || !rest || name.len() > ENV_NAME_BYTES_MAX {
                return Err(GrantError::EnvName(crate::text::bounded(name, ENV_NAME_BYTES_MAX)));
            }
            if value.contains('\0') {
                return Err(GrantError::EnvValue(name.clone()));
            }
        }
        let bytes = record.env.iter().map(|(name, value)| name.len() + value.len()).sum();
        let values = record.env.len();
        if values > ENV_VALUES_MAX || bytes > ENV_BYTES_MAX {
            return Err(GrantError::EnvTooLarge { values, bytes });
        }
        if record.http.len() > HTTP_HOSTS_MAX {
            return Err(GrantError::HostsTooMany(record.http.len()));
        }
        if record.http_private && record.http.is_empty() {
            return Err(GrantError::PrivateAlone);
        }
        Ok(Self { env: record.env, http: record.http, http_private: record.http_private })
    }
}

impl From<Grants> for Record {
    fn from(grants: Grants) -> Self {
        Self { env: grants.env, http: grants.http, http_private: grants.http_private }
    }
}

impl fmt::Debug for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grants")
            .field("env", &self.env.keys())
            .field("http", &self.http)
            .field("http_private", &self.http_private)
            .finish()
    }
}

#[cfg(test)]
mod tests;
