use granary_guest::prelude::*;

#[grain(interface = "acme:bank/account", wit = "bank")]
#[derive(Default)]
pub struct AccountGrain;

fn main() {}
