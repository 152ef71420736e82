use granary_guest::prelude::*;

#[grain(interface = "acme:bank/account", wit = "bank", memory_max = "32 MB")]
#[derive(Default)]
pub struct AccountGrain;

fn main() {}
