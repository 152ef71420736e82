//! Conversions between the contract's own types and JSON as the gateway writes it, for programs outside the cluster.
//! What has no name in Rust (lists, options, tuples, …) is converted by `granary-client` itself.

use heck::{ToShoutySnakeCase as _, ToUpperCamelCase as _};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::Error;
use wit_parser::{TypeDefKind, TypeId};

use crate::contract::Contract;
use crate::names::{Names, camel, is_granary_types, snake};

/// `impl WitValue` for each record, variant, enum and flags.
pub(super) fn conversions(contract: &Contract, names: &Names<'_>) -> Result<TokenStream, Error> {
    let mut impls = Vec::new();
    let mut imported: Vec<_> =
        names.imported().filter(|id| !is_granary_types(&contract.resolve, *id)).collect();
    imported.sort_by_key(|id| contract.resolve.id_of(*id));
    for interface in imported {
        let path = names.types_module(interface);
        let types = contract.resolve.interfaces.get(interface).map(|interface| &interface.types);
        for (name, id) in types.into_iter().flatten() {
            let name = camel(name);
            let Some((to, from)) = bodies(contract, *id) else { continue };
            impls.push(quote! {
                impl ::granary_client::json::WitValue for __bindings::#(#path::)*#name {
                    fn to_json(&self) -> ::granary_client::json::Json { #to }

                    fn from_json(
                        __value: ::granary_client::json::Json,
                        __at: &::granary_client::json::Place<'_>,
                    ) -> ::core::result::Result<Self, ::granary_client::json::ValueError> { #from }
                }
            });
        }
    }
    Ok(quote!(#(#impls)*))
}

/// The bodies of both directions; `None` for names that stand for other types.
fn bodies(contract: &Contract, id: TypeId) -> Option<(TokenStream, TokenStream)> {
    match &contract.resolve.types.get(id)?.kind {
        TypeDefKind::Record(record) => {
            let fields: Vec<&str> = record.fields.iter().map(|field| field.name.as_str()).collect();
            Some(record_bodies(&fields))
        }
        TypeDefKind::Variant(variant) => {
            let cases: Vec<(&str, bool)> =
                variant.cases.iter().map(|case| (case.name.as_str(), case.ty.is_some())).collect();
            Some(case_bodies(&cases))
        }
        TypeDefKind::Enum(cases) => {
            let cases: Vec<(&str, bool)> =
                cases.cases.iter().map(|case| (case.name.as_str(), false)).collect();
            Some(case_bodies(&cases))
        }
        TypeDefKind::Flags(flags) => {
            let names: Vec<&str> = flags.flags.iter().map(|flag| flag.name.as_str()).collect();
            Some(flags_bodies(&names))
        }
        _ => None,
    }
}

fn record_bodies(fields: &[&str]) -> (TokenStream, TokenStream) {
    let members: Vec<Ident> = fields.iter().map(|name| snake(name)).collect();
    let to = quote! {
        ::granary_client::json::Json::object([
            #((#fields, ::granary_client::json::WitValue::to_json(&self.#members)),)*
        ])
    };
    let from = quote! {
        let mut __fields = ::granary_client::json::Fields::new(__value, __at)?;
        let __record = Self { #(#members: __fields.take(#fields)?,)* };
        __fields.end()?;
        ::core::result::Result::Ok(__record)
    };
    (to, from)
}

fn case_bodies(cases: &[(&str, bool)]) -> (TokenStream, TokenStream) {
    let to = cases.iter().map(|(name, has_payload)| {
        let case = case_name(name);
        if *has_payload {
            quote!(Self::#case(__payload) => ::granary_client::json::Json::object([
                (#name, ::granary_client::json::WitValue::to_json(__payload)),
            ]))
        } else {
            quote!(Self::#case => ::granary_client::json::Json::text(#name))
        }
    });
    let from = cases.iter().map(|(name, has_payload)| {
        let case = case_name(name);
        if *has_payload {
            quote!(#name => __case.payload().map(Self::#case))
        } else {
            quote!(#name => __case.bare().map(|()| Self::#case))
        }
    });
    let to = quote!(match self { #(#to,)* });
    let from = quote! {
        let __case = ::granary_client::json::Chosen::new(__value, __at)?;
        match __case.name() {
            #(#from,)*
            _ => ::core::result::Result::Err(__case.unknown()),
        }
    };
    (to, from)
}

/// The binding generator keeps no name for itself among cases.
fn case_name(name: &str) -> Ident {
    Ident::new(&name.to_upper_camel_case(), Span::call_site())
}

fn flags_bodies(names: &[&str]) -> (TokenStream, TokenStream) {
    let constants: Vec<Ident> =
        names.iter().map(|name| Ident::new(&name.to_shouty_snake_case(), Span::call_site())).collect();
    let to = quote! {
        ::granary_client::json::Json::names([#((#names, self.contains(Self::#constants)),)*])
    };
    let from = quote! {
        let mut __flags = Self::empty();
        for __name in ::granary_client::json::flag_names(__value, __at)? {
            match __name.as_str() {
                #(#names => __flags |= Self::#constants,)*
                _ => return ::core::result::Result::Err(__at.error(::std::format!("unknown flag {__name:?}"))),
            }
        }
        ::core::result::Result::Ok(__flags)
    };
    (to, from)
}
