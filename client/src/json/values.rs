//! The types that WIT has without names: numbers, texts, lists, options, results, tuples; and those that all
//! contracts share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use granary_guest::types::{CallError, DeactivationReason, GrainRef};

use super::{Chosen, Fields, Json, Place, ValueError, WitValue, read};

impl WitValue for bool {
    fn to_json(&self) -> Json {
        Json::Bool(*self)
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        match value {
            Json::Bool(value) => Ok(value),
            other => Err(at.expected("true or false", &other)),
        }
    }
}

fn integer<T: std::str::FromStr>(name: &str, value: &Json, at: &Place<'_>) -> Result<T, ValueError> {
    match value {
        Json::Number(text) => text.parse().map_err(|_| at.error(format_args!("{text} is no {name}"))),
        other => Err(at.expected(name, other)),
    }
}

macro_rules! integers {
    ($($ty:ty = $name:literal)*) => {$(
        impl WitValue for $ty {
            fn to_json(&self) -> Json {
                Json::Number(self.to_string())
            }

            fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
                integer($name, &value, at)
            }
        }
    )*};
}

integers! { i8 = "s8" u16 = "u16" i16 = "s16" u32 = "u32" i32 = "s32" u64 = "u64" i64 = "s64" }

/// A list of these is base64.
impl WitValue for u8 {
    fn to_json(&self) -> Json {
        Json::Number(self.to_string())
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        integer("u8", &value, at)
    }

    fn list_to_json(items: &[Self]) -> Json {
        Json::String(BASE64.encode(items))
    }

    fn list_from_json(value: Json, at: &Place<'_>) -> Result<Vec<Self>, ValueError> {
        match value {
            Json::String(text) => {
                BASE64.decode(text).map_err(|error| at.error(format_args!("no base64: {error}")))
            }
            other => Err(at.expected("base64", &other)),
        }
    }
}

macro_rules! floats {
    ($($ty:ident = $name:literal)*) => {$(
        impl WitValue for $ty {
            fn to_json(&self) -> Json {
                if self.is_nan() {
                    Json::text("NaN")
                } else if self.is_infinite() {
                    Json::text(if *self > 0.0 { "Infinity" } else { "-Infinity" })
                } else {
                    // The shortest digits that give the same float.
                    Json::Number(format!("{self:?}"))
                }
            }

            fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
                match &value {
                    Json::Number(text) => text
                        .parse::<$ty>()
                        .ok()
                        .filter(|number| number.is_finite())
                        .ok_or_else(|| at.error(format_args!("{text} is no {}", $name))),
                    Json::String(text) => match text.as_str() {
                        "NaN" => Ok($ty::NAN),
                        "Infinity" => Ok($ty::INFINITY),
                        "-Infinity" => Ok($ty::NEG_INFINITY),
                        _ => Err(at.expected($name, &value)),
                    },
                    other => Err(at.expected($name, other)),
                }
            }
        }
    )*};
}

floats! { f32 = "f32" f64 = "f64" }

impl WitValue for char {
    fn to_json(&self) -> Json {
        Json::String(self.to_string())
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        let text = String::from_json(value, at)?;
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(at.error("expected a string of one character")),
        }
    }
}

impl WitValue for String {
    fn to_json(&self) -> Json {
        Json::text(self)
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        match value {
            Json::String(text) => Ok(text),
            other => Err(at.expected("a string", &other)),
        }
    }
}

impl<T: WitValue> WitValue for Vec<T> {
    fn to_json(&self) -> Json {
        T::list_to_json(self)
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        T::list_from_json(value, at)
    }
}

impl<T: WitValue> WitValue for Option<T> {
    const IS_OPTION: bool = true;

    fn to_json(&self) -> Json {
        match self {
            None => Json::Null,
            Some(value) if T::IS_OPTION => Json::object([("some", value.to_json())]),
            Some(value) => value.to_json(),
        }
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        if value == Json::Null {
            return Ok(None);
        }
        if !T::IS_OPTION {
            return T::from_json(value, at).map(Some);
        }
        let mut wrapped = Fields::new(value, at)?;
        let inner = wrapped.take("some")?;
        wrapped.end()?;
        Ok(Some(inner))
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// What a `result` carries where it has no type, and what a method without result gives.
impl WitValue for () {
    fn to_json(&self) -> Json {
        Json::Null
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        match value {
            Json::Null => Ok(()),
            other => Err(at.expected("null", &other)),
        }
    }
}

impl<T: WitValue, E: WitValue> WitValue for Result<T, E> {
    fn to_json(&self) -> Json {
        match self {
            Ok(value) => Json::object([("ok", value.to_json())]),
            Err(error) => Json::object([("err", error.to_json())]),
        }
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        let case = Chosen::new(value, at)?;
        match case.name() {
            "ok" => case.payload().map(Ok),
            "err" => case.payload().map(Err),
            _ => Err(case.unknown()),
        }
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: WitValue),+> WitValue for ($($name,)+) {
            fn to_json(&self) -> Json {
                Json::Array(vec![$(self.$index.to_json()),+])
            }

            fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
                const LENGTH: usize = [$($index),+].len();
                let items = read::items(value, at)?;
                if items.len() != LENGTH {
                    return Err(at.error(format_args!("expected {LENGTH} items, found {}", items.len())));
                }
                let mut items = items.into_iter();
                Ok(($($name::from_json(items.next().unwrap_or(Json::Null), &at.item($index))?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15)
}

impl WitValue for GrainRef {
    fn to_json(&self) -> Json {
        Json::object([("grain-type", self.grain_type.to_json()), ("key", self.key.to_json())])
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        let mut fields = Fields::new(value, at)?;
        let grain = Self { grain_type: fields.take("grain-type")?, key: fields.take("key")? };
        fields.end()?;
        Ok(grain)
    }
}

impl WitValue for CallError {
    fn to_json(&self) -> Json {
        let with = |name, payload| Json::object([(name, payload)]);
        match self {
            Self::NotDelivered(text) => with("not-delivered", text.to_json()),
            Self::UnknownOutcome(text) => with("unknown-outcome", text.to_json()),
            Self::Overloaded(ms) => with("overloaded", ms.to_json()),
            Self::NotFound(text) => with("not-found", text.to_json()),
            Self::Incompatible(text) => with("incompatible", text.to_json()),
            Self::TimedOut => Json::text("timed-out"),
            Self::Failed(text) => with("failed", text.to_json()),
            Self::Cancelled => Json::text("cancelled"),
            Self::Deadlock(chain) => with("deadlock", chain.to_json()),
            Self::Fenced => Json::text("fenced"),
        }
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        let case = Chosen::new(value, at)?;
        match case.name() {
            "not-delivered" => case.payload().map(Self::NotDelivered),
            "unknown-outcome" => case.payload().map(Self::UnknownOutcome),
            "overloaded" => case.payload().map(Self::Overloaded),
            "not-found" => case.payload().map(Self::NotFound),
            "incompatible" => case.payload().map(Self::Incompatible),
            "timed-out" => case.bare().map(|()| Self::TimedOut),
            "failed" => case.payload().map(Self::Failed),
            "cancelled" => case.bare().map(|()| Self::Cancelled),
            "deadlock" => case.payload().map(Self::Deadlock),
            "fenced" => case.bare().map(|()| Self::Fenced),
            _ => Err(case.unknown()),
        }
    }
}

/// The reasons, in the order of the contract.
const REASONS: [(&str, DeactivationReason); 6] = [
    ("shutting-down", DeactivationReason::ShuttingDown),
    ("idle", DeactivationReason::Idle),
    ("application-requested", DeactivationReason::ApplicationRequested),
    ("migrating", DeactivationReason::Migrating),
    ("duplicate", DeactivationReason::Duplicate),
    ("runtime-requested", DeactivationReason::RuntimeRequested),
];

impl WitValue for DeactivationReason {
    fn to_json(&self) -> Json {
        REASONS.iter().find(|(_, reason)| reason == self).map_or(Json::Null, |(name, _)| Json::text(name))
    }

    fn from_json(value: Json, at: &Place<'_>) -> Result<Self, ValueError> {
        let case = Chosen::new(value, at)?;
        let found = REASONS.iter().find(|(name, _)| *name == case.name()).map(|(_, reason)| *reason);
        match found {
            Some(reason) => case.bare().map(|()| reason),
            None => Err(case.unknown()),
        }
    }
}
