//! The arguments of `#[grain(…)]`.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, LitStr, Token, bracketed, parenthesized};

/// All arguments, for the error that says which there are.
const KNOWN: &str = "interface, interfaces, refs, wit, module, lifecycle, migration, grain_type, reentrant, \
                     placement, idle_age, memory_max, turn_cpu_max, property(\"key\" = \"value\")";

/// A manifest property: its key in the manifest, and the value as the user wrote it.
pub(crate) struct Property {
    pub(crate) key: String,
    pub(crate) value: LitStr,
    pub(crate) kind: Kind,
}

/// How a property's value is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Duration,
    DurationOrIndefinite,
    Size,
}

/// What the user asked for.
pub(crate) struct Args {
    pub(crate) interfaces: Vec<LitStr>,
    pub(crate) refs: Vec<LitStr>,
    pub(crate) wit: Option<LitStr>,
    pub(crate) module: Ident,
    /// Where the flag stands.
    pub(crate) lifecycle: Option<Span>,
    /// Where the flag stands.
    pub(crate) migration: Option<Span>,
    /// Where the flag stands.
    pub(crate) reentrant: Option<Span>,
    pub(crate) grain_type: Option<LitStr>,
    pub(crate) properties: Vec<Property>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        let mut args = Self {
            interfaces: Vec::new(),
            refs: Vec::new(),
            wit: None,
            module: Ident::new("contract", Span::call_site()),
            lifecycle: None,
            migration: None,
            reentrant: None,
            grain_type: None,
            properties: Vec::new(),
        };
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            if name != "property" {
                if seen.contains(&name) {
                    return Err(Error::new(name.span(), format!("`{name}` is given twice")));
                }
                seen.push(name.clone());
            }
            args.argument(&name, input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        args.check_interfaces(&seen)?;
        Ok(args)
    }
}

impl Args {
    fn argument(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<(), Error> {
        match name.to_string().as_str() {
            "interface" => self.interfaces.push(value(input)?),
            "interfaces" => self.interfaces.extend(list(input)?),
            "refs" => self.refs = list(input)?,
            "wit" => self.wit = Some(value(input)?),
            "module" => self.module = module(&value(input)?)?,
            "lifecycle" => self.lifecycle = Some(name.span()),
            "migration" => self.migration = Some(name.span()),
            "reentrant" => {
                self.reentrant = Some(name.span());
                self.property("reentrant", LitStr::new("true", name.span()), Kind::Text)?;
            }
            "grain_type" => self.grain_type = Some(grain_type(value(input)?)?),
            "placement" => self.property("placement-strategy", value(input)?, Kind::Text)?,
            "idle_age" => self.property("idle-duration", value(input)?, Kind::DurationOrIndefinite)?,
            "memory_max" => self.property("granary.memory-max", value(input)?, Kind::Size)?,
            "turn_cpu_max" => self.property("granary.turn-cpu-max", value(input)?, Kind::Duration)?,
            "property" => {
                let content;
                parenthesized!(content in input);
                let key: LitStr = content.parse()?;
                content.parse::<Token![=]>()?;
                self.property(&key.value(), content.parse()?, Kind::Text)?;
            }
            _ => {
                return Err(Error::new(
                    name.span(),
                    format!("`#[grain]` has no argument `{name}`; it has {KNOWN}"),
                ));
            }
        }
        Ok(())
    }

    fn property(&mut self, key: &str, value: LitStr, kind: Kind) -> Result<(), Error> {
        if self.properties.iter().any(|property| property.key == key) {
            return Err(Error::new(value.span(), format!("the property `{key}` is given twice")));
        }
        if key == "reentrant" && self.reentrant.is_none() {
            return Err(Error::new(value.span(), "overlapping turns are asked for by the flag `reentrant`"));
        }
        if key == "grain-type" {
            return Err(Error::new(value.span(), "the grain type is set by `grain_type = \"…\"`"));
        }
        self.properties.push(Property { key: key.to_owned(), value, kind });
        Ok(())
    }

    fn check_interfaces(&self, seen: &[Ident]) -> Result<(), Error> {
        let both = seen
            .iter()
            .any(|name| name == "interface")
            .then(|| seen.iter().find(|name| *name == "interfaces"));
        if let Some(Some(name)) = both {
            return Err(Error::new(name.span(), "give either `interface` or `interfaces`"));
        }
        for names in [&self.interfaces, &self.refs] {
            let twice = names
                .iter()
                .enumerate()
                .find(|(at, name)| names.iter().take(*at).any(|other| other == *name));
            if let Some((_, name)) = twice {
                return Err(Error::new(name.span(), format!("{:?} is given twice", name.value())));
            }
        }
        if let Some([_, second, ..]) = self.interfaces.get(..)
            && self.grain_type.is_none()
        {
            return Err(Error::new(
                second.span(),
                "a grain with several interfaces needs a name: add `grain_type = \"…\"`",
            ));
        }
        Ok(())
    }
}

pub(crate) fn value(input: ParseStream<'_>) -> Result<LitStr, Error> {
    input.parse::<Token![=]>()?;
    input.parse()
}

pub(crate) fn list(input: ParseStream<'_>) -> Result<Vec<LitStr>, Error> {
    input.parse::<Token![=]>()?;
    let content;
    bracketed!(content in input);
    Ok(Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

pub(crate) fn module(name: &LitStr) -> Result<Ident, Error> {
    name.parse().map_err(|_| Error::new(name.span(), format!("{:?} is no name for a module", name.value())))
}

/// The rule of the host: 1 to 128 of `A-Z a-z 0-9 - . _`.
fn grain_type(name: LitStr) -> Result<LitStr, Error> {
    let text = name.value();
    let ok = (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if ok {
        Ok(name)
    } else {
        Err(Error::new(name.span(), "a grain type has 1 to 128 letters, digits, `-`, `.` and `_`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        syn::parse_str::<Args>(text).err().map(|error| error.to_string()).unwrap()
    }

    #[test]
    fn arguments_are_understood() {
        let args: Args = syn::parse_str(
            r#"interface = "a:b/c", refs = ["d:e/f", "g:h/i",], migration, idle_age = "5m", property("x" = "y")"#,
        )
        .unwrap();
        assert_eq!(args.interfaces.len(), 1);
        assert_eq!(args.refs.iter().map(LitStr::value).collect::<Vec<_>>(), ["d:e/f", "g:h/i"]);
        assert!(args.migration.is_some() && args.lifecycle.is_none());
        let keys: Vec<&str> = args.properties.iter().map(|property| property.key.as_str()).collect();
        assert_eq!(keys, ["idle-duration", "x"]);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(
            error("interfase = \"a:b/c\"")
                .starts_with("`#[grain]` has no argument `interfase`; it has interface,")
        );
        assert_eq!(error("migration, migration"), "`migration` is given twice");
        assert_eq!(
            error("interface = \"a\", interfaces = [\"b\"]"),
            "give either `interface` or `interfaces`"
        );
        assert!(error("interfaces = [\"a\", \"b\"]").contains("needs a name"));
        assert_eq!(error("refs = [\"a\", \"b\", \"a\"]"), "\"a\" is given twice");
        assert!(error("grain_type = \"a b\"").contains("letters, digits"));
        assert!(error("property(\"grain-type\" = \"x\")").contains("grain_type = "));
        assert!(error("property(\"reentrant\" = \"true\")").contains("the flag `reentrant`"));
        assert!(error("idle_age = \"1m\", property(\"idle-duration\" = \"2m\")").contains("given twice"));
    }
}
