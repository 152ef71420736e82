//! From wasmtime's errors to what callers and logs get (HOSTING §6).

use granary_core::hosting::{LogLevel, TrapKind, TurnFailure};
use wasmtime::{Error, Trap, WasmBacktrace};

use crate::imports::wasi_cli::GuestExit;
use crate::state::HostState;
use crate::text::{LOG_LINE_BYTES_MAX, MESSAGE_BYTES_MAX, bounded, first_line};

/// How wasmtime says that a value was too large to be lifted; its error type is private.
const FUEL_MESSAGE: &str = "fuel allocated for hostcalls";

/// What ended an instance. The guest's output is flushed, the full text goes to the silo's log, one line to the
/// grain's log and to the caller.
pub(crate) fn failure(error: &Error, state: &mut HostState) -> TurnFailure {
    state.flush_log();
    let panic = state.log.take_panic();
    let (kind, message) = describe(error, state, panic);
    let grain = &state.host.identity().grain;
    tracing::debug!(%grain, ?kind, error = %format!("{error:?}"), "a turn trapped");
    let failure = ended(kind, &message, state);
    if let Some(frames) = backtrace(error) {
        state.host.log(LogLevel::Debug, "granary", &frames);
    }
    failure
}

/// The end of an instance, in one line for the grain's log and for the caller.
pub(crate) fn ended(kind: TrapKind, message: &str, state: &HostState) -> TurnFailure {
    let message = bounded(message, MESSAGE_BYTES_MAX);
    state.host.log(LogLevel::Error, "granary", &format!("the activation ended: {message}"));
    TurnFailure::Trapped { kind, message }
}

fn describe(error: &Error, state: &HostState, panic: Option<String>) -> (TrapKind, String) {
    if let Some(exit) = error.downcast_ref::<GuestExit>() {
        return (TrapKind::Panic, exit.to_string());
    }
    if format!("{error:#}").contains(FUEL_MESSAGE) {
        return (
            TrapKind::ResultTooLarge,
            format!(
                "a value that left the component is larger than {} bytes, the limit",
                state.value_bytes_max
            ),
        );
    }
    let out_of_memory = || {
        let limit = state.memory.bytes_max();
        (TrapKind::OutOfMemory, format!("out of memory: more than {limit} bytes, the limit, were asked for"))
    };
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => (
            TrapKind::CpuBudget,
            format!("the turn used up its CPU budget of {} ms", state.budget.time_max.as_millis()),
        ),
        Some(Trap::StackOverflow) => (TrapKind::StackOverflow, "stack overflow".to_owned()),
        _ if state.memory.refused => out_of_memory(),
        Some(Trap::UnreachableCodeReached) => match panic {
            Some(message) => (TrapKind::Panic, format!("panicked: {message}")),
            None => (TrapKind::Panic, "the grain aborted (`unreachable` was executed)".to_owned()),
        },
        // The shadow stack lies at the start of memory in what Rust and C compile to: running over its end is an
        // access below zero, in the middle of a deep recursion.
        Some(Trap::MemoryOutOfBounds) if is_recursive(error) => {
            (TrapKind::StackOverflow, "stack overflow".to_owned())
        }
        Some(Trap::MemoryOutOfBounds) => (
            TrapKind::Other,
            "memory access out of bounds (a wild pointer, or a stack that is too deep)".to_owned(),
        ),
        Some(trap) => (TrapKind::Other, first_line(&trap.to_string())),
        // Errors of host functions: the root cause is the sentence, what surrounds it is wasmtime's backtrace.
        None => (TrapKind::Other, first_line(&error.root_cause().to_string())),
    }
}

/// Whether one function makes up most of a backtrace as long as wasmtime records them.
fn is_recursive(error: &Error) -> bool {
    const FRAMES_MIN: usize = 16;
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return false };
    let frames = backtrace.frames();
    let same = |index| frames.iter().filter(|frame| frame.func_index() == index).count();
    let most = frames.iter().map(|frame| same(frame.func_index())).max().unwrap_or(0);
    // A recursion over several functions still repeats each of them.
    frames.len() >= FRAMES_MIN && most * 4 >= frames.len()
}

/// The innermost wasm frames, innermost first; `None` when there are none with a name.
fn backtrace(error: &Error) -> Option<String> {
    const FRAMES_MAX: usize = 8;
    // Its text has the names demangled, one `offset - module!name` for each frame.
    let text = error.downcast_ref::<WasmBacktrace>()?.to_string();
    let names: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once('!')?.1)).take(FRAMES_MAX).collect();
    (!names.is_empty()).then(|| bounded(&names.join(" < "), LOG_LINE_BYTES_MAX))
}
