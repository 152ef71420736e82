//! Typed references: `AccountRef`, and `AccountSend` for one-way calls.
//!
//! The contract's methods stand on a type that the reference dereferences to, so that a contract may well have
//! a method `get` or `new`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Error, FnArg, Item, Pat, Signature, parse_quote};
use wit_parser::{Function, Type, TypeDefKind};

use crate::bindings::Bindings;
use crate::contract::{Reference, interface_name};
use crate::emit::interface::{Facade, free_name};
use crate::names::{Names, snake};

/// serde implements its traits for tuples up to this length.
const PARAMETERS_MAX: usize = 16;

/// The names of the generated types.
pub(crate) struct TypeNames {
    pub(crate) reference: Ident,
    pub(crate) calls: Ident,
    send: Ident,
    awaits: Ident,
}

impl TypeNames {
    /// Those that people use.
    pub(crate) fn exported(self, asynchronous: bool) -> Vec<Ident> {
        let awaits = asynchronous.then_some(self.awaits);
        [self.reference, self.send].into_iter().chain(awaits).collect()
    }
}

pub(crate) fn type_names(facade: &Facade<'_>) -> TypeNames {
    let name = interface_name(facade.resolve, facade.id);
    let free = |endings: &[&str]| free_name(facade.resolve, facade.id, name, endings);
    TypeNames {
        reference: free(&["Ref", "GrainRef", "TypedRef"]),
        calls: free(&["Calls", "GrainCalls", "TypedCalls"]),
        send: free(&["Send", "GrainSend", "TypedSend"]),
        awaits: free(&["Async", "GrainAsync", "TypedAsync"]),
    }
}

/// What stands in the interface's module; the methods go into the bindings, where their types are in scope.
pub(crate) fn emit(
    facade: &Facade<'_>,
    reference: &Reference,
    names: &Names<'_>,
    bindings: &mut Bindings,
) -> Result<TokenStream, Error> {
    let TypeNames { reference: ref_name, calls, send, awaits } = type_names(facade);
    let module = &facade.module;
    // From `contract::__bindings::acme::bank_refs::account` to `contract`.
    let up = quote!(super::super::super::super);
    let root = quote!(super::super::super);
    let mut call_methods = Vec::new();
    let mut send_methods = Vec::new();
    let mut async_methods = Vec::new();
    for function in facade.functions() {
        let name = snake(&function.name);
        let docs = function.docs.contents.as_deref().map(|text| quote!(#[doc = #text]));
        let of = |id| bindings.functions.get(&(id, name.to_string()));
        if let Some(signature) = of(reference.calls) {
            let method = call_method(facade, function, signature, names, &root, &up)?;
            call_methods.push(quote!(#docs #method));
        }
        if let Some(signature) = of(reference.sends) {
            let method = send_method(facade, function, signature, &up)?;
            send_methods.push(quote!(#docs #method));
        }
        if let Some(signature) = reference.awaits.and_then(of) {
            let method = async_method(facade, function, signature, names, &root, &up)?;
            async_methods.push(quote!(#docs #method));
        }
    }
    if let Some(id) = reference.awaits {
        let asyncs_impl: Item = parse_quote!(impl #up::#module::#awaits<'_> { #(#async_methods)* });
        bindings.extend(&names.import_module(id), vec![asyncs_impl]);
    }
    let calls_impl: Item = parse_quote!(impl #up::#module::#calls { #(#call_methods)* });
    let sends_impl: Item = parse_quote!(impl #up::#module::#send<'_> { #(#send_methods)* });
    bindings.extend(&names.import_module(reference.calls), vec![calls_impl]);
    bindings.extend(&names.import_module(reference.sends), vec![sends_impl]);
    let awaits = reference.awaits.map(|_| async_type(facade, &ref_name, &awaits));
    let types = types(facade, &ref_name, &calls, &send);
    Ok(quote!(#types #awaits))
}

/// What makes calls that are awaited, so that several can be under way.
fn async_type(facade: &Facade<'_>, reference: &Ident, awaits: &Ident) -> TokenStream {
    let docs = format!(
        "Calls of a grain that implements `{}` which are awaited, so that several can be under way at once \
         ([`join_all`](::granary_guest::join_all)). Made by [`{reference}`].",
        facade.id_text
    );
    let taken = facade.functions().any(|function| snake(&function.name) == "concurrent");
    let helper = (!taken).then(|| {
        quote! {
            impl #reference {
                /// Calls that are awaited, so that several can be under way at once.
                pub fn concurrent(&self) -> #awaits<'_> {
                    #awaits { grain: &self.0.grain }
                }
            }
        }
    });
    quote! {
        #[doc = #docs]
        #[derive(Clone, Copy, Debug)]
        pub struct #awaits<'a> {
            pub(super) grain: &'a ::granary_guest::GrainRef,
        }

        #helper

        impl<'a> ::core::convert::From<&'a #reference> for #awaits<'a> {
            fn from(reference: &'a #reference) -> Self {
                Self { grain: &reference.0.grain }
            }
        }
    }
}

fn types(facade: &Facade<'_>, reference: &Ident, calls: &Ident, send: &Ident) -> TokenStream {
    let derives = quote! {
        #[derive(
            Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            ::granary_guest::__private::serde::Serialize, ::granary_guest::__private::serde::Deserialize,
        )]
        #[serde(crate = "::granary_guest::__private::serde", transparent)]
    };
    let helpers = helpers(facade, send);
    let conversions = conversions(reference, calls, send);
    let id_text = &facade.id_text;
    let docs = format!(
        "A reference to a grain that implements `{id_text}`. A plain value; calling it activates the grain."
    );
    let calls_docs = format!("The methods of [`{reference}`].");
    let send_docs = format!(
        "One-way calls of a grain that implements `{id_text}`: accepted, and not answered. Made by \
         [`{reference}`]."
    );
    quote! {
        #[doc = #docs]
        #derives
        pub struct #reference(#calls);

        #[doc = #calls_docs]
        #derives
        pub struct #calls {
            pub(super) grain: ::granary_guest::GrainRef,
        }

        #[doc = #send_docs]
        #[derive(Clone, Copy, Debug)]
        pub struct #send<'a> {
            pub(super) grain: &'a ::granary_guest::GrainRef,
        }

        impl #reference {
            /// The grain with this key in the default grain type of the interface.
            pub fn get(
                key: impl ::core::convert::AsRef<str>,
            ) -> ::core::result::Result<Self, ::granary_guest::CallError> {
                ::granary_guest::resolve(INTERFACE, key.as_ref()).map(Self::new)
            }

            /// The grain that an untyped reference names.
            pub fn new(grain: ::granary_guest::GrainRef) -> Self {
                Self(#calls { grain })
            }

            #helpers
        }

        #conversions
    }
}

fn conversions(reference: &Ident, calls: &Ident, send: &Ident) -> TokenStream {
    let identity = super::deref_and_display(reference, calls, &quote!(&self.0.grain));
    quote! {
        #identity

        impl ::core::convert::AsRef<::granary_guest::GrainRef> for #reference {
            fn as_ref(&self) -> &::granary_guest::GrainRef {
                &self.0.grain
            }
        }

        impl ::core::convert::From<::granary_guest::GrainRef> for #reference {
            fn from(grain: ::granary_guest::GrainRef) -> Self {
                Self::new(grain)
            }
        }

        impl ::core::convert::From<#reference> for ::granary_guest::GrainRef {
            fn from(reference: #reference) -> Self {
                reference.0.grain
            }
        }

        impl<'a> ::core::convert::From<&'a #reference> for #send<'a> {
            fn from(reference: &'a #reference) -> Self {
                Self { grain: &reference.0.grain }
            }
        }
    }
}

/// Helpers that are methods give way to methods of the contract with the same name.
fn helpers(facade: &Facade<'_>, send: &Ident) -> TokenStream {
    let taken = |name: &str| facade.functions().any(|function| snake(&function.name) == name);
    let key = (!taken("key")).then(|| {
        quote! {
            /// The grain's key.
            pub fn key(&self) -> &str {
                &self.0.grain.key
            }
        }
    });
    let grain_ref = (!taken("grain_ref")).then(|| {
        quote! {
            /// The untyped reference.
            pub fn grain_ref(&self) -> &::granary_guest::GrainRef {
                &self.0.grain
            }
        }
    });
    let send = (!taken("send")).then(|| {
        quote! {
            /// One-way calls: accepted, and not answered.
            pub fn send(&self) -> #send<'_> {
                #send { grain: &self.0.grain }
            }
        }
    });
    quote!(#key #grain_ref #send)
}

/// Parameters of a derived function without the first, the callee: as they are declared, and their names.
fn parameters(facade: &Facade<'_>, signature: &Signature) -> Result<(Vec<FnArg>, Vec<Ident>), Error> {
    let parameters: Vec<FnArg> = signature.inputs.iter().skip(1).cloned().collect();
    if parameters.len() > PARAMETERS_MAX {
        return Err(Error::new(
            proc_macro2::Span::call_site(),
            format!(
                "{}: `{}` has more than {PARAMETERS_MAX} parameters, the limit for references; use a record",
                facade.id_text, signature.ident
            ),
        ));
    }
    let names = parameters
        .iter()
        .filter_map(|parameter| match parameter {
            FnArg::Typed(parameter) => match &*parameter.pat {
                Pat::Ident(pattern) => Some(pattern.ident.clone()),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        })
        .collect();
    Ok((parameters, names))
}

fn call_method(
    facade: &Facade<'_>,
    function: &Function,
    signature: &Signature,
    names: &Names<'_>,
    root: &TokenStream,
    up: &TokenStream,
) -> Result<TokenStream, Error> {
    let (parameters, arguments) = parameters(facade, signature)?;
    let (wit_name, name, module) = (&function.name, &signature.ident, &facade.module);
    let dispatch = quote! {
        ::granary_guest::__private::dispatch(
            &self.grain,
            #up::#module::INTERFACE,
            #wit_name,
            &(#(#arguments,)*),
            || self::#name(&self.grain, #(#arguments),*),
        )
    };
    Ok(match result_parts(facade, function, names, root) {
        Parts::Plain(ty) => quote! {
            pub fn #name(&self, #(#parameters),*) -> ::core::result::Result<#ty, ::granary_guest::CallError> {
                #dispatch
            }
        },
        Parts::Result(ok, err) => quote! {
            pub fn #name(
                &self,
                #(#parameters),*
            ) -> ::core::result::Result<#ok, ::granary_guest::GrainError<#err>> {
                let outcome: ::core::result::Result<::core::result::Result<#ok, #err>, _> = #dispatch;
                outcome?.map_err(::granary_guest::GrainError::Grain)
            }
        },
    })
}

fn send_method(
    facade: &Facade<'_>,
    function: &Function,
    signature: &Signature,
    up: &TokenStream,
) -> Result<TokenStream, Error> {
    let (parameters, arguments) = parameters(facade, signature)?;
    let (wit_name, name, module) = (&function.name, &signature.ident, &facade.module);
    Ok(quote! {
        pub fn #name(&self, #(#parameters),*) -> ::core::result::Result<(), ::granary_guest::CallError> {
            ::granary_guest::__private::dispatch_one_way(
                self.grain,
                #up::#module::INTERFACE,
                #wit_name,
                &(#(#arguments,)*),
                || self::#name(self.grain, #(#arguments),*),
            )
        }
    })
}

fn async_method(
    facade: &Facade<'_>,
    function: &Function,
    signature: &Signature,
    names: &Names<'_>,
    root: &TokenStream,
    up: &TokenStream,
) -> Result<TokenStream, Error> {
    let (parameters, arguments) = parameters(facade, signature)?;
    let (wit_name, name, module) = (&function.name, &signature.ident, &facade.module);
    // The import takes what it is given along, since it may outlive the caller's borrow.
    let dispatch = quote! {
        ::granary_guest::__private::dispatch_async(
            self.grain,
            #up::#module::INTERFACE,
            #wit_name,
            (#(#arguments,)*),
            async |(#(#arguments,)*)| self::#name(self.grain.clone(), #(#arguments),*).await,
        )
        .await
    };
    Ok(match result_parts(facade, function, names, root) {
        Parts::Plain(ty) => quote! {
            pub async fn #name(
                &self,
                #(#parameters),*
            ) -> ::core::result::Result<#ty, ::granary_guest::CallError> {
                #dispatch
            }
        },
        Parts::Result(ok, err) => quote! {
            pub async fn #name(
                &self,
                #(#parameters),*
            ) -> ::core::result::Result<#ok, ::granary_guest::GrainError<#err>> {
                let outcome: ::core::result::Result<::core::result::Result<#ok, #err>, _> = #dispatch;
                outcome?.map_err(::granary_guest::GrainError::Grain)
            }
        },
    })
}

pub(crate) enum Parts {
    Plain(TokenStream),
    Result(TokenStream, TokenStream),
}

/// The method's result; a `result` is taken apart, whatever name it goes by.
pub(crate) fn result_parts(
    facade: &Facade<'_>,
    function: &Function,
    names: &Names<'_>,
    root: &TokenStream,
) -> Parts {
    let Some(ty) = &function.result else { return Parts::Plain(quote!(())) };
    let mut at = *ty;
    for _ in 0..=facade.resolve.types.len() {
        let Type::Id(id) = at else { break };
        match facade.resolve.types.get(id).map(|definition| &definition.kind) {
            Some(TypeDefKind::Type(next)) => at = *next,
            Some(TypeDefKind::Result(result)) => {
                let part =
                    |ty: &Option<Type>| ty.as_ref().map_or_else(|| quote!(()), |ty| names.owned(ty, root));
                return Parts::Result(part(&result.ok), part(&result.err));
            }
            _ => break,
        }
    }
    Parts::Plain(names.owned(ty, root))
}
