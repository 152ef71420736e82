//! `wasi:clocks`: coarse on purpose, since a fine clock is what side channels are read with (RELIABILITY §3.1).

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Lower};

use super::Instance;
use super::wasi_io::Pollable;
use crate::state::HostState;

/// What a guest's clocks count in.
const RESOLUTION: Duration = Duration::from_millis(1);

/// A wait beyond this is as good as one for ever: no turn takes as long.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// `datetime`.
#[derive(Debug, ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

type Store<'a> = StoreContextMut<'a, HostState>;

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn coarse(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Defines one function of `wasi:clocks/monotonic-clock`; false when it is none of its.
pub(crate) fn link_monotonic(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "now" => instance.func_wrap(name, |_, ()| Ok((nanos(coarse(origin().elapsed())),)))?,
        "resolution" => instance.func_wrap(name, |_, ()| Ok((nanos(RESOLUTION),)))?,
        "subscribe-instant" => instance.func_wrap(name, |mut store: Store<'_>, (when,): (u64,)| {
            let wait = Duration::from_nanos(when).saturating_sub(origin().elapsed());
            Ok((store.data_mut().handles.push(at(wait))?,))
        })?,
        "subscribe-duration" => instance.func_wrap(name, |mut store: Store<'_>, (wait,): (u64,)| {
            Ok((store.data_mut().handles.push(at(Duration::from_nanos(wait)))?,))
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn at(wait: Duration) -> Pollable {
    Pollable::At(Instant::now() + wait.min(WAIT_MAX))
}

/// Defines one function of `wasi:clocks/wall-clock`; false when it is none of its.
pub(crate) fn link_wall(instance: &mut Instance<'_>, name: &str) -> wasmtime::Result<bool> {
    let datetime = |time: Duration| Datetime { seconds: time.as_secs(), nanoseconds: time.subsec_nanos() };
    match name {
        "now" => instance.func_wrap(name, move |_, ()| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok((datetime(coarse(now)),))
        })?,
        "resolution" => instance.func_wrap(name, move |_, ()| Ok((datetime(RESOLUTION),)))?,
        _ => return Ok(false),
    }
    Ok(true)
}
