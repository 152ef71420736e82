//! Where two signatures differ, in words.

use std::sync::Arc;

use crate::types::{Brief, Signature, Type};

/// The first difference between the signature that a caller expects and the one that it finds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("function `{function}`: {place}: expected {expected}, found {found}")]
pub struct Mismatch {
    /// The function's name.
    pub function: String,
    /// The parameter or result, and the way from there to the difference.
    pub place: String,
    /// What the caller has there.
    pub expected: String,
    /// What the callee has there.
    pub found: String,
}

/// Compares what the method hash covers (decision A5): structure, not names of parameters, nor `async`.
///
/// `None` exactly when both signatures have the same method hash.
#[must_use]
pub fn compare(function: &str, expected: &Signature, found: &Signature) -> Option<Mismatch> {
    compare_params(function, expected, found).or_else(|| {
        let differ = |place: String, expected: String, found: String| {
            Some(Mismatch { function: function.to_owned(), place, expected, found })
        };
        match (&expected.result, &found.result) {
            (None, None) => None,
            (Some(expected), Some(found)) => {
                let (steps, expected, found) = difference(expected, found)?;
                differ(place("result".to_owned(), steps), expected, found)
            }
            (expected, found) => differ("result".to_owned(), optional(expected), optional(found)),
        }
    })
}

/// Compares parameters only: what matters for a call whose result is not wanted.
#[must_use]
pub fn compare_params(function: &str, expected: &Signature, found: &Signature) -> Option<Mismatch> {
    let differ = |place: String, expected: String, found: String| {
        Some(Mismatch { function: function.to_owned(), place, expected, found })
    };
    if expected.params.len() != found.params.len() {
        let count = |signature: &Signature| format!("{} as in {}", signature.params.len(), brief(signature));
        return differ("number of parameters".to_owned(), count(expected), count(found));
    }
    for (index, ((name, expected), (_, found))) in expected.params.iter().zip(&found.params).enumerate() {
        if let Some((steps, expected, found)) = difference(expected, found) {
            return differ(place(format!("parameter {} (`{name}`)", index + 1), steps), expected, found);
        }
    }
    None
}

/// Steps from the innermost outwards, and the two texts.
type Difference = (Vec<String>, String, String);

fn difference(expected: &Type, found: &Type) -> Option<Difference> {
    if expected == found {
        return None;
    }
    let inner = match (expected, found) {
        (Type::List(a), Type::List(b)) => step(a, b, || "item".to_owned()),
        (Type::Option(a), Type::Option(b)) => step(a, b, || "some".to_owned()),
        (Type::Result { ok: ok_a, err: err_a }, Type::Result { ok: ok_b, err: err_b }) => {
            payload(ok_a.as_ref(), ok_b.as_ref(), "ok")
                .or_else(|| payload(err_a.as_ref(), err_b.as_ref(), "err"))
        }
        (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => a
            .iter()
            .zip(b.iter())
            .enumerate()
            .find_map(|(index, (a, b))| step(a, b, || format!("item {index}"))),
        (Type::Record(a), Type::Record(b))
            if a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.name == b.name) =>
        {
            a.iter().zip(b.iter()).find_map(|(a, b)| step(&a.ty, &b.ty, || format!("field `{}`", a.name)))
        }
        (Type::Variant(a), Type::Variant(b))
            if a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.name == b.name) =>
        {
            a.iter().zip(b.iter()).find_map(|(a, b)| match (&a.ty, &b.ty) {
                (Some(one), Some(other)) => step(one, other, || format!("case `{}`", a.name)),
                _ => None,
            })
        }
        _ => None,
    };
    // Members that are missing, renamed or of another kind are shown with the type that holds them.
    inner.or_else(|| Some((Vec::new(), brief(expected), brief(found))))
}

fn step(expected: &Type, found: &Type, name: impl FnOnce() -> String) -> Option<Difference> {
    let (mut steps, expected, found) = difference(expected, found)?;
    steps.push(name());
    Some((steps, expected, found))
}

fn payload(expected: Option<&Arc<Type>>, found: Option<&Arc<Type>>, name: &str) -> Option<Difference> {
    step(expected?, found?, || name.to_owned())
}

fn place(start: String, steps: Vec<String>) -> String {
    let mut place = start;
    for step in steps.iter().rev() {
        place.push_str(", ");
        place.push_str(step);
    }
    place
}

fn optional(ty: &Option<Type>) -> String {
    ty.as_ref().map_or_else(|| "nothing".to_owned(), brief)
}

fn brief(item: &impl std::fmt::Display) -> String {
    format!("`{}`", Brief(item))
}

#[cfg(test)]
mod tests;
