use granary_guest::prelude::*;

#[grain(wit = "broken")]
#[derive(Default)]
pub struct AccountGrain;

fn main() {}
