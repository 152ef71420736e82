//! The id of a cluster, which keeps the clusters in one store apart.

use std::fmt;
use std::str::FromStr;

/// The longest cluster id in bytes: with a prefix it is the name of a schema, which PostgreSQL cuts at 63.
pub const CLUSTER_ID_BYTES_MAX: usize = 40;

/// A cluster's id: letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClusterId(String);

/// A text that is no cluster id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cluster id has 1 to {CLUSTER_ID_BYTES_MAX} letters, digits, '-' and '_', and {found:?} is not of that form"
)]
pub struct ClusterIdError {
    found: String,
}

impl ClusterId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterId {
    type Err = ClusterIdError;

    fn from_str(text: &str) -> Result<Self, ClusterIdError> {
        let fits = (1..=CLUSTER_ID_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(ClusterIdError { found: text.chars().take(CLUSTER_ID_BYTES_MAX + 1).collect() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_engine_takes_as_a_name_is_an_id() {
        for good in ["default", "A-1_b", &"x".repeat(CLUSTER_ID_BYTES_MAX)] {
            assert_eq!(good.parse::<ClusterId>().unwrap().as_str(), good);
        }
        for bad in ["", "a.b", "a b", "ä", "a\"", "a*", &"x".repeat(CLUSTER_ID_BYTES_MAX + 1)] {
            assert!(bad.parse::<ClusterId>().is_err(), "{bad:?}");
        }
        let error = "a.b".parse::<ClusterId>().unwrap_err().to_string();
        assert!(error.contains(r#""a.b""#) && error.contains("1 to 40"), "{error}");
    }
}
