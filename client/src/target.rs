//! One grain, as typed references hold it.

use std::time::Duration;

use granary_guest::{CallError, GrainRef};

use crate::client::Client;
use crate::json::{Json, Place, WitValue};

/// A grain and the client to call it by. Typed references are made of it.
#[derive(Debug, Clone)]
pub struct Target {
    client: Client,
    grain: GrainRef,
    /// Instead of the client's own.
    timeout: Option<Duration>,
}

impl Target {
    /// This grain.
    #[must_use]
    pub fn new(client: &Client, grain: GrainRef) -> Self {
        Self { client: client.clone(), grain, timeout: None }
    }

    /// The grain with this key in the type that bears the name of an interface: `account` for `acme:bank/account`.
    #[doc(hidden)]
    #[must_use]
    pub fn of_interface(interface: &str, key: &str) -> GrainRef {
        GrainRef::new(interface.rsplit('/').next().unwrap_or(interface), key)
    }

    /// The grain's name.
    #[must_use]
    pub fn grain(&self) -> &GrainRef {
        &self.grain
    }

    /// Sets the time that each call may take.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }

    /// Calls a method of an interface, and reads its result.
    ///
    /// # Errors
    /// As [`Client::call`]; [`CallError::UnknownOutcome`] when the method ran and gave something that is no value of
    /// `R`, since then the contract is another one.
    pub async fn call<R: WitValue>(
        &self,
        interface: &str,
        method: &str,
        arguments: Vec<Json>,
    ) -> Result<R, CallError> {
        let method = format!("{interface}.{method}");
        let result = self.client.call(&self.grain, &method, arguments, self.timeout).await?;
        R::from_json(result, &Place::root()).map_err(|error| {
            CallError::UnknownOutcome(format!(
                "{method} ran, and its result does not fit the contract of this program: {error}"
            ))
        })
    }
}
