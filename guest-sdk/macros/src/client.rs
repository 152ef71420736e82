//! `granary_client::contract!`: the contract as a program outside the cluster sees it.

use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitStr, Token};

use crate::contract::Contract;
use crate::{args, bindings, emit};

/// What the user asked for.
pub(crate) struct ClientArgs {
    pub(crate) interfaces: Vec<LitStr>,
    pub(crate) wit: Option<LitStr>,
    pub(crate) module: Ident,
}

impl Parse for ClientArgs {
    fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        let mut found =
            Self { interfaces: Vec::new(), wit: None, module: Ident::new("contract", Span::call_site()) };
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            match name.to_string().as_str() {
                "interface" => found.interfaces.push(args::value(input)?),
                "interfaces" => found.interfaces.extend(args::list(input)?),
                "wit" => found.wit = Some(args::value(input)?),
                "module" => found.module = args::module(&args::value(input)?)?,
                _ => {
                    return Err(Error::new(
                        name.span(),
                        format!(
                            "`contract!` has no argument `{name}`; it has interface, interfaces, wit, module"
                        ),
                    ));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(found)
    }
}

/// The module that the macro stands for.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream, Error> {
    let args: ClientArgs = syn::parse2(input)?;
    let contract = Contract::for_client(&args)?;
    let bindings = bindings::generate(&contract, &args.interfaces)?;
    emit::client(&args, &contract, &bindings)
}
