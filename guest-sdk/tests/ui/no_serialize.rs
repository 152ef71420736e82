use granary_guest::prelude::*;

#[grain(interface = "acme:bank/transfer", wit = "bank", migration)]
#[derive(Default)]
pub struct TransferGrain {
    done: u64,
}

impl contract::Transfer for TransferGrain {
    fn transfer(&mut self, _source: String, _target: String) -> Result<u64, String> {
        Ok(self.done)
    }
}

fn main() {}
