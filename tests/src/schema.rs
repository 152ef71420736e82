//! A validator for the part of JSON Schema that Granary's OpenAPI documents use. An unknown keyword is an error, so
//! that nothing passes unchecked.

use serde_json::Value;

/// Keywords that say nothing about validity here.
const NOTES: [&str; 2] = ["description", "contentEncoding"];

/// Whether a value is valid; the error names the place.
///
/// # Errors
/// What is wrong, and where.
pub fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    let Value::Object(schema) = schema else {
        return if *schema == Value::Bool(false) { Err("nothing is allowed".to_owned()) } else { Ok(()) };
    };
    let number = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
    for (keyword, rule) in schema {
        let ok = match keyword.as_str() {
            "type" => is_a(rule.as_str().unwrap(), value),
            "const" => rule == value,
            "enum" => rule.as_array().unwrap().contains(value),
            "anyOf" => alternatives(rule, value) > 0,
            "oneOf" => alternatives(rule, value) == 1,
            "minimum" => integer(value).is_none_or(|value| value >= integer(rule).unwrap()),
            "maximum" => integer(value).is_none_or(|value| value <= integer(rule).unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as f64 >= number(rule)),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() as f64 <= number(rule)),
            "pattern" => {
                // The one pattern that is used.
                assert_eq!(rule, "^-?[0-9]+$");
                value.as_str().is_none_or(|text| text.parse::<i128>().is_ok())
            }
            "minItems" => value.as_array().is_none_or(|items| items.len() as f64 >= number(rule)),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as f64 <= number(rule)),
            "uniqueItems" => value
                .as_array()
                .is_none_or(|items| items.iter().enumerate().all(|(n, item)| !items[..n].contains(item))),
            "required" => value.as_object().is_none_or(|members| {
                rule.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
            }),
            "properties" | "additionalProperties" | "prefixItems" | "items" => true,
            keyword if NOTES.contains(&keyword) => true,
            keyword => return Err(format!("unknown keyword {keyword}")),
        };
        if !ok {
            return Err(format!("{value} breaks {keyword}: {rule}"));
        }
    }
    members(schema, value)?;
    items(schema, value)
}

fn alternatives(schemas: &Value, value: &Value) -> usize {
    schemas.as_array().unwrap().iter().filter(|schema| validate(schema, value).is_ok()).count()
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

fn integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

fn members(schema: &serde_json::Map<String, Value>, value: &Value) -> Result<(), String> {
    let Some(members) = value.as_object() else { return Ok(()) };
    for (name, member) in members {
        let known = schema.get("properties").and_then(|properties| properties.get(name));
        match (known, schema.get("additionalProperties")) {
            (Some(known), _) => validate(known, member).map_err(|error| format!(".{name}: {error}"))?,
            (None, Some(Value::Bool(false))) => return Err(format!("unknown member {name}")),
            (None, _) => {}
        }
    }
    Ok(())
}

fn items(schema: &serde_json::Map<String, Value>, value: &Value) -> Result<(), String> {
    let Some(items) = value.as_array() else { return Ok(()) };
    let first = schema.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        let of = first.get(index).or_else(|| schema.get("items"));
        of.map_or(Ok(()), |of| validate(of, item)).map_err(|error| format!("[{index}]: {error}"))?;
    }
    Ok(())
}
