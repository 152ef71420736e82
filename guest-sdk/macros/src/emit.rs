//! Writes what `#[grain]` adds beside the struct: the module `contract`, and the grain's side of it.

mod client;
mod client_types;
mod component;
mod interface;
mod reference;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, Ident, ItemStruct};

use crate::args::Args;
use crate::bindings::Bindings;
use crate::contract::Contract;
use crate::emit::interface::Facade;
use crate::fields::StateField;
use crate::names::Names;

pub(crate) use client::client;

/// Lints that generated code need not keep; `unsafe` is the binding generator's.
pub(crate) fn allow_all() -> TokenStream {
    quote! {
        #[allow(
            warnings,
            unsafe_code,
            unused,
            nonstandard_style,
            rust_2018_idioms,
            unreachable_pub,
            unused_qualifications,
            missing_docs,
            missing_debug_implementations,
            missing_copy_implementations,
            clippy::all,
            clippy::pedantic,
            clippy::nursery,
            clippy::restriction,
        )]
    }
}

/// What every typed reference is: its methods' target, and the text of the grain that it names.
fn deref_and_display(reference: &Ident, calls: &Ident, grain: &TokenStream) -> TokenStream {
    quote! {
        impl ::core::ops::Deref for #reference {
            type Target = #calls;

            fn deref(&self) -> &#calls {
                &self.0
            }
        }

        impl ::core::fmt::Display for #reference {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(#grain, f)
            }
        }
    }
}

/// Everything that is generated for one grain.
pub(crate) fn grain(
    args: &Args,
    contract: &Contract,
    mut bindings: Bindings,
    item: &ItemStruct,
    state: &[StateField],
    manifest: &str,
) -> Result<TokenStream, Error> {
    let names = Names::new(contract);
    let facades = interface::facades(contract, args.reentrant.is_some(), &names);
    let mut modules = Vec::new();
    for facade in &facades {
        let module = &facade.module;
        let content = facade.content(&names, &mut bindings)?;
        let docs = format!("`{}`.", facade.id_text);
        modules.push(quote! {
            #[doc = #docs]
            pub mod #module { #content }
        });
    }
    let exported: Vec<&Facade<'_>> = facades.iter().filter(|facade| facade.exported).collect();
    let exports = interface::root_exports(&facades);
    let grain = component::grain_impl(args, contract, &exported, item, state);
    let component = component::component(args, &exported, &names, item);
    let section = component::manifest_section(manifest);
    let files = contract.files.iter().filter_map(|path| path.to_str());
    let binding_items = &bindings.items;
    let (allow, module) = (allow_all(), &args.module);
    let docs = format!(
        "The contract of [`{}`](super::{}): traits of its grain interfaces, the contract's types, and typed \
         references to other grains.",
        item.ident, item.ident
    );
    let checks = exported.iter().map(|facade| {
        let (facade_module, trait_name, ident) = (&facade.module, &facade.trait_name, &item.ident);
        let span = ident.span();
        // Natively, the method that serves calls says the same.
        quote_spanned! {span=>
            #[cfg(target_family = "wasm")]
            const _: fn() = || {
                fn implements<G: #module::#facade_module::#trait_name>() {}
                implements::<#ident>();
            };
        }
    });
    Ok(quote! {
        #(#checks)*

        #[doc = #docs]
        #allow
        pub mod #module {
            #(const _: &[u8] = ::core::include_bytes!(#files);)*

            #[doc(hidden)]
            pub mod __bindings { #(#binding_items)* }

            #(#modules)*
            #exports
            #grain
            #component
            #section
        }
    })
}
