use granary_guest::prelude::*;

#[grain(interface = "acme:bank/acount", wit = "bank")]
#[derive(Default)]
pub struct AccountGrain;

fn main() {}
