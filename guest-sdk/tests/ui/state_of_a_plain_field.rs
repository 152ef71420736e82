use granary_guest::prelude::*;

#[grain(interface = "acme:bank/transfer", wit = "bank")]
#[derive(Default)]
pub struct TransferGrain {
    #[state("done")]
    done: u64,
}

fn main() {}
