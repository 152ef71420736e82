use granary_guest::prelude::*;

#[grain(wit = "bank")]
#[derive(Default)]
pub struct AccountGrain;

fn main() {}
