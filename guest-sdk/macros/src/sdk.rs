//! For whom code is generated: grains, or programs outside the cluster. They share contracts, types and names, and
//! differ in where generated code finds the SDK.

use proc_macro2::TokenStream;

/// One of the two crates that generated code belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sdk {
    /// `granary-guest`.
    Guest,
    /// `granary-client`, which brings the types of `granary-guest` along.
    Client,
}

impl Sdk {
    /// Where generated code finds the items of `granary-guest`.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Guest => "::granary_guest",
            Self::Client => "::granary_client::__guest",
        }
    }

    /// The same as tokens.
    pub(crate) fn tokens(self) -> TokenStream {
        // Both texts are paths.
        self.path().parse().unwrap_or_default()
    }
}
