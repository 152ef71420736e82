//! Planted faults, for tests of what a silo survives. Nothing here does anything unless the environment variable
//! `GRANARY_TEST_FAILPOINT` is set when the silo starts: `abort:TYPE/KEY` ends the process in a turn of that grain,
//! `panic:TYPE/KEY` panics in the host's function when that grain calls another.

use std::sync::Arc;

use granary_core::hosting::{
    ActivationHost, ActivationIdentity, BoxFuture, CallError, LifecycleRequest, LogLevel, OutgoingCall,
    StateError, StateValue, TurnContext,
};
use granary_core::id::GrainId;

/// The variable that plants a fault.
const VARIABLE: &str = "GRANARY_TEST_FAILPOINT";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Abort,
    Panic,
}

/// A planted fault of one grain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failpoint {
    kind: Kind,
    grain: String,
}

impl Failpoint {
    /// What the environment asks for.
    pub(super) fn read() -> Result<Option<Arc<Self>>, String> {
        let Ok(text) = std::env::var(VARIABLE) else { return Ok(None) };
        let failpoint = Self::parse(&text)?;
        tracing::warn!(failpoint = text, "a fault is planted: this silo is for tests");
        Ok(Some(Arc::new(failpoint)))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (kind, grain) = text.split_once(':').unwrap_or_default();
        let kind = match kind {
            "abort" => Kind::Abort,
            "panic" => Kind::Panic,
            _ => {
                let shown = text.escape_debug();
                return Err(format!("{VARIABLE} is abort:TYPE/KEY or panic:TYPE/KEY, not \"{shown}\""));
            }
        };
        Ok(Self { kind, grain: grain.to_owned() })
    }

    pub(super) fn is_of(&self, grain: &GrainId) -> bool {
        grain.to_string() == self.grain
    }

    pub(super) fn aborts(&self) -> bool {
        self.kind == Kind::Abort
    }

    /// The grain's host, with the fault in it.
    pub(super) fn host(&self, host: Arc<dyn ActivationHost>) -> Arc<dyn ActivationHost> {
        match self.kind {
            Kind::Abort => host,
            Kind::Panic => Arc::new(PanickingHost(host)),
        }
    }
}

/// A host whose import of calls panics.
#[derive(Debug)]
struct PanickingHost(Arc<dyn ActivationHost>);

impl ActivationHost for PanickingHost {
    fn identity(&self) -> &ActivationIdentity {
        self.0.identity()
    }

    fn resolve(&self, interface: &str, key: &str) -> Result<GrainId, CallError> {
        self.0.resolve(interface, key)
    }

    #[expect(clippy::panic, reason = "this is the planted fault")]
    fn call(&self, _call: OutgoingCall) -> BoxFuture<'_, Result<Vec<u8>, CallError>> {
        Box::pin(async { panic!("a planted panic of the host") })
    }

    fn call_json<'a>(
        &'a self,
        to: GrainId,
        method: &'a str,
        args: &'a str,
        context: TurnContext,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        self.0.call_json(to, method, args, context)
    }

    fn state_read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<StateValue>, StateError>> {
        self.0.state_read(name)
    }

    fn state_write<'a>(
        &'a self,
        name: &'a str,
        value: Vec<u8>,
        expected: Option<String>,
    ) -> BoxFuture<'a, Result<String, StateError>> {
        self.0.state_write(name, value, expected)
    }

    fn state_clear<'a>(
        &'a self,
        name: &'a str,
        expected: Option<String>,
    ) -> BoxFuture<'a, Result<(), StateError>> {
        self.0.state_clear(name, expected)
    }

    fn log(&self, level: LogLevel, target: &str, text: &str) {
        self.0.log(level, target, text);
    }

    fn request(&self, request: LifecycleRequest) {
        self.0.request(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_a_kind_and_a_grain() {
        let failpoint = Failpoint::parse("abort:evil/boom").unwrap();
        assert!(failpoint.aborts());
        assert!(
            failpoint.is_of(&"evil/boom".parse().unwrap()) && !failpoint.is_of(&"evil/b".parse().unwrap())
        );
        assert!(!Failpoint::parse("panic:evil/boom").unwrap().aborts());
        for wrong in ["", "abort", "sleep:evil/boom"] {
            assert!(Failpoint::parse(wrong).unwrap_err().contains("abort:TYPE/KEY"), "{wrong}");
        }
    }
}
