use granary_guest::prelude::*;

#[grain(interface = "acme:bank/transfer", wit = "bank")]
pub struct TransferGrain;

impl contract::Transfer for TransferGrain {
    fn transfer(&mut self, source: String, target: String) -> Result<u64, String> {
        Err(source + &target)
    }
}

fn main() {}
