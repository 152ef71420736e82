//! How things of the contract are called in Rust. Follows what the binding generator does.

use std::collections::HashSet;

use heck::ToUpperCamelCase as _;
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use wit_bindgen_core::name_package_module;
use wit_bindgen_rust::to_rust_ident;
use wit_parser::{InterfaceId, Resolve, Type, TypeDefKind, TypeId, TypeOwner, WorldItem, WorldKey};

use crate::contract::Contract;
use crate::sdk::Sdk;

/// A name in Rust's snake case.
pub(crate) fn snake(name: &str) -> Ident {
    Ident::new(&to_rust_ident(name), Span::call_site())
}

/// A name in Rust's camel case.
pub(crate) fn camel(name: &str) -> Ident {
    let text = match name {
        // The binding generator keeps this name for its traits.
        "guest" => "Guest_".to_owned(),
        other => other.to_upper_camel_case(),
    };
    Ident::new(&text, Span::call_site())
}

/// Writes types of the contract as owned Rust types.
pub(crate) struct Names<'a> {
    sdk: Sdk,
    resolve: &'a Resolve,
    imported: HashSet<InterfaceId>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(contract: &'a Contract) -> Self {
        let imports = contract.resolve.worlds.get(contract.world).map(|world| &world.imports);
        let imported = imports
            .into_iter()
            .flat_map(|imports| imports.iter())
            .filter_map(|(key, item)| match (key, item) {
                (WorldKey::Interface(id), WorldItem::Interface { .. }) => Some(*id),
                _ => None,
            })
            .collect();
        Self { sdk: contract.sdk, resolve: &contract.resolve, imported }
    }

    pub(crate) fn imported(&self) -> impl Iterator<Item = InterfaceId> {
        self.imported.iter().copied()
    }

    /// The module of an interface's types, from the root of the bindings.
    pub(crate) fn types_module(&self, id: InterfaceId) -> Vec<Ident> {
        if self.imported.contains(&id) { self.import_module(id) } else { self.export_module(id) }
    }

    pub(crate) fn import_module(&self, id: InterfaceId) -> Vec<Ident> {
        let Some(interface) = self.resolve.interfaces.get(id) else { return Vec::new() };
        let Some(package) = interface.package else { return Vec::new() };
        let namespace =
            self.resolve.packages.get(package).map(|it| it.name.namespace.as_str()).unwrap_or_default();
        let package_module = Ident::new(&name_package_module(self.resolve, package), Span::call_site());
        vec![snake(namespace), package_module, snake(interface.name.as_deref().unwrap_or_default())]
    }

    pub(crate) fn export_module(&self, id: InterfaceId) -> Vec<Ident> {
        let mut path = vec![Ident::new("exports", Span::call_site())];
        path.extend(self.import_module(id));
        path
    }

    /// A type as a Rust type that owns its parts; `root` is the path of the bindings from where it stands.
    pub(crate) fn owned(&self, ty: &Type, root: &TokenStream) -> TokenStream {
        match ty {
            Type::Bool => quote!(bool),
            Type::U8 => quote!(u8),
            Type::U16 => quote!(u16),
            Type::U32 => quote!(u32),
            Type::U64 => quote!(u64),
            Type::S8 => quote!(i8),
            Type::S16 => quote!(i16),
            Type::S32 => quote!(i32),
            Type::S64 => quote!(i64),
            Type::F32 => quote!(f32),
            Type::F64 => quote!(f64),
            Type::Char => quote!(char),
            Type::String => quote!(::std::string::String),
            // Refused when the contract was checked.
            Type::ErrorContext => quote!(()),
            Type::Id(id) => self.owned_id(*id, root),
        }
    }

    fn owned_id(&self, id: TypeId, root: &TokenStream) -> TokenStream {
        let Some(definition) = self.resolve.types.get(id) else { return quote!(()) };
        if let (Some(name), TypeOwner::Interface(owner)) = (&definition.name, definition.owner) {
            let name = camel(name);
            if is_granary_types(self.resolve, owner) {
                let sdk = self.sdk.tokens();
                return quote!(#sdk::types::#name);
            }
            let module = self.types_module(owner);
            return quote!(#root::#(#module::)*#name);
        }
        let owned = |ty: &Type| self.owned(ty, root);
        let optional = |ty: &Option<Type>| ty.as_ref().map_or_else(|| quote!(()), &owned);
        match &definition.kind {
            TypeDefKind::List(ty) => {
                let ty = owned(ty);
                quote!(::std::vec::Vec<#ty>)
            }
            TypeDefKind::Option(ty) => {
                let ty = owned(ty);
                quote!(::core::option::Option<#ty>)
            }
            TypeDefKind::Result(result) => {
                let (ok, err) = (optional(&result.ok), optional(&result.err));
                quote!(::core::result::Result<#ok, #err>)
            }
            TypeDefKind::Tuple(tuple) => {
                let types = tuple.types.iter().map(owned);
                quote!((#(#types,)*))
            }
            TypeDefKind::Type(ty) => owned(ty),
            // Refused when the contract was checked.
            _ => quote!(()),
        }
    }
}

/// Whether an interface is `granary:grain/types`, whose types are the SDK's own.
pub(crate) fn is_granary_types(resolve: &Resolve, id: InterfaceId) -> bool {
    resolve.id_of(id).is_some_and(|name| name.starts_with("granary:grain/types"))
}

/// Where a type is defined, whatever names it goes by: `acme:bank/account@1.0.0#account-error`.
pub(crate) fn origin(resolve: &Resolve, id: TypeId) -> String {
    let mut at = id;
    let mut origin = String::new();
    for _ in 0..=resolve.types.len() {
        let Some(definition) = resolve.types.get(at) else { break };
        if let (Some(name), TypeOwner::Interface(owner)) = (&definition.name, definition.owner) {
            origin = format!("{}#{name}", resolve.id_of(owner).unwrap_or_default());
        }
        match definition.kind {
            TypeDefKind::Type(Type::Id(next)) => at = next,
            _ => break,
        }
    }
    origin
}
