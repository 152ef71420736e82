use granary_guest::prelude::*;

#[grain(interface = "acme:bank/account", wit = "bank", persistent)]
#[derive(Default)]
pub struct AccountGrain;

fn main() {}
