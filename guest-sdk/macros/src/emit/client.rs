//! Typed references for programs outside the cluster: `AccountRef` with one asynchronous method for each of the
//! interface's functions. As in a grain, the contract's methods stand on a type that the reference dereferences to,
//! so that a contract may well have a method `get`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::Error;
use wit_parser::Function;

use super::client_types;
use super::interface::{self, Facade};
use super::reference::{self, Parts, result_parts};
use crate::bindings::Bindings;
use crate::client::ClientArgs;
use crate::contract::Contract;
use crate::names::{Names, snake};

/// The module of a contract.
pub(crate) fn client(
    args: &ClientArgs,
    contract: &Contract,
    bindings: &Bindings,
) -> Result<TokenStream, Error> {
    let names = Names::new(contract);
    let facades = interface::facades(contract, false, &names);
    let modules = facades.iter().map(|facade| {
        let (module, uses) = (&facade.module, facade.uses(&names));
        let docs = format!("`{}`.", facade.id_text);
        let reference = facade.functions().next().is_some().then(|| reference(facade, &names));
        quote! {
            #[doc = #docs]
            pub mod #module { #uses #reference }
        }
    });
    let exports = interface::root_exports(&facades);
    let conversions = client_types::conversions(contract, &names)?;
    let files = contract.files.iter().filter_map(|path| path.to_str());
    let items = &bindings.items;
    let (allow, module) = (super::allow_all(), &args.module);
    Ok(quote! {
        /// The contract: its types, and typed references to grains.
        #allow
        pub mod #module {
            #(const _: &[u8] = ::core::include_bytes!(#files);)*

            #[doc(hidden)]
            pub mod __bindings { #(#items)* }

            #(#modules)*
            #exports
            #conversions
        }
    })
}

fn reference(facade: &Facade<'_>, names: &Names<'_>) -> TokenStream {
    let reference::TypeNames { reference, calls, .. } = reference::type_names(facade);
    let id_text = &facade.id_text;
    let docs = format!(
        "A grain that implements `{id_text}`, seen from outside the cluster. Cheap to clone; calling it activates the \
         grain."
    );
    let calls_docs = format!("The methods of [`{reference}`].");
    let methods = facade.functions().map(|function| method(facade, function, names));
    let helpers = helpers(facade, &reference);
    let identity = super::deref_and_display(&reference, &calls, &quote!(self.0.__target.grain()));
    quote! {
        /// The interface's id.
        pub const INTERFACE: &str = #id_text;

        #[doc = #docs]
        #[derive(Clone, Debug)]
        pub struct #reference(#calls);

        #[doc = #calls_docs]
        #[derive(Clone, Debug)]
        pub struct #calls {
            __target: ::granary_client::Target,
        }

        impl #reference {
            /// The grain with this key in the grain type that bears the interface's name.
            pub fn get(client: &::granary_client::Client, key: impl ::core::convert::AsRef<str>) -> Self {
                Self::new(client, ::granary_client::Target::of_interface(INTERFACE, key.as_ref()))
            }

            /// The grain that an untyped reference names, such as one that a call returned.
            pub fn new(client: &::granary_client::Client, grain: ::granary_client::GrainRef) -> Self {
                Self(#calls { __target: ::granary_client::Target::new(client, grain) })
            }

            #helpers
        }

        impl #calls { #(#methods)* }

        #identity

        impl ::core::convert::From<#reference> for ::granary_client::GrainRef {
            fn from(reference: #reference) -> Self {
                reference.0.__target.grain().clone()
            }
        }
    }
}

/// Helpers that are methods give way to methods of the contract with the same name.
fn helpers(facade: &Facade<'_>, reference: &Ident) -> TokenStream {
    let taken = |name: &str| facade.functions().any(|function| snake(&function.name) == name);
    let key = (!taken("key")).then(|| {
        quote! {
            /// The grain's key.
            pub fn key(&self) -> &str {
                &self.0.__target.grain().key
            }
        }
    });
    let grain_ref = (!taken("grain_ref")).then(|| {
        quote! {
            /// The untyped reference, to be sent as an argument.
            pub fn grain_ref(&self) -> ::granary_client::GrainRef {
                self.0.__target.grain().clone()
            }
        }
    });
    let within = (!taken("within")).then(|| {
        quote! {
            /// The same grain, with another time for each of its calls.
            pub fn within(&self, timeout: ::core::time::Duration) -> #reference {
                let mut changed = self.clone();
                changed.0.__target.set_timeout(timeout);
                changed
            }
        }
    });
    quote!(#key #grain_ref #within)
}

fn method(facade: &Facade<'_>, function: &Function, names: &Names<'_>) -> TokenStream {
    let root = quote!(super::__bindings);
    let (wit_name, name) = (&function.name, snake(&function.name));
    let docs = function.docs.contents.as_deref().map(|text| quote!(#[doc = #text]));
    let arguments: Vec<Ident> = function.params.iter().map(|parameter| snake(&parameter.name)).collect();
    let types = function.params.iter().map(|parameter| names.owned(&parameter.ty, &root));
    let call = quote! {
        self.__target.call(
            INTERFACE,
            #wit_name,
            ::std::vec![#(::granary_client::json::WitValue::to_json(&#arguments)),*],
        ).await
    };
    match result_parts(facade, function, names, &root) {
        Parts::Plain(ty) => quote! {
            #docs
            pub async fn #name(
                &self,
                #(#arguments: #types),*
            ) -> ::core::result::Result<#ty, ::granary_client::CallError> {
                #call
            }
        },
        Parts::Result(ok, err) => quote! {
            #docs
            pub async fn #name(
                &self,
                #(#arguments: #types),*
            ) -> ::core::result::Result<#ok, ::granary_client::GrainError<#err>> {
                let outcome: ::core::result::Result<::core::result::Result<#ok, #err>, _> = #call;
                outcome?.map_err(::granary_client::GrainError::Grain)
            }
        },
    }
}
