//! The struct: which of its fields are persistent.

use syn::spanned::Spanned as _;
use syn::{Error, Field, ItemStruct, LitStr, Member, Type};

/// A field of type `Persistent<…>`, and the name that its state has in the store.
pub(crate) struct StateField {
    pub(crate) member: Member,
    pub(crate) name: LitStr,
}

/// Finds the persistent fields, and takes the attribute `#[state("…")]` off them.
pub(crate) fn take(item: &mut ItemStruct) -> Result<Vec<StateField>, Error> {
    if let Some(generic) = item.generics.params.first() {
        return Err(Error::new(generic.span(), "a grain cannot be generic: a component is one grain type"));
    }
    let mut found: Vec<StateField> = Vec::new();
    for (index, field) in item.fields.iter_mut().enumerate() {
        let given = take_attribute(field)?;
        if !is_persistent(&field.ty) {
            if let Some(name) = given {
                return Err(Error::new(name.span(), "`#[state]` belongs to fields of type `Persistent<…>`"));
            }
            continue;
        }
        let (member, name) = match (&field.ident, given) {
            (Some(ident), given) => {
                let name = given.unwrap_or_else(|| LitStr::new(&ident_text(ident), ident.span()));
                (Member::Named(ident.clone()), name)
            }
            (None, Some(name)) => (Member::Unnamed(index.into()), name),
            (None, None) => {
                return Err(Error::new(
                    field.span(),
                    "a persistent field without a name needs one for the store: `#[state(\"…\")]`",
                ));
            }
        };
        if found.iter().any(|other| other.name.value() == name.value()) {
            return Err(Error::new(
                name.span(),
                format!("two fields have their state under the name `{}`", name.value()),
            ));
        }
        found.push(StateField { member, name });
    }
    Ok(found)
}

fn take_attribute(field: &mut Field) -> Result<Option<LitStr>, Error> {
    let mut name = None;
    let mut kept = Vec::new();
    for attribute in std::mem::take(&mut field.attrs) {
        if !attribute.path().is_ident("state") {
            kept.push(attribute);
            continue;
        }
        let given: LitStr = attribute.parse_args()?;
        if given.value().is_empty() {
            return Err(Error::new(given.span(), "the name of a state cannot be empty"));
        }
        if name.replace(given).is_some() {
            return Err(Error::new(attribute.span(), "`#[state]` is given twice"));
        }
    }
    field.attrs = kept;
    Ok(name)
}

fn is_persistent(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == "Persistent"),
        _ => false,
    }
}

/// Without the `r#` of raw identifiers.
fn ident_text(ident: &syn::Ident) -> String {
    use syn::ext::IdentExt as _;

    ident.unraw().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, String> {
        let mut item: ItemStruct = syn::parse_str(text).unwrap();
        let found = take(&mut item).map_err(|error| error.to_string())?;
        assert!(item.fields.iter().all(|field| field.attrs.is_empty()));
        Ok(found.iter().map(|field| field.name.value()).collect())
    }

    #[test]
    fn persistent_fields_are_found_by_their_type() {
        let text =
            r#"struct S { a: u64, b: Persistent<u64>, #[state("x")] c: granary_guest::Persistent<Vec<u8>> }"#;
        assert_eq!(names(text).unwrap(), ["b", "x"]);
        assert_eq!(names(r#"struct S(#[state("x")] Persistent<u64>, u8);"#).unwrap(), ["x"]);
        assert_eq!(names("struct S;").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn mistakes_are_named() {
        assert!(names("struct S<T> { a: T }").unwrap_err().contains("generic"));
        assert!(names("struct S(Persistent<u64>);").unwrap_err().contains("needs one"));
        assert!(names(r#"struct S { #[state("x")] a: u64 }"#).unwrap_err().contains("belongs to"));
        assert!(
            names(r#"struct S { #[state("b")] a: Persistent<u8>, b: Persistent<u8> }"#)
                .unwrap_err()
                .contains("two fields")
        );
    }
}
