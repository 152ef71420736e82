//! One module for each interface of the contract: its types by short names, and a trait for its methods.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Error;
use wit_parser::{Function, InterfaceId, Resolve};

use crate::bindings::Bindings;
use crate::contract::{Contract, Reference, id_text, interface_name, is_async};
use crate::emit::reference;
use crate::names::{Names, camel, is_granary_types, origin, snake};
use crate::sdk::Sdk;

/// How one interface looks in Rust.
pub(crate) struct Facade<'a> {
    pub(crate) resolve: &'a Resolve,
    pub(crate) id: InterfaceId,
    pub(crate) id_text: String,
    pub(crate) module: Ident,
    pub(crate) trait_name: Ident,
    pub(crate) exported: bool,
    /// Seen from outside the cluster: references, and nothing to implement.
    pub(crate) outside: bool,
    /// Turns of the grain overlap, so that no method holds it across an await.
    pub(crate) reentrant: bool,
    pub(crate) reference: Option<&'a Reference>,
}

/// The interfaces that get a module: those of the contract that the world needs, types-only ones included.
pub(crate) fn facades<'a>(contract: &'a Contract, reentrant: bool, names: &Names<'_>) -> Vec<Facade<'a>> {
    let resolve = &contract.resolve;
    let derived = |id: InterfaceId| contract.refs.iter().any(|it| it.has(id));
    let mut ids: Vec<InterfaceId> = contract
        .exports
        .iter()
        .copied()
        .chain(contract.refs.iter().map(|reference| reference.interface))
        .chain(names.imported())
        .filter(|id| !derived(*id) && !is_granary_types(resolve, *id))
        .collect();
    ids.sort_by_key(|id| id_text(resolve, *id));
    ids.dedup();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for id in &ids {
        *counts.entry(interface_name(resolve, *id)).or_default() += 1;
    }
    ids.iter()
        .map(|id| {
            let name = interface_name(resolve, *id);
            let module = if counts.get(name).is_some_and(|count| *count > 1) {
                let path: Vec<String> = names.import_module(*id).iter().map(ToString::to_string).collect();
                Ident::new(&path.join("_"), Span::call_site())
            } else {
                snake(name)
            };
            Facade {
                resolve,
                id: *id,
                id_text: id_text(resolve, *id),
                module,
                trait_name: free_name(resolve, *id, name, &["", "Methods", "GrainMethods"]),
                exported: contract.exports.contains(id),
                outside: contract.sdk == Sdk::Client,
                reentrant: reentrant && contract.exports.contains(id),
                reference: contract.refs.iter().find(|reference| reference.interface == *id),
            }
        })
        .collect()
}

/// The interface's name in camel case with the first ending that no type of the interface has.
pub(crate) fn free_name(resolve: &Resolve, id: InterfaceId, name: &str, endings: &[&str]) -> Ident {
    let taken: BTreeSet<String> = resolve
        .interfaces
        .get(id)
        .map(|interface| interface.types.keys().map(|name| camel(name).to_string()).collect())
        .unwrap_or_default();
    let base = camel(name);
    let mut last = base.clone();
    for ending in endings {
        last = format_ident!("{base}{ending}");
        if !taken.contains(&last.to_string()) {
            break;
        }
    }
    last
}

impl Facade<'_> {
    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.resolve.interfaces.get(self.id).into_iter().flat_map(|interface| interface.functions.values())
    }

    /// Whether the module has the trait: for the grain, or for stand-ins of other grains.
    fn has_trait(&self) -> bool {
        self.exported || self.reference.is_some()
    }

    fn type_names(&self) -> Vec<Ident> {
        let interface = self.resolve.interfaces.get(self.id);
        interface.into_iter().flat_map(|it| it.types.keys().map(|name| camel(name))).collect()
    }

    /// The interface's types, by their short names.
    pub(crate) fn uses(&self, names: &Names<'_>) -> Option<TokenStream> {
        let types = self.type_names();
        let path = names.types_module(self.id);
        (!types.is_empty()).then(|| quote!(pub use super::__bindings::#(#path::)*{#(#types),*};))
    }

    /// What stands in the module.
    pub(crate) fn content(&self, names: &Names<'_>, bindings: &mut Bindings) -> Result<TokenStream, Error> {
        let uses = self.uses(names);
        let methods = self.has_trait().then(|| self.methods(names));
        let reference = match self.reference {
            Some(reference) => Some(reference::emit(self, reference, names, bindings)?),
            None => None,
        };
        Ok(quote!(#uses #methods #reference))
    }

    /// What serves one method natively.
    fn arm(&self, function: &Function, names: &Names<'_>, root: &TokenStream) -> TokenStream {
        let (wit_name, name) = (&function.name, snake(&function.name));
        let parameters: Vec<Ident> = function.params.iter().map(|it| snake(&it.name)).collect();
        let types = function.params.iter().map(|it| names.owned(&it.ty, root));
        let reply = match (is_async(function), self.reentrant) {
            (false, _) => quote!(__grain.#name(#(#parameters),*)),
            (true, false) => {
                quote!(::granary_guest::testing::__now(__grain.#name(#(#parameters),*)))
            }
            (true, true) => quote! {
                ::granary_guest::testing::__shared(__grain, |__grain| G::#name(__grain, #(#parameters),*))
            },
        };
        quote! {
            #wit_name => {
                let (#(#parameters,)*): (#(#types,)*) =
                    ::granary_guest::testing::__decode_arguments(__arguments)?;
                ::granary_guest::testing::__encode_reply(&#reply)
            }
        }
    }

    /// A method of the trait, without body.
    fn signature(&self, function: &Function, names: &Names<'_>, root: &TokenStream) -> TokenStream {
        let name = snake(&function.name);
        let parameters = function.params.iter().map(|parameter| {
            let (name, ty) = (snake(&parameter.name), names.owned(&parameter.ty, root));
            quote!(#name: #ty)
        });
        let result = function.result.as_ref().map(|ty| {
            let ty = names.owned(ty, root);
            quote!(-> #ty)
        });
        match (is_async(function), self.reentrant) {
            (false, _) => quote!(fn #name(&mut self, #(#parameters),*) #result),
            (true, false) => quote!(async fn #name(&mut self, #(#parameters),*) #result),
            (true, true) => quote! {
                async fn #name(this: ::granary_guest::Shared<Self>, #(#parameters),*) #result
                where
                    Self: ::core::marker::Sized
            },
        }
    }

    fn methods(&self, names: &Names<'_>) -> TokenStream {
        let root = quote!(super::__bindings);
        let (trait_name, id_text) = (&self.trait_name, &self.id_text);
        let interface_docs = self
            .resolve
            .interfaces
            .get(self.id)
            .and_then(|interface| interface.docs.contents.as_deref())
            .unwrap_or_default();
        let docs = format!("The methods of the grain interface `{id_text}`.\n\n{interface_docs}");
        let methods = self.functions().map(|function| {
            let docs = function.docs.contents.as_deref().map(|text| quote!(#[doc = #text]));
            let signature = self.signature(function, names, &root);
            quote!(#docs #signature;)
        });
        let arms = self.functions().map(|function| self.arm(function, names, &root));
        // The handle to a reentrant grain owns it while a test runs a method.
        let bound = if self.reentrant { quote!(::core::default::Default) } else { quote!(?Sized) };
        let mock_bound = self.reentrant.then(|| quote!(+ ::core::default::Default));
        let message = format!("`{{Self}}` does not implement the grain interface `{id_text}`");
        let note = format!("write `impl contract::{trait_name} for {{Self}}`");
        quote! {
            /// The id of the interface.
            pub const INTERFACE: &str = #id_text;

            #[doc = #docs]
            #[diagnostic::on_unimplemented(message = #message, label = "this grain", note = #note)]
            pub trait #trait_name { #(#methods)* }

            #[cfg(not(target_family = "wasm"))]
            #[doc(hidden)]
            pub fn __serve<G: #trait_name + #bound>(
                __grain: &mut G,
                __method: &str,
                __arguments: &[u8],
            ) -> ::core::result::Result<::std::vec::Vec<u8>, ::granary_guest::CallError> {
                match __method {
                    #(#arms)*
                    other => ::core::result::Result::Err(
                        ::granary_guest::testing::__unknown_method(INTERFACE, other),
                    ),
                }
            }

            /// Lets a stand-in answer the calls of a grain type in a test; `make` makes the stand-in for a grain.
            #[cfg(not(target_family = "wasm"))]
            pub fn mock<M: #trait_name #mock_bound + 'static>(
                context: &::granary_guest::testing::TestContext,
                grain_type: &str,
                make: impl Fn(&::granary_guest::GrainRef) -> M + 'static,
            ) {
                context.__serve_stand_in(grain_type, INTERFACE, ::std::boxed::Box::new(move |grain| {
                    let mut stand_in = make(grain);
                    ::std::boxed::Box::new(move |method: &str, arguments: &[u8]| {
                        __serve(&mut stand_in, method, arguments)
                    })
                }));
            }
        }
    }
}

/// Names of the modules that mean one thing only, at the root of the contract.
pub(crate) fn root_exports(facades: &[Facade<'_>]) -> TokenStream {
    // Name to what it means and where it can be had; a type's own interface comes first.
    let mut found: BTreeMap<String, Vec<(String, bool, Ident)>> = BTreeMap::new();
    for facade in facades {
        let own = format!("{}@", facade.id_text);
        let types = facade.resolve.interfaces.get(facade.id).map(|interface| &interface.types);
        for (name, id) in types.into_iter().flatten() {
            let origin = origin(facade.resolve, *id);
            let is_own = origin.replacen('#', "@", 1).starts_with(&own);
            found.entry(camel(name).to_string()).or_default().push((origin, is_own, facade.module.clone()));
        }
        for name in facade.generated_names() {
            found.entry(name.to_string()).or_default().push((
                format!("{}: {name}", facade.id_text),
                true,
                facade.module.clone(),
            ));
        }
    }
    let uses = found.into_iter().filter_map(|(name, mut meanings)| {
        meanings.sort_by_key(|(_, is_own, _)| !is_own);
        let (origin, _, module) = meanings.first()?;
        let unambiguous = meanings.iter().all(|(other, ..)| other == origin);
        let name = Ident::new(&name, Span::call_site());
        unambiguous.then(|| quote!(pub use self::#module::#name;))
    });
    quote!(#(#uses)*)
}

impl Facade<'_> {
    fn generated_names(&self) -> Vec<Ident> {
        let mut names = Vec::new();
        if self.has_trait() {
            names.push(self.trait_name.clone());
        }
        if self.outside && self.functions().next().is_some() {
            names.push(reference::type_names(self).reference);
        }
        if let Some(reference) = self.reference {
            names.extend(reference::type_names(self).exported(reference.awaits.is_some()));
        }
        names
    }
}
