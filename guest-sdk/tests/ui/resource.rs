use granary_guest::prelude::*;

#[grain(interface = "acme:files/store", wit = "resources")]
#[derive(Default)]
pub struct FileGrain;

fn main() {}
