//! Derived packages (decision A2): how grains call grains.
//!
//! For the contract `acme:bank@1.0.0` with a grain interface `account` there is a package
//! `acme:bank-refs@1.0.0` with three interfaces of flat functions:
//!
//! - `account`: each method takes the callee first, `to: grain-ref`, and its result is wrapped in
//!   `result<…, call-error>`;
//! - `account-send`: the same for one-way calls, `result<_, call-error>` for "accepted";
//! - `account-async`: `async func`s with the shape of the first.
//!
//! Where a method has a parameter `to` of its own, the callee's parameter is called `to-grain`. Where the
//! contract has a type or method named `grain-ref` or `call-error`, Granary's type of that name is called
//! `granary-grain-ref` or `granary-call-error`. A grain interface whose name ends in `-send` or `-async`
//! would be mistaken for a derived one and gets no references. This module writes the text, and recognises
//! and undoes the shape in imports; it reads and writes no files.

mod definition;
mod generate;
mod recover;

pub use generate::{ContractTypes, DerivedPackage, derive_package};
pub use recover::{DerivedImport, DerivedShapeError, derived_of};

use crate::compare::{Mismatch, compare, compare_params};
use crate::hash::{method_hash, params_hash};
use crate::types::Signature;

/// What a derived package's name has more than its contract's.
const PACKAGE_SUFFIX: &str = "-refs";

/// How the functions of a derived interface call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flavour {
    /// The caller waits for the result.
    Call,
    /// The call is accepted and nobody waits: one-way.
    Send,
    /// As `Call`, with `async func`s.
    Async,
}

impl Flavour {
    /// All flavours.
    pub const ALL: [Self; 3] = [Self::Call, Self::Send, Self::Async];

    /// What the derived interface's name has more than the grain interface's.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Call => "",
            Self::Send => "-send",
            Self::Async => "-async",
        }
    }

    /// The hash that a call of this flavour carries: of the whole method, or of its parameters for one-way
    /// calls, whose importer does not know the result.
    #[must_use]
    pub fn hash(self, method: &Signature) -> [u8; 32] {
        match self {
            Self::Call | Self::Async => method_hash(method),
            Self::Send => params_hash(method),
        }
    }

    /// Compares what an importer of this flavour knows of a method with the method; `None` exactly when
    /// [`Flavour::hash`] is the same for both.
    #[must_use]
    pub fn compare(self, function: &str, expected: &Signature, found: &Signature) -> Option<Mismatch> {
        match self {
            Self::Call | Self::Async => compare(function, expected, found),
            Self::Send => compare_params(function, expected, found),
        }
    }
}

/// Whether an interface with this full name (`acme:bank/account@1.0.0`) is a grain interface when a
/// component exports it: any but those of the namespaces `granary` and `wasi`.
#[must_use]
pub fn is_grain_interface(name: &str) -> bool {
    name.split_once(':').is_some_and(|(namespace, rest)| is_users(namespace) && rest.contains('/'))
}

/// Whether packages of this namespace are written by users.
fn is_users(namespace: &str) -> bool {
    !matches!(namespace, "granary" | "wasi")
}

#[cfg(test)]
mod tests;
