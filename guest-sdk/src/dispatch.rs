//! Every call of another grain goes through here: in WebAssembly to the host, natively to the test context.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::types::{CallError, GrainRef};

/// The reference to the grain with this key in the default grain type of an interface, such as
/// `acme:bank/account`. Typed references do this in `get`.
///
/// # Errors
/// [`CallError::NotFound`] when no grain type offers the interface.
pub fn resolve(interface: &str, key: &str) -> Result<GrainRef, CallError> {
    #[cfg(target_family = "wasm")]
    return crate::bindings::calls::resolve(interface, key);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::env::resolve(interface, key)
}

/// Calls a method by name (`method`, `interface.method` or `ns:pkg/interface.method`) with a JSON array of
/// arguments, and gives the result as JSON. Natively `TestContext::on_invoke` answers.
///
/// # Errors
/// As any call.
pub fn invoke(to: &GrainRef, method: &str, arguments: &str) -> Result<String, CallError> {
    #[cfg(target_family = "wasm")]
    return crate::bindings::calls::invoke(to, method, arguments);
    #[cfg(not(target_family = "wasm"))]
    crate::testing::env::invoke(to, method, arguments)
}

/// The one way out of a grain: `host` is the generated import, and runs in WebAssembly; natively the arguments
/// go to the test context, under the interface's id without a version.
///
/// # Errors
/// As any call.
pub fn dispatch<A: Serialize, R: DeserializeOwned>(
    to: &GrainRef,
    interface: &str,
    method: &str,
    arguments: &A,
    host: impl FnOnce() -> Result<R, CallError>,
) -> Result<R, CallError> {
    #[cfg(target_family = "wasm")]
    {
        let _ = (to, interface, method, arguments);
        host()
    }
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = host;
        crate::testing::env::call(to, interface, method, arguments)
    }
}

/// The same for calls that are awaited. Natively the answer is there at once.
///
/// # Errors
/// As any call.
pub async fn dispatch_async<A: Serialize, R: DeserializeOwned>(
    to: &GrainRef,
    interface: &str,
    method: &str,
    arguments: A,
    host: impl AsyncFnOnce(A) -> Result<R, CallError>,
) -> Result<R, CallError> {
    #[cfg(target_family = "wasm")]
    {
        let _ = (to, interface, method);
        host(arguments).await
    }
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = host;
        crate::testing::env::call(to, interface, method, &arguments)
    }
}

/// The same for one-way calls, which are accepted and not answered.
///
/// # Errors
/// Fails when the call was not accepted.
pub fn dispatch_one_way<A: Serialize>(
    to: &GrainRef,
    interface: &str,
    method: &str,
    arguments: &A,
    host: impl FnOnce() -> Result<(), CallError>,
) -> Result<(), CallError> {
    #[cfg(target_family = "wasm")]
    {
        let _ = (to, interface, method, arguments);
        host()
    }
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = host;
        crate::testing::env::send(to, interface, method, arguments)
    }
}
