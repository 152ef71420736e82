//! `granary:grain/types`: the words that the other interfaces share, as Rust types and as dynamic values.

use granary_core::hosting::CallError;
use granary_core::id::{GrainId, GrainType};
use granary_wit::{Decoder, Encoder, WireError};
use wasmtime::component::{ComponentType, Lift, Lower, Val};

/// `grain-ref`.
#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(record)]
pub(crate) struct GrainRef {
    #[component(name = "grain-type")]
    grain_type: String,
    key: String,
}

impl GrainRef {
    pub(crate) fn from_id(id: &GrainId) -> Self {
        Self { grain_type: id.grain_type().as_str().to_owned(), key: id.key().to_owned() }
    }

    /// The grain that the reference names. No grain has a malformed name, so that one is `not-found`.
    pub(crate) fn to_id(&self) -> Result<GrainId, CallError> {
        GrainType::new(&self.grain_type)
            .and_then(|grain_type| GrainId::new(grain_type, &self.key))
            .map_err(|error| CallError::NotFound(error.to_string()))
    }

    /// The reference in a dynamic value.
    pub(crate) fn from_val(value: &Val) -> Option<Self> {
        let Val::Record(fields) = value else { return None };
        let text = |name: &str| {
            fields.iter().find_map(|(field, value)| match value {
                Val::String(text) if field == name => Some(text.clone()),
                _ => None,
            })
        };
        Some(Self { grain_type: text("grain-type")?, key: text("key")? })
    }
}

/// The grain that an instance called last: most calls in a row go to the same one, whose id is then not made anew.
#[derive(Debug, Default)]
pub(crate) struct LastCalled(Option<GrainId>);

impl LastCalled {
    /// The reference in encoded parameters.
    pub(crate) fn decode(
        &mut self,
        decoder: &mut Decoder<'_>,
    ) -> Result<Result<GrainId, CallError>, WireError> {
        let (grain_type, key) = (decoder.string()?, decoder.string()?);
        match &self.0 {
            Some(last) if last.key() == key && last.grain_type().as_str() == grain_type => {
                return Ok(Ok(last.clone()));
            }
            _ => {}
        }
        let id = GrainRef { grain_type: grain_type.to_owned(), key: key.to_owned() }.to_id();
        if let Ok(id) = &id {
            self.0 = Some(id.clone());
        }
        Ok(id)
    }
}

/// `call-error`; the cases stand in the order of the contract, on which [`encode_call_error`] depends too.
#[derive(Debug, Clone, ComponentType, Lift, Lower)]
#[component(variant)]
pub(crate) enum WitCallError {
    #[component(name = "not-delivered")]
    NotDelivered(String),
    #[component(name = "unknown-outcome")]
    UnknownOutcome(String),
    #[component(name = "overloaded")]
    Overloaded(u32),
    #[component(name = "not-found")]
    NotFound(String),
    #[component(name = "incompatible")]
    Incompatible(String),
    #[component(name = "timed-out")]
    TimedOut,
    #[component(name = "failed")]
    Failed(String),
    #[component(name = "cancelled")]
    Cancelled,
    #[component(name = "deadlock")]
    Deadlock(Vec<String>),
    #[component(name = "fenced")]
    Fenced,
}

impl From<CallError> for WitCallError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotDelivered(reason) => Self::NotDelivered(reason),
            CallError::UnknownOutcome(reason) => Self::UnknownOutcome(reason),
            CallError::Overloaded { retry_after_ms } => Self::Overloaded(retry_after_ms),
            CallError::NotFound(what) => Self::NotFound(what),
            CallError::Incompatible(what) => Self::Incompatible(what),
            CallError::TimedOut => Self::TimedOut,
            CallError::Failed(message) => Self::Failed(message),
            CallError::Cancelled => Self::Cancelled,
            CallError::Deadlock(chain) => Self::Deadlock(chain),
            CallError::Fenced => Self::Fenced,
            // The contract has no case for it; nothing ran, which is what this one promises.
            CallError::Quarantined(_) => Self::NotDelivered(error.to_string()),
        }
    }
}

/// Appends a `call-error` in the wire encoding.
pub(crate) fn encode_call_error(encoder: &mut Encoder, error: &CallError) -> Result<(), WireError> {
    let (case, text) = match error {
        CallError::NotDelivered(text) => (0, text),
        CallError::UnknownOutcome(text) => (1, text),
        CallError::Overloaded { retry_after_ms } => {
            encoder.case(2)?;
            return encoder.u32(*retry_after_ms);
        }
        CallError::NotFound(text) => (3, text),
        CallError::Incompatible(text) => (4, text),
        CallError::TimedOut => return encoder.case(5),
        CallError::Failed(text) => (6, text),
        CallError::Cancelled => return encoder.case(7),
        CallError::Deadlock(chain) => {
            encoder.case(8)?;
            encoder.count(chain.len())?;
            return chain.iter().try_for_each(|grain| encoder.string(grain));
        }
        CallError::Fenced => return encoder.case(9),
        CallError::Quarantined(_) => {
            encoder.case(0)?;
            return encoder.string(&error.to_string());
        }
    };
    encoder.case(case)?;
    encoder.string(text)
}

/// A `call-error` as a dynamic value, for functions whose types are known at link time only.
pub(crate) fn call_error_val(error: CallError) -> Val {
    let case = |name: &str, payload: Option<Val>| Val::Variant(name.to_owned(), payload.map(Box::new));
    match error {
        CallError::NotDelivered(text) => case("not-delivered", Some(Val::String(text))),
        CallError::UnknownOutcome(text) => case("unknown-outcome", Some(Val::String(text))),
        CallError::Overloaded { retry_after_ms } => case("overloaded", Some(Val::U32(retry_after_ms))),
        CallError::NotFound(text) => case("not-found", Some(Val::String(text))),
        CallError::Incompatible(text) => case("incompatible", Some(Val::String(text))),
        CallError::TimedOut => case("timed-out", None),
        CallError::Failed(text) => case("failed", Some(Val::String(text))),
        CallError::Cancelled => case("cancelled", None),
        CallError::Deadlock(chain) => {
            case("deadlock", Some(Val::List(chain.into_iter().map(Val::String).collect())))
        }
        CallError::Fenced => case("fenced", None),
        CallError::Quarantined(_) => case("not-delivered", Some(Val::String(error.to_string()))),
    }
}
