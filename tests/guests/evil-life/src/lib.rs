//! A grain that traps, loops, sleeps or refuses in an export of its life, as its key says.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use granary_guest::prelude::*;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longer than the drain of the silo that runs it.
const FOREVER: Duration = Duration::from_secs(20);

/// The grain. It keeps nothing, and yet carries its memory.
#[grain(interface = "granary-tests:evil-life/evil-life", lifecycle, migration)]
#[derive(Debug, Default)]
pub struct EvilLifeGrain;

/// Goes wrong if the key says so for this hook.
#[expect(clippy::panic, reason = "a panic is what the key asks for")]
fn misbehave(hook: &str) -> Result<(), String> {
    let key = context::self_ref().key;
    let mut words = key.split('-');
    if words.next() != Some(hook) {
        return Ok(());
    }
    match words.next() {
        Some("trap") => panic!("{hook} traps"),
        Some("spin") => loop {
            black_box(());
        },
        Some("sleep") => {
            thread::sleep(FOREVER);
            Ok(())
        }
        Some("refuse") => Err(format!("{hook} refuses: {}", "at length ".repeat(10_000))),
        _ => Ok(()),
    }
}

impl Lifecycle for EvilLifeGrain {
    fn activate(&mut self) -> Result<(), String> {
        misbehave("activate")
    }

    fn deactivate(&mut self, _: DeactivationReason) {
        drop(misbehave("deactivate"));
    }
}

impl Serialize for EvilLifeGrain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        misbehave("dehydrate").map_err(serde::ser::Error::custom)?;
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for EvilLifeGrain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        misbehave("rehydrate").map_err(serde::de::Error::custom)?;
        <()>::deserialize(deserializer)?;
        Ok(Self)
    }
}

impl contract::EvilLife for EvilLifeGrain {
    fn echo(&mut self, text: String) -> String {
        text
    }

    fn finish(&mut self) {
        context::deactivate_on_idle();
    }
}
