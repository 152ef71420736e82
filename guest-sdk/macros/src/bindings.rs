//! Bindings: what `wit-bindgen` generates for the contract's world, parsed, and fitted to what the SDK needs:
//! types are (de)serialisable, and the functions of interfaces that only lend their types are gone.

use std::collections::HashMap;

use granary_wit::GRAIN_VERSION;
use proc_macro2::{Span, TokenTree};
use syn::{Error, Ident, Item, ItemFn, ItemMod, Signature, parse_quote};
use wit_bindgen_core::{Files, WorldGenerator as _};
use wit_bindgen_rust::{Opts, WithOption};
use wit_parser::InterfaceId;

use crate::contract::Contract;
use crate::names::{Names, is_granary_types};
use crate::sdk::Sdk;

/// The items of the module of bindings, and the imported functions found in them.
pub(crate) struct Bindings {
    pub(crate) items: Vec<Item>,
    /// Signatures of the derived functions, by interface and Rust name.
    pub(crate) functions: HashMap<(InterfaceId, String), Signature>,
}

/// Generates the bindings.
pub(crate) fn generate(contract: &Contract, interfaces: &[syn::LitStr]) -> Result<Bindings, Error> {
    let span = interfaces.first().map_or_else(Span::call_site, syn::LitStr::span);
    let source = source(contract)
        .map_err(|message| Error::new(span, format!("no bindings can be generated: {message}")))?;
    let mut file: syn::File = syn::parse_str(&source).map_err(|error| {
        Error::new(span, format!("the generated bindings are no Rust, which is a defect of the SDK: {error}"))
    })?;
    serialisable(&mut file.items, contract.sdk);
    without_docs_of_macros(&mut file.items);
    let names = Names::new(contract);
    let mut functions = HashMap::new();
    for id in names.imported() {
        let derived = contract.refs.iter().any(|reference| reference.has(id));
        let Some(module) = module(&mut file.items, &names.import_module(id)) else { continue };
        if derived {
            for item in module.iter() {
                if let Item::Fn(ItemFn { sig, .. }) = item {
                    functions.insert((id, sig.ident.to_string()), sig.clone());
                }
            }
        } else {
            module.retain(|item| !matches!(item, Item::Fn(_)));
        }
    }
    Ok(Bindings { items: file.items, functions })
}

impl Bindings {
    /// Adds items to the module of an imported interface, where the types of its functions are in scope.
    pub(crate) fn extend(&mut self, path: &[Ident], items: Vec<Item>) {
        if let Some(module) = module(&mut self.items, path) {
            module.extend(items);
        }
    }
}

fn source(contract: &Contract) -> Result<String, String> {
    let sdk = contract.sdk.path();
    let private = format!("{sdk}::__private");
    let mut options = Opts {
        generate_all: true,
        generate_unused_types: true,
        // A grain has each of its types in both directions.
        merge_structurally_equal_types: Some(Some(contract.sdk == Sdk::Guest)),
        runtime_path: Some(format!("{private}::wit_bindgen::rt")),
        bitflags_path: Some(format!("{private}::bitflags")),
        additional_derive_attributes: vec![
            "PartialEq".to_owned(),
            format!("{private}::serde::Serialize"),
            format!("{private}::serde::Deserialize"),
        ],
        ..Opts::default()
    };
    // Asking for types that the world does not use is an error of the generator.
    if Names::new(contract).imported().any(|id| is_granary_types(&contract.resolve, id)) {
        let types = format!("granary:grain/types@{GRAIN_VERSION}");
        options.with.push((types, WithOption::Path(format!("{sdk}::types"))));
    }
    let mut files = Files::default();
    let mut resolve = contract.resolve.clone();
    options
        .build()
        .generate(&mut resolve, contract.world, &mut files)
        .map_err(|error| format!("{error:#}"))?;
    let (_, source) = files.iter().next().ok_or("nothing was generated")?;
    String::from_utf8(source.to_vec()).map_err(|error| error.to_string())
}

/// The content of a module.
fn module<'a>(items: &'a mut Vec<Item>, path: &[Ident]) -> Option<&'a mut Vec<Item>> {
    let Some((first, rest)) = path.split_first() else { return Some(items) };
    let inner = items.iter_mut().find_map(|item| match item {
        Item::Mod(ItemMod { ident, content: Some((_, inner)), .. }) if ident == first => Some(inner),
        _ => None,
    })?;
    module(inner, rest)
}

/// The generator documents its macro with an example, which would be a test of the user's crate.
fn without_docs_of_macros(items: &mut [Item]) {
    for item in items {
        if let Item::Macro(item) = item {
            item.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
        }
    }
}

/// Tells serde's derives where serde is, and writes by hand what they cannot do: flags.
fn serialisable(items: &mut Vec<Item>, sdk: Sdk) {
    let mut added = Vec::new();
    for item in items.iter_mut() {
        match item {
            Item::Struct(item) if derives_serde(&item.attrs) => item.attrs.push(serde_crate(sdk)),
            Item::Enum(item) if derives_serde(&item.attrs) => item.attrs.push(serde_crate(sdk)),
            Item::Mod(ItemMod { content: Some((_, inner)), .. }) => serialisable(inner, sdk),
            Item::Macro(item) if item.mac.path.segments.last().is_some_and(|it| it.ident == "bitflags") => {
                added.extend(
                    flags_name(item.mac.tokens.clone()).into_iter().flat_map(|name| flags_impls(&name, sdk)),
                );
            }
            _ => {}
        }
    }
    items.extend(added);
}

fn derives_serde(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("derive")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("serde"))
    })
}

fn serde_crate(sdk: Sdk) -> syn::Attribute {
    let path = format!("{}::__private::serde", sdk.path());
    parse_quote!(#[serde(crate = #path)])
}

/// The name in `… pub struct Name: u8 { … }`.
fn flags_name(tokens: proc_macro2::TokenStream) -> Option<Ident> {
    let mut tokens =
        tokens.into_iter().skip_while(|token| !matches!(token, TokenTree::Ident(it) if it == "struct"));
    match (tokens.next(), tokens.next()) {
        (Some(_), Some(TokenTree::Ident(name))) => Some(name),
        _ => None,
    }
}

fn flags_impls(name: &Ident, sdk: Sdk) -> [Item; 2] {
    let sdk = sdk.tokens();
    [
        parse_quote! {
            impl #sdk::__private::serde::Serialize for #name {
                fn serialize<S: #sdk::__private::serde::Serializer>(
                    &self,
                    serializer: S,
                ) -> ::core::result::Result<S::Ok, S::Error> {
                    #sdk::__private::serde::Serialize::serialize(&self.bits(), serializer)
                }
            }
        },
        parse_quote! {
            impl<'de> #sdk::__private::serde::Deserialize<'de> for #name {
                fn deserialize<D: #sdk::__private::serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> ::core::result::Result<Self, D::Error> {
                    let bits = #sdk::__private::serde::Deserialize::deserialize(deserializer)?;
                    #sdk::__private::flags_from_bits(Self::from_bits(bits))
                }
            }
        },
    ]
}
