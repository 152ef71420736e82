use granary_guest::prelude::*;

#[grain(interface = "acme:bank/account", wit = "bank")]
#[derive(Default)]
pub struct AccountGrain;

impl contract::Account for AccountGrain {
    fn deposit(&mut self, amount: u32) -> Result<u64, contract::AccountError> {
        Ok(u64::from(amount))
    }

    fn balance(&mut self) -> String {
        String::new()
    }
}

fn main() {}
