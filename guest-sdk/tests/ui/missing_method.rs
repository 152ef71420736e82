use granary_guest::prelude::*;

#[grain(interface = "acme:bank/account", wit = "bank")]
#[derive(Default)]
pub struct AccountGrain;

impl contract::Account for AccountGrain {
    fn balance(&mut self) -> u64 {
        0
    }
}

fn main() {}
