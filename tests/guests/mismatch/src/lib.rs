//! A grain that calls accounts by a contract that they do not have: its deploy is refused once accounts are known.

use granary_guest::prelude::*;

/// The grain. It keeps nothing.
#[grain(interface = "granary-tests:mismatch/mismatch", refs = ["acme:bank/account"])]
#[derive(Debug, Default)]
pub struct MismatchGrain;

impl contract::Mismatch for MismatchGrain {
    fn deposit_to(&mut self, account: String, amount: u32) -> Result<u32, String> {
        let account = contract::AccountRef::get(&account).map_err(|error| error.to_string())?;
        account.deposit(amount).map_err(|error| error.to_string())
    }
}
