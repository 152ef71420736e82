//! What generated code reads records, variants and flags with.

use super::{Json, Place, ValueError, WitValue};

/// The items of an array.
pub(super) fn items(value: Json, at: &Place<'_>) -> Result<Vec<Json>, ValueError> {
    match value {
        Json::Array(items) => Ok(items),
        other => Err(at.expected("an array", &other)),
    }
}

/// The members of a record.
#[derive(Debug)]
pub struct Fields<'a> {
    members: Vec<(String, Json)>,
    at: &'a Place<'a>,
}

impl<'a> Fields<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// Fails when the value is none.
    pub fn new(value: Json, at: &'a Place<'a>) -> Result<Self, ValueError> {
        match value {
            Json::Object(members) => Ok(Self { members, at }),
            other => Err(at.expected("an object", &other)),
        }
    }

    /// Takes a field out.
    ///
    /// # Errors
    /// Fails when it is missing and no option, or does not fit its type.
    pub fn take<T: WitValue>(&mut self, name: &str) -> Result<T, ValueError> {
        let place = self.at.field(name);
        match self.members.iter().position(|(member, _)| member == name) {
            Some(at) => T::from_json(self.members.swap_remove(at).1, &place),
            None => T::absent().ok_or_else(|| place.error("missing")),
        }
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// Names a field that the contract does not have.
    pub fn end(self) -> Result<(), ValueError> {
        match self.members.first() {
            Some((name, _)) => Err(self.at.error(format_args!("unknown field {name:?}"))),
            None => Ok(()),
        }
    }
}

/// The case of a variant or an enum, with its payload.
#[derive(Debug)]
pub struct Chosen<'a> {
    name: String,
    payload: Option<Json>,
    at: &'a Place<'a>,
}

impl<'a> Chosen<'a> {
    /// Reads `"case"` or `{"case": payload}`.
    ///
    /// # Errors
    /// Fails when the value is neither.
    pub fn new(value: Json, at: &'a Place<'a>) -> Result<Self, ValueError> {
        match value {
            Json::String(name) => Ok(Self { name, payload: None, at }),
            Json::Object(mut members) if members.len() == 1 => match members.pop() {
                Some((name, payload)) => Ok(Self { name, payload: Some(payload), at }),
                None => Err(at.error("expected a case, found nothing")),
            },
            other => Err(at.expected("a case as a string, or an object with one member", &other)),
        }
    }

    /// The case's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The payload of a case that has one.
    ///
    /// # Errors
    /// Fails when there is none, or it does not fit its type.
    pub fn payload<T: WitValue>(self) -> Result<T, ValueError> {
        let place = self.at.field(&self.name);
        match self.payload {
            Some(payload) => T::from_json(payload, &place),
            None => Err(place.error("the case has a payload")),
        }
    }

    /// A case without payload.
    ///
    /// # Errors
    /// Fails when there is one.
    pub fn bare(self) -> Result<(), ValueError> {
        match self.payload {
            None => Ok(()),
            Some(_) => Err(self.at.field(&self.name).error("the case has no payload")),
        }
    }

    /// The error for a name that the contract does not have.
    #[must_use]
    pub fn unknown(&self) -> ValueError {
        self.at.error(format_args!("unknown case {:?}", self.name))
    }
}

/// The names in an array of flags.
///
/// # Errors
/// Fails when the value is no array of strings.
pub fn flag_names(value: Json, at: &Place<'_>) -> Result<Vec<String>, ValueError> {
    items(value, at)?
        .into_iter()
        .enumerate()
        .map(|(index, item)| match item {
            Json::String(name) => Ok(name),
            other => Err(at.item(index).expected("the name of a flag", &other)),
        })
        .collect()
}
