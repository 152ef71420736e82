//! Call Granary grains from Rust programs outside the cluster, typed by their WIT contract.
//!
//! ```ignore
//! granary_client::contract! { wit = "wit", interface = "acme:bank/account" }
//!
//! let client = granary_client::Client::connect(["http://127.0.0.1:11110"]).await?;
//! let alice = contract::AccountRef::get(&client, "alice");
//! let balance = alice.deposit(5).await?;
//! ```
//!
//! The macro reads the same WIT files as the grain's own `#[grain]`, and makes the same Rust types. A client holds
//! connections to the gateways of one or more silos; it is cheap to clone, and all clones share them.
//!
//! Every call has a deadline. It is sent again, at the next gateway, only when it provably did not run: when no
//! connection could be made, when the request did not leave, or when the gateway says so (`not-delivered`,
//! `overloaded`, `fenced`). Everything else is told to the caller, who knows what a second call would do;
//! [`CallError::is_not_run`] says whether the grain may have run.
//!
//! This crate has no `unsafe` code of its own; the bindings that [`contract!`] makes have. A crate that uses it can
//! `deny` but not `forbid` unsafe code.

mod attempt;
mod client;
mod gateway;
pub mod json;
mod target;

pub use client::{Client, ConnectError, Options};
pub use granary_guest::{CallError, GrainError, GrainRef};
/// Makes a module with the types of a WIT contract, and a typed reference for each grain interface.
///
/// | argument | meaning |
/// |---|---|
/// | `interface = "acme:bank/account"` | the interface to call; may be left out to get all of the WIT package |
/// | `interfaces = ["…", "…"]` | several of them |
/// | `wit = "wit"` | the folder of the WIT package, from `Cargo.toml` |
/// | `module = "contract"` | the name of the generated module |
///
/// A method that returns `result<T, E>` gives `Result<T, GrainError<E>>`: the grain's own error, or a failed call.
/// All other methods give `Result<T, CallError>`.
pub use granary_guest_macros::client_contract as contract;
pub use target::Target;

/// What generated code uses. No part of the interface.
#[doc(hidden)]
pub use granary_guest as __guest;
