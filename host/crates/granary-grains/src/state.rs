//! Persistent state of a grain: the activation's fence, and bounded time, around the store. The store checks sizes.

use std::future::Future;
use std::time::Duration;

use granary_core::hosting::{StateError, StateValue};
use granary_core::id::GrainId;
use granary_store::GrainStateStore;
use tokio::time::timeout;

/// Whose state, and as which activation: the fence is the one of its registration (decision B11).
pub(crate) struct Access<'a> {
    pub(crate) store: &'a dyn GrainStateStore,
    pub(crate) grain: &'a GrainId,
    pub(crate) fence: u64,
    pub(crate) timeout: Duration,
}

impl Access<'_> {
    pub(crate) async fn read(self, name: &str) -> Result<Option<StateValue>, StateError> {
        let read = self.store.read(self.grain.clone(), name.to_owned(), self.fence);
        bounded(self.timeout, read).await
    }

    pub(crate) async fn write(
        self,
        name: &str,
        value: Vec<u8>,
        expected: Option<String>,
    ) -> Result<String, StateError> {
        let write = self.store.write(self.grain.clone(), name.to_owned(), value, expected, self.fence);
        bounded(self.timeout, write).await
    }

    pub(crate) async fn clear(self, name: &str, expected: Option<String>) -> Result<(), StateError> {
        let clear = self.store.clear(self.grain.clone(), name.to_owned(), expected, self.fence);
        bounded(self.timeout, clear).await
    }
}

async fn bounded<T>(
    limit: Duration,
    access: impl Future<Output = Result<T, StateError>>,
) -> Result<T, StateError> {
    match timeout(limit, access).await {
        Ok(result) => result,
        Err(_) => Err(StateError::Unavailable(format!("no answer within {limit:?}"))),
    }
}
