//! Paths and queries: percent-decoding and the split into segments.

use crate::problem::Problem;

/// The decoded segments of a path, `/v1/grains/counter/a%2Fb` → `["v1", "grains", "counter", "a/b"]`.
pub(crate) fn segments(path: &str) -> Result<Vec<String>, Problem> {
    path.trim_start_matches('/').split('/').map(|part| decode(part, false)).collect()
}

/// The decoded pairs of a query.
pub(crate) fn query(query: Option<&str>) -> Result<Vec<(String, String)>, Problem> {
    query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name, true)?, decode(value, true)?))
        })
        .collect()
}

/// Undoes percent-encoding; in a query `+` is a space.
fn decode(text: &str, is_query: bool) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16));
                match (digit(rest.next()), digit(rest.next())) {
                    (Some(high), Some(low)) => bytes.push(u8::try_from(high * 16 + low).unwrap_or_default()),
                    _ => {
                        return Err(Problem::bad_request(format!(
                            "the URL has a % that is not followed by two hexadecimal digits in {text:?}"
                        )));
                    }
                }
            }
            b'+' if is_query => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| Problem::bad_request("the URL does not decode to UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_slash_stays_in_its_segment() {
        assert_eq!(segments("/v1/grains/t/a%2Fb%20c").unwrap(), ["v1", "grains", "t", "a/b c"]);
    }

    #[test]
    fn a_broken_escape_is_named() {
        assert!(segments("/v1/%zz").unwrap_err().detail.contains("hexadecimal"));
        assert!(segments("/v1/%ff").unwrap_err().detail.contains("UTF-8"));
    }

    #[test]
    fn queries_decode() {
        let pairs = query(Some("name=a+b&x=%3D&flag")).unwrap();
        assert_eq!(
            pairs,
            [("name".into(), "a b".into()), ("x".into(), "=".into()), ("flag".into(), String::new())]
        );
    }
}
