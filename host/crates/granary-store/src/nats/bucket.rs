//! A stream in the form of a key-value bucket: how it is made, checked, read and written.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::link::{Link, Published, Stored};
use crate::{ClusterId, StoreError};

/// The layout of the streams that this build reads and writes.
const LAYOUT: u32 = 1;

/// JetStream's codes: there is no such stream; and there is one with another configuration.
const STREAM_NOT_FOUND: u32 = 10_059;
const STREAM_NAME_IN_USE: u32 = 10_058;

/// One bucket of a cluster.
#[derive(Debug)]
pub(super) struct Bucket {
    link: Arc<Link>,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Info {
    config: Config,
}

#[derive(Debug, Deserialize)]
struct Config {
    storage: String,
    #[serde(default)]
    num_replicas: u64,
    #[serde(default)]
    max_msgs_per_subject: i64,
}

/// What stands in the key `layout`.
#[derive(Debug, Serialize, Deserialize)]
struct Layout {
    version: u32,
}

/// JetStream's answer to what only succeeds or fails.
#[derive(Debug, Deserialize)]
struct Done {}

impl Bucket {
    pub(super) fn new(link: Arc<Link>, cluster: &ClusterId, name: &str) -> Self {
        Self { link, name: format!("granary_{cluster}_{name}") }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    #[cfg(test)]
    pub(super) fn shared_link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }

    /// The name of the stream behind the bucket.
    fn stream(&self) -> String {
        format!("KV_{}", self.name)
    }

    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.name)
    }

    /// Makes the stream if it is not there, and checks the one that is.
    pub(super) async fn make(&self, replicas: u64) -> Result<(), StoreError> {
        if let Some(found) = self.config().await? {
            return self.check(&found, replicas);
        }
        let body = json!({
            "name": self.stream(),
            "description": "made by granary",
            "subjects": [self.subject(">")],
            "retention": "limits",
            "storage": "file",
            "num_replicas": replicas,
            "max_msgs_per_subject": 1,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "discard": "new",
            "allow_rollup_hdrs": true,
            // Direct reads are answered by followers too, which may be behind.
            "allow_direct": false,
        });
        let made = self.link.api::<Info>(&format!("STREAM.CREATE.{}", self.stream()), &body).await?;
        match made {
            Ok(made) => self.check(&made.config, replicas),
            // Another silo was faster.
            Err(error) if error.err_code == STREAM_NAME_IN_USE => match self.config().await? {
                Some(found) => self.check(&found, replicas),
                None => Err(self.link.api_error(&error)),
            },
            Err(error) => Err(self.link.api_error(&error)),
        }
    }

    async fn config(&self) -> Result<Option<Config>, StoreError> {
        match self.link.api::<Info>(&format!("STREAM.INFO.{}", self.stream()), &json!({})).await? {
            Ok(info) => Ok(Some(info.config)),
            Err(error) if error.err_code == STREAM_NOT_FOUND => Ok(None),
            Err(error) => Err(self.link.api_error(&error)),
        }
    }

    fn check(&self, found: &Config, replicas: u64) -> Result<(), StoreError> {
        let (stream, name) = (self.stream(), &self.name);
        if found.storage != "file" {
            return Err(self.link.unusable(&format!(
                "the stream {stream} is kept in {}: a restart would lose it; remove it, so that it is made anew in files",
                found.storage
            )));
        }
        if found.num_replicas < replicas {
            return Err(self.link.unusable(&format!(
                "{} server keeps the stream {stream}, not {replicas}: `nats stream edit {stream} --replicas {replicas}`, \
                 or say ?replicas={}",
                found.num_replicas, found.num_replicas
            )));
        }
        if found.max_msgs_per_subject != 1 {
            return Err(self.link.unusable(&format!(
                "the stream {stream} keeps {} messages of a key, not 1: {name} is no bucket of granary's",
                found.max_msgs_per_subject
            )));
        }
        Ok(())
    }

    /// Writes the layout's version where there is none, and refuses another.
    pub(super) async fn check_layout(&self) -> Result<(), StoreError> {
        let body =
            serde_json::to_vec(&Layout { version: LAYOUT }).map_err(|err| self.malformed("layout", &err))?;
        if let Published::At(_) = self.publish("layout", body, 0).await? {
            return Ok(());
        }
        let Some(stored) = self.last("layout").await? else {
            return Err(self.link.unavailable("the key with the layout's version was removed just now"));
        };
        let found: Layout =
            serde_json::from_slice(&stored.body).map_err(|err| self.malformed("layout", &err))?;
        if found.version == LAYOUT {
            return Ok(());
        }
        Err(self.link.unusable(&format!(
            "the streams of this cluster have layout {}, this version of granary supports {LAYOUT}",
            found.version
        )))
    }

    /// The key's value and revision; `None` where there is none.
    pub(super) async fn last(&self, key: &str) -> Result<Option<Stored>, StoreError> {
        self.link.last(&self.stream(), &self.subject(key)).await
    }

    /// Writes a key that has the revision `expected` (0: there is no such key).
    pub(super) async fn publish(
        &self,
        key: &str,
        body: Vec<u8>,
        expected: u64,
    ) -> Result<Published, StoreError> {
        self.link.publish(self.subject(key), body, expected).await
    }

    /// Writes a key, whatever is there; returns its revision.
    pub(super) async fn put(&self, key: &str, body: Vec<u8>) -> Result<u64, StoreError> {
        self.link.put(self.subject(key), body).await
    }

    /// Removes the keys that a pattern fits, as far as their revisions are below `below`.
    pub(super) async fn purge(&self, pattern: &str, below: Option<u64>) -> Result<(), StoreError> {
        if below.is_some_and(|below| below <= 1) {
            // There is nothing below; and NATS 2.9 takes it as no bound at all.
            return Ok(());
        }
        let mut body = json!({ "filter": self.subject(pattern) });
        if let (Some(below), Some(body)) = (below, body.as_object_mut()) {
            body.insert("seq".to_owned(), below.into());
        }
        match self.link.api::<Done>(&format!("STREAM.PURGE.{}", self.stream()), &body).await? {
            Ok(Done {}) => Ok(()),
            Err(error) => Err(self.link.api_error(&error)),
        }
    }

    /// A stored value that does not read back: somebody else wrote to the key.
    pub(super) fn malformed(&self, key: &str, why: &dyn std::fmt::Display) -> StoreError {
        self.link.unusable(&format!("the key {key} of bucket {} cannot be read: {why}", self.name))
    }
}
