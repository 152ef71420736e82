use granary_guest::prelude::*;

#[grain(interface = "acme:bank/account", refs = ["acme:bank/account"], wit = "bank")]
#[derive(Default)]
pub struct AccountGrain;

impl contract::Account for AccountGrain {
    fn deposit(&mut self, amount: u64) -> Result<u64, contract::AccountError> {
        Ok(contract::AccountRef::get("other")?.deposit(amount)?)
    }

    fn balance(&mut self) -> u64 {
        0
    }
}

fn main() {}
