//! The grain's side: the implementation of `Grain`, and the component's exports, which exist in WebAssembly only
//! (their symbols have names that native linkers refuse).

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Ident, ItemStruct, LitByteStr};
use wit_parser::Function;

use crate::args::Args;
use crate::contract::{Contract, is_async};
use crate::emit::interface::Facade;
use crate::fields::StateField;
use crate::names::{Names, snake};

/// `impl Grain for …`. Errors about a missing `Default` point at the struct's name, those about a missing
/// `Lifecycle` or serde at the flag that asked for it.
pub(crate) fn grain_impl(
    args: &Args,
    contract: &Contract,
    exported: &[&Facade<'_>],
    item: &ItemStruct,
    state: &[StateField],
) -> TokenStream {
    let this = this(&item.ident);
    let grain_type = &contract.grain_type;
    let interfaces = exported.iter().map(|facade| &facade.id_text);
    let loads = state.iter().map(|field| {
        let (member, name) = (&field.member, &field.name);
        quote_spanned!(name.span()=> self.#member.__bind(#name)?;)
    });
    let Life { activate, deactivate, dehydrate, rehydrate } = life(args);
    let serves = exported.iter().map(|facade| {
        let module = &facade.module;
        quote_spanned!(item.ident.span()=> #module::INTERFACE => #module::__serve(self, method, arguments))
    });
    // All tokens of the header have the struct's span, so that errors about it point there.
    let header = quote_spanned!(item.ident.span()=> impl ::granary_guest::Grain for #this);
    quote! {
        #header {
            const GRAIN_TYPE: &'static str = #grain_type;
            const INTERFACES: &'static [&'static str] = &[#(#interfaces),*];

            fn __cell() -> &'static ::std::thread::LocalKey<
                ::core::cell::RefCell<::core::option::Option<Self>>,
            > {
                ::std::thread_local! {
                    static GRAIN: ::core::cell::RefCell<::core::option::Option<#this>> =
                        const { ::core::cell::RefCell::new(::core::option::Option::None) };
                }
                &GRAIN
            }

            fn __load(&mut self) -> ::core::result::Result<(), ::granary_guest::StateError> {
                #(#loads)*
                ::core::result::Result::Ok(())
            }

            fn __activate(&mut self) -> ::core::result::Result<(), ::std::string::String> {
                #activate
            }

            fn __deactivate(&mut self, reason: ::granary_guest::DeactivationReason) {
                #deactivate
            }

            fn __dehydrate(
                &self,
            ) -> ::core::option::Option<::core::result::Result<::std::vec::Vec<u8>, ::std::string::String>> {
                #dehydrate
            }

            fn __rehydrate(memory: &[u8]) -> ::core::result::Result<Self, ::std::string::String> {
                #rehydrate
            }

            #[cfg(not(target_family = "wasm"))]
            fn __serve(
                &mut self,
                interface: &str,
                method: &str,
                arguments: &[u8],
            ) -> ::core::result::Result<::std::vec::Vec<u8>, ::granary_guest::CallError> {
                match interface {
                    #(#serves,)*
                    other => ::core::result::Result::Err(
                        ::granary_guest::testing::__unknown_method(other, method),
                    ),
                }
            }
        }
    }
}

/// Bodies of the methods of `Grain` that depend on flags.
struct Life {
    activate: TokenStream,
    deactivate: Option<TokenStream>,
    dehydrate: TokenStream,
    rehydrate: TokenStream,
}

fn life(args: &Args) -> Life {
    let activate = match args.lifecycle {
        Some(span) => quote_spanned!(span=> <Self as ::granary_guest::Lifecycle>::activate(self)),
        None => quote!(::core::result::Result::Ok(())),
    };
    let deactivate = args
        .lifecycle
        .map(|span| quote_spanned!(span=> <Self as ::granary_guest::Lifecycle>::deactivate(self, reason)));
    let (dehydrate, rehydrate) = match args.migration {
        Some(span) => (
            quote_spanned!(span=> ::core::option::Option::Some(::granary_guest::__private::write_memory::<Self>(self))),
            quote_spanned!(span=> ::granary_guest::__private::read_memory::<Self>(memory)),
        ),
        None => (
            quote!(::core::option::Option::None),
            quote!(::core::result::Result::Err("the grain does not carry its memory".into())),
        ),
    };
    Life { activate, deactivate, dehydrate, rehydrate }
}

/// The struct, seen from the module `contract`.
fn this(ident: &Ident) -> TokenStream {
    quote_spanned!(ident.span()=> super::#ident)
}

/// The exports.
pub(crate) fn component(
    args: &Args,
    exported: &[&Facade<'_>],
    names: &Names<'_>,
    item: &ItemStruct,
) -> TokenStream {
    let ident = &item.ident;
    let guests = exported.iter().map(|facade| guest(facade, names));
    let migration = args.migration.map(|_| {
        quote! {
            impl bindings::exports::granary::grain::migration::Guest for Component {
                fn dehydrate() -> Result<Vec<u8>, String> {
                    ::granary_guest::__private::dehydrate::<This>()
                }

                fn rehydrate(memory: Vec<u8>) -> Result<(), String> {
                    ::granary_guest::__private::rehydrate::<This>(&memory)
                }
            }
        }
    });
    quote! {
        #[cfg(target_family = "wasm")]
        mod __component {
            use super::__bindings as bindings;
            use super::super::#ident as This;

            struct Component;

            #(#guests)*

            impl bindings::exports::granary::grain::lifecycle::Guest for Component {
                fn activate() -> Result<(), String> {
                    ::granary_guest::__private::activate::<This>()
                }

                fn deactivate(reason: ::granary_guest::DeactivationReason) {
                    ::granary_guest::__private::deactivate::<This>(reason);
                }
            }

            #migration

            bindings::export!(Component with_types_in bindings);
        }
    }
}

/// One exported interface: each function runs a turn of the grain.
fn guest(facade: &Facade<'_>, names: &Names<'_>) -> TokenStream {
    let path = names.export_module(facade.id);
    let root = quote!(bindings);
    let (module, trait_name) = (&facade.module, &facade.trait_name);
    let functions = facade.functions().map(|function: &Function| {
        let name = snake(&function.name);
        let arguments: Vec<Ident> = function.params.iter().map(|parameter| snake(&parameter.name)).collect();
        let types = function.params.iter().map(|parameter| names.owned(&parameter.ty, &root));
        let result = function.result.as_ref().map(|ty| {
            let ty = names.owned(ty, &root);
            quote!(-> #ty)
        });
        if is_async(function) {
            let run = if facade.reentrant {
                quote!(::granary_guest::__private::shared_turn(|__grain| {
                    <This as super::#module::#trait_name>::#name(__grain, #(#arguments),*)
                }))
            } else {
                quote!(::granary_guest::__private::async_turn(async |__grain: &mut This| {
                    <This as super::#module::#trait_name>::#name(__grain, #(#arguments),*).await
                }))
            };
            return quote!(async fn #name(#(#arguments: #types),*) #result { #run.await });
        }
        quote! {
            fn #name(#(#arguments: #types),*) #result {
                ::granary_guest::__private::turn(|__grain: &mut This| {
                    <This as super::#module::#trait_name>::#name(__grain, #(#arguments),*)
                })
            }
        }
    });
    quote! {
        impl bindings::#(#path::)*Guest for Component { #(#functions)* }
    }
}

/// The custom section with the grain's properties. It must stand in the component's own crate: two of them in
/// one component are refused.
pub(crate) fn manifest_section(manifest: &str) -> TokenStream {
    let bytes = LitByteStr::new(manifest.as_bytes(), Span::call_site());
    let length = manifest.len();
    quote! {
        #[cfg(target_family = "wasm")]
        #[unsafe(link_section = "granary-manifest")]
        #[used]
        static __MANIFEST: [u8; #length] = *#bytes;
    }
}
