//! `wasi:http/types.fields`: the fields of requests and responses, bounded in number and size.

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Lower, Resource};

use crate::imports::Instance;
use crate::state::HostState;

/// Fields of a request.
const FIELDS_MAX: usize = 100;

/// Names and values of a request's fields together, in bytes.
const FIELDS_BYTES_MAX: usize = 16 << 10;

/// What the connection is for the host to say.
const FORBIDDEN: [&str; 11] = [
    "connection",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// `fields`. Copies are shared until they are changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    pub(super) map: Arc<HeaderMap>,
    /// They belong to a request or a response already.
    pub(super) immutable: bool,
}

/// `header-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum HeaderError {
    #[component(name = "invalid-syntax")]
    InvalidSyntax,
    #[component(name = "forbidden")]
    Forbidden,
    #[component(name = "immutable")]
    Immutable,
}

type Store<'a> = StoreContextMut<'a, HostState>;
type This = Resource<Fields>;
type Entries = Vec<(String, Vec<u8>)>;

fn field_name(name: &str) -> Result<HeaderName, HeaderError> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| HeaderError::InvalidSyntax)?;
    if FORBIDDEN.contains(&name.as_str()) { Err(HeaderError::Forbidden) } else { Ok(name) }
}

impl Fields {
    pub(super) fn immutable(map: &Arc<HeaderMap>) -> Self {
        Self { map: Arc::clone(map), immutable: true }
    }

    fn from_list(entries: &Entries) -> Result<Self, HeaderError> {
        let mut fields = Self::default();
        entries.iter().try_for_each(|(name, value)| fields.append(name, value))?;
        Ok(fields)
    }

    fn get(&self, name: &str) -> Vec<Vec<u8>> {
        self.map.get_all(name).into_iter().map(|value| value.as_bytes().to_vec()).collect()
    }

    fn entries(&self) -> Entries {
        self.map.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
    }

    fn append(&mut self, name: &str, value: &[u8]) -> Result<(), HeaderError> {
        if self.immutable {
            return Err(HeaderError::Immutable);
        }
        let name = field_name(name)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| HeaderError::InvalidSyntax)?;
        let bytes: usize = self.map.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let bytes = bytes.saturating_add(name.as_str().len()).saturating_add(value.len());
        // WASI has no case for "too much".
        if self.map.len() >= FIELDS_MAX || bytes > FIELDS_BYTES_MAX {
            return Err(HeaderError::Forbidden);
        }
        Arc::make_mut(&mut self.map).append(name, value);
        Ok(())
    }

    fn set(&mut self, name: &str, values: &[Vec<u8>]) -> Result<(), HeaderError> {
        let mut changed = self.clone();
        changed.delete(name)?;
        values.iter().try_for_each(|value| changed.append(name, value))?;
        *self = changed;
        Ok(())
    }

    fn delete(&mut self, name: &str) -> Result<(), HeaderError> {
        if self.immutable {
            return Err(HeaderError::Immutable);
        }
        let name = field_name(name)?;
        Arc::make_mut(&mut self.map).remove(name);
        Ok(())
    }
}

/// Defines one function of the resource; false when it is none of its.
pub(super) fn link(instance: &mut Instance<'_>, name: &str, method: &str) -> wasmtime::Result<bool> {
    match method {
        "" => instance.func_wrap(name, |mut store: Store<'_>, ()| {
            Ok((store.data_mut().handles.push(Fields::default())?,))
        })?,
        "from-list" => instance.func_wrap(name, |mut store: Store<'_>, (entries,): (Entries,)| {
            Ok((match Fields::from_list(&entries) {
                Ok(fields) => Ok(store.data_mut().handles.push(fields)?),
                Err(error) => Err(error),
            },))
        })?,
        "get" => instance.func_wrap(name, |store: Store<'_>, (this, field): (This, String)| {
            Ok((store.data().handles.get(&this)?.get(&field),))
        })?,
        "has" => instance.func_wrap(name, |store: Store<'_>, (this, field): (This, String)| {
            Ok((store.data().handles.get(&this)?.map.contains_key(field),))
        })?,
        "set" => instance.func_wrap(
            name,
            |mut store: Store<'_>, (this, field, values): (This, String, Vec<Vec<u8>>)| {
                Ok((store.data_mut().handles.get_mut(&this)?.set(&field, &values),))
            },
        )?,
        "delete" => instance.func_wrap(name, |mut store: Store<'_>, (this, field): (This, String)| {
            Ok((store.data_mut().handles.get_mut(&this)?.delete(&field),))
        })?,
        "append" => {
            instance.func_wrap(
                name,
                |mut store: Store<'_>, (this, field, value): (This, String, Vec<u8>)| {
                    Ok((store.data_mut().handles.get_mut(&this)?.append(&field, &value),))
                },
            )?;
        }
        "entries" => instance.func_wrap(name, |store: Store<'_>, (this,): (This,)| {
            Ok((store.data().handles.get(&this)?.entries(),))
        })?,
        "clone" => instance.func_wrap(name, |mut store: Store<'_>, (this,): (This,)| {
            let handles = &mut store.data_mut().handles;
            let copy = Fields { map: Arc::clone(&handles.get(&this)?.map), immutable: false };
            Ok((handles.push(copy)?,))
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_checked_and_bounded() {
        let mut fields = Fields::default();
        fields.append("X-A", b"1").unwrap();
        fields.append("x-a", b"2").unwrap();
        assert_eq!(fields.get("X-a"), [b"1".to_vec(), b"2".to_vec()]);
        fields.set("x-a", &[b"3".to_vec()]).unwrap();
        assert_eq!(fields.entries(), [("x-a".to_owned(), b"3".to_vec())]);
        assert_eq!(fields.append("Host", b"other"), Err(HeaderError::Forbidden));
        assert_eq!(fields.append("Transfer-Encoding", b"chunked"), Err(HeaderError::Forbidden));
        assert_eq!(fields.append("a b", b""), Err(HeaderError::InvalidSyntax));
        assert_eq!(fields.append("a", b"1\r\nhost: other"), Err(HeaderError::InvalidSyntax));
        assert_eq!(fields.append("big", &[b'x'; FIELDS_BYTES_MAX]), Err(HeaderError::Forbidden));
        assert_eq!(Fields::immutable(&fields.map).delete("x-a"), Err(HeaderError::Immutable));
        for n in 1..FIELDS_MAX {
            fields.append(&format!("n{n}"), b"").unwrap();
        }
        assert_eq!(fields.append("more", b""), Err(HeaderError::Forbidden));
    }
}
