//! The properties of the grain, as the host reads them from the custom section `granary-manifest`
//! (decision A9): `{"v":1,"grain-type":"account",…}`.

use serde_json::{Map, Value};
use syn::{Error, LitStr};

use crate::args::{Args, Kind};
use crate::contract::Contract;

/// The version of the section.
const VERSION: u32 = 1;

/// The host refuses more.
const BYTES_MAX: usize = 16 * 1024;

/// The section's text.
pub(crate) fn json(args: &Args, contract: &Contract) -> Result<String, Error> {
    let mut map = Map::new();
    map.insert("v".to_owned(), VERSION.into());
    map.insert("grain-type".to_owned(), contract.grain_type.clone().into());
    for property in &args.properties {
        check(&property.value, property.kind)?;
        map.insert(property.key.clone(), property.value.value().into());
    }
    let text = Value::Object(map).to_string();
    match args.properties.last() {
        Some(last) if text.len() > BYTES_MAX => Err(Error::new(
            last.value.span(),
            format!("the properties take {} bytes together, and {BYTES_MAX} are allowed", text.len()),
        )),
        _ => Ok(text),
    }
}

fn check(value: &LitStr, kind: Kind) -> Result<(), Error> {
    let text = value.value();
    let (ok, expected) = match kind {
        Kind::Text => (true, ""),
        Kind::Duration => (is_quantity(&text, DURATION_UNITS), "a time such as `500ms`, `2s` or `1m 30s`"),
        Kind::DurationOrIndefinite => (
            text == "indefinite" || is_quantity(&text, DURATION_UNITS),
            "a time such as `30s`, `5m` or `1h 30m`, or `indefinite`",
        ),
        Kind::Size => (
            !text.contains(' ') && is_quantity(&text, SIZE_UNITS),
            "a size in bytes such as `65536`, `512KiB` or `32MiB`",
        ),
    };
    if ok { Ok(()) } else { Err(Error::new(value.span(), format!("{text:?} is not {expected}"))) }
}

const DURATION_UNITS: &[&str] = &["ms", "s", "m", "h", "d"];
const SIZE_UNITS: &[&str] = &["", "KiB", "MiB", "GiB"];

/// One or more of number and unit, with spaces between.
fn is_quantity(text: &str, units: &[&str]) -> bool {
    !text.is_empty()
        && text.split(' ').all(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let (number, unit) = part.split_at(digits);
            number.parse::<u64>().is_ok() && units.contains(&unit)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        for good in ["500ms", "2s", "1h 30m"] {
            assert!(is_quantity(good, DURATION_UNITS), "{good}");
        }
        for bad in ["", "5", "5 m", "m", "-5m", "1.5s", "99999999999999999999s"] {
            assert!(!is_quantity(bad, DURATION_UNITS), "{bad}");
        }
        assert!(is_quantity("65536", SIZE_UNITS) && is_quantity("32MiB", SIZE_UNITS));
        assert!(!is_quantity("32MB", SIZE_UNITS));
    }
}
