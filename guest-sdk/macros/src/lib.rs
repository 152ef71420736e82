//! The macros of granary-guest. Use them through that crate, which documents them.
//!
//! `#[grain]` goes through four steps, one module each: read the attribute (`args`) and the struct
//! (`fields`); read the WIT files and build a world around the contract (`contract`); generate bindings
//! (`bindings`); write the module `contract` and the grain itself (`emit`). Every error points at the part of
//! the user's code that is to blame.

mod args;
mod bindings;
mod client;
mod contract;
mod emit;
mod fields;
mod manifest;
mod names;
mod sdk;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{ItemStruct, parse_macro_input};

/// Marks a struct as a grain; documented at `granary_guest::grain`.
#[proc_macro_attribute]
pub fn grain(attribute: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let mut item = parse_macro_input!(item as ItemStruct);
    let generated = fields::take(&mut item)
        .and_then(|state| expand(attribute.into(), &item, &state))
        .unwrap_or_else(syn::Error::into_compile_error);
    quote!(#item #generated).into()
}

fn expand(
    attribute: TokenStream,
    item: &ItemStruct,
    state: &[fields::StateField],
) -> Result<TokenStream, syn::Error> {
    let args: args::Args = syn::parse2(attribute)?;
    let contract = contract::Contract::load(&args)?;
    let manifest = manifest::json(&args, &contract)?;
    let bindings = bindings::generate(&contract, &args.interfaces)?;
    emit::grain(&args, &contract, bindings, item, state, &manifest)
}

/// Types and references for programs outside the cluster; documented at `granary_client::contract`.
#[proc_macro]
pub fn client_contract(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    client::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
