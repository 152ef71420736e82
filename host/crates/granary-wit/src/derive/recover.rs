//! From an imported derived interface back to the grain interface and its methods.

use std::sync::Arc;

use super::{Flavour, PACKAGE_SUFFIX, is_users};
use crate::grain::{GRAIN_VERSION, call_error_type, grain_ref_type};
use crate::types::{Brief, Signature, Type};

/// An import that calls grains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedImport {
    /// The import's name without version: `acme:bank-refs/account-send`.
    pub import: String,
    /// The grain interface that it is derived from, without version: `acme:bank/account`.
    pub interface: String,
    /// The version as written; the derived package has that of its contract.
    pub version: Option<String>,
    /// How it calls.
    pub flavour: Flavour,
}

/// A function of a derived interface does not have the derived shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{import}: function `{function}`: {what}; write the package again with `granary wit refs` \
     (granary:grain@{GRAIN_VERSION})"
)]
pub struct DerivedShapeError {
    /// The import's name.
    pub import: String,
    /// The function's name.
    pub function: String,
    /// What was expected where, and what was found.
    pub what: String,
}

/// Recognises an imported derived interface by its name, with or without version; `None` for any other name.
#[must_use]
pub fn derived_of(import_name: &str) -> Option<DerivedImport> {
    let (import, version) = match import_name.split_once('@') {
        Some((import, version)) => (import, Some(version.to_owned())),
        None => (import_name, None),
    };
    let (package, interface) = import.split_once('/')?;
    let (namespace, name) = package.split_once(':')?;
    let contract = name.strip_suffix(PACKAGE_SUFFIX).filter(|contract| !contract.is_empty())?;
    if !is_users(namespace) {
        return None;
    }
    let (interface, flavour) = match interface {
        name if name.ends_with(Flavour::Send.suffix()) => {
            (name.strip_suffix(Flavour::Send.suffix())?, Flavour::Send)
        }
        name if name.ends_with(Flavour::Async.suffix()) => {
            (name.strip_suffix(Flavour::Async.suffix())?, Flavour::Async)
        }
        name => (name, Flavour::Call),
    };
    let interface = format!("{namespace}:{contract}/{interface}");
    Some(DerivedImport { import: import.to_owned(), interface, version, flavour })
}

impl DerivedImport {
    /// The grain's method behind an imported function: without the callee's parameter and the outer result.
    ///
    /// The result of a one-way call's method is not known and given as `None`: compare and hash by
    /// [`Flavour::compare`] and [`Flavour::hash`].
    ///
    /// # Errors
    /// [`DerivedShapeError`] when the function is not of the derived shape.
    pub fn method(&self, function: &str, derived: &Signature) -> Result<Signature, DerivedShapeError> {
        let error = |what: String| DerivedShapeError {
            import: self.import.clone(),
            function: function.to_owned(),
            what,
        };
        let Some(((name, to), params)) = derived.params.split_first() else {
            return Err(error("the first parameter must be `to: grain-ref`, and there is none".to_owned()));
        };
        if to != grain_ref_type() {
            return Err(error(format!(
                "the first parameter must be a grain-ref, `{}`; it is `{name}: {}`",
                grain_ref_type(),
                Brief(to)
            )));
        }
        let result = self.result(derived.result.as_ref()).ok_or_else(|| {
            let inner = if self.flavour == Flavour::Send { "_" } else { "…" };
            let found = match &derived.result {
                Some(result) => format!("it is `{}`", Brief(result)),
                None => "there is none".to_owned(),
            };
            error(format!("the result must be `result<{inner}, call-error>`; {found}"))
        })?;
        Ok(Signature { params: params.to_vec(), result, is_async: false })
    }

    /// What the outer result holds; the outer `None` when there is no such outer result.
    fn result(&self, derived: Option<&Type>) -> Option<Option<Type>> {
        let Some(Type::Result { ok, err: Some(err) }) = derived else { return None };
        let no_ok_wanted = self.flavour == Flavour::Send;
        if **err != *call_error_type() || (no_ok_wanted && ok.is_some()) {
            return None;
        }
        Some(ok.clone().map(Arc::unwrap_or_clone))
    }
}
