use granary_guest::prelude::*;

#[grain(interface = "acme:bank/account")]
#[derive(Default)]
pub struct AccountGrain;

fn main() {}
