//! Write Granary grains in Rust.
//!
//! A grain is a struct whose methods implement a WIT interface. The [`grain`] attribute reads the WIT files of
//! the project, and makes a module `contract` with a trait for each grain interface, the contract's types, and
//! typed references to other grains:
//!
//! ```ignore
//! use granary_guest::prelude::*;
//!
//! #[grain(interface = "acme:bank/account")]
//! #[derive(Default)]
//! pub struct AccountGrain {
//!     balance: Persistent<u64>,
//! }
//!
//! impl contract::Account for AccountGrain {
//!     fn deposit(&mut self, amount: u64) -> Result<u64, contract::AccountError> {
//!         let balance = *self.balance + amount;
//!         self.balance.set(balance)?;
//!         Ok(balance)
//!     }
//! }
//! ```
//!
//! Everything compiles natively too: [`testing::TestContext`] runs grains under plain `cargo test`.
//!
//! This crate reads no files, starts no threads, and has no `unsafe` code of its own; generated bindings have.

mod bindings;
mod codec;
mod concurrent;
pub mod context;
mod dispatch;
mod grain;
#[cfg(feature = "log")]
mod log_bridge;
pub mod logging;
mod state;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
#[cfg(feature = "tracing")]
mod tracing_bridge;
pub mod types;

pub use concurrent::{Shared, join_all};
pub use dispatch::{invoke, resolve};
pub use grain::{Grain, Lifecycle};
/// Marks a struct as a grain.
///
/// | argument | meaning |
/// |---|---|
/// | `interface = "acme:bank/account"` | the grain interface; may be left out when the WIT package has only one |
/// | `interfaces = ["…", "…"]` | several of them; needs `grain_type` |
/// | `refs = ["acme:bank/account"]` | interfaces of other grains to make typed references for |
/// | `wit = "wit"` | the folder of the WIT package, from `Cargo.toml` |
/// | `module = "contract"` | the name of the generated module |
/// | `lifecycle` | the struct implements [`Lifecycle`] |
/// | `migration` | memory is carried along on a migration; the struct is `Serialize` and `Deserialize` |
/// | `reentrant` | turns may overlap where they await; asynchronous methods get a [`Shared`] handle in place of `&mut self` |
/// | `grain_type = "account"` | the grain type; otherwise the name of the only interface |
/// | `placement = "prefer-local"` | property `placement-strategy` |
/// | `idle_age = "5m"` | property `idle-duration`: deactivate after this time without a call |
/// | `memory_max = "32MiB"` | property `granary.memory-max` |
/// | `turn_cpu_max = "2s"` | property `granary.turn-cpu-max` |
/// | `property("key" = "value")` | any other property |
///
/// Fields of type [`Persistent`] are read from the store before the grain is activated, under the name of the
/// field, or that of `#[state("name")]` on the field. Put `#[grain]` above `#[derive(…)]`.
///
/// Generated bindings need `unsafe`, so a crate with grains can `deny` but not `forbid` it.
pub use granary_guest_macros::grain;
pub use state::{Persistent, StateError};
pub use types::{CallError, DeactivationReason, GrainError, GrainRef};

/// What a grain needs: `use granary_guest::prelude::*`.
pub mod prelude {
    pub use crate::{
        CallError, DeactivationReason, Grain, GrainError, GrainRef, Lifecycle, Persistent, Shared, StateError,
    };
    pub use crate::{context, grain, join_all};
}

/// What generated code uses. No part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use serde;
    pub use wit_bindgen;
    pub use wit_bindgen::rt::bitflags;

    pub use crate::codec::{flags_from_bits, read_memory, write_memory};
    pub use crate::dispatch::{dispatch, dispatch_async, dispatch_one_way};
    #[cfg(target_family = "wasm")]
    pub use crate::grain::shared_turn;
    pub use crate::grain::{activate, async_turn, deactivate, dehydrate, rehydrate, turn};
}
