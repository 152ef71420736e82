use granary_guest::prelude::*;

#[grain(interface = "acme:bank/account", refs = ["acme:bank/ledger"], wit = "bank")]
#[derive(Default)]
pub struct AccountGrain;

fn main() {}
