//! A grain that awaits several calls at once, and counts the turns that overlap in it.

use std::thread;
use std::time::Duration;

use granary_guest::prelude::*;

use contract::{Tally, WalkerRef};

/// Numbers of the grains of each type that `visit` goes to.
const NUMBERS: u32 = 12;

/// How often `enter` looks whether enough turns run.
const LOOKS_MAX: u32 = 500;

/// The grain.
#[grain(interface = "granary-tests:walker/walker", refs = ["granary-tests:walker/walker"], reentrant, migration)]
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct WalkerGrain {
    visits: u32,
    inside: u32,
    most: u32,
}

impl WalkerGrain {
    fn enters(&mut self) {
        self.inside += 1;
        self.most = self.most.max(self.inside);
    }
}

fn walker(grain_type: &str, key: &str) -> WalkerRef {
    WalkerRef::new(GrainRef { grain_type: grain_type.to_owned(), key: key.to_owned() })
}

/// A step of a generator of numbers that look random (splitmix64).
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number below `bound`, which is not zero.
fn below(seed: &mut u64, bound: u32) -> u32 {
    u32::try_from(random(seed) % u64::from(bound)).unwrap_or_default()
}

impl contract::Walker for WalkerGrain {
    async fn visit(this: Shared<Self>, seed: u64, depth: u32, floor: u32) -> Result<u32, String> {
        this.with(Self::enters);
        let mut random = seed;
        let ways = if depth == 0 { 0 } else { 1 + below(&mut random, 3) };
        let visits = (0..ways).map(|_| {
            let closed = floor + 1 < NUMBERS && below(&mut random, 2) == 0;
            let number = if closed {
                floor + 1 + below(&mut random, NUMBERS - floor - 1)
            } else {
                below(&mut random, NUMBERS)
            };
            let (grain_type, floor) = if closed { ("closed", number) } else { ("walker", floor) };
            let (next, seed) = (walker(grain_type, &number.to_string()), self::random(&mut random));
            async move { next.concurrent().visit(seed, depth - 1, floor).await }
        });
        let visits: Vec<_> = visits.collect();
        let outcomes = join_all(visits).await;
        this.with(|grain| {
            grain.inside -= 1;
            grain.visits += 1;
        });
        outcomes.into_iter().try_fold(1, |sum, visits| Ok(sum + visits.map_err(|error| error.to_string())?))
    }

    async fn spread(_this: Shared<Self>, calls: u32, ms: u32) -> u32 {
        let naps = (0..calls).map(|n| {
            let sleeper = walker("closed", &format!("sleeper-{n}"));
            async move { sleeper.concurrent().nap(ms).await }
        });
        join_all(naps).await.iter().map(|outcome| u32::from(outcome.is_ok())).sum()
    }

    async fn gather(_this: Shared<Self>, people: u32) -> u32 {
        let hall = walker("walker", "hall");
        let visits = join_all((0..people).map(|_| async { hall.concurrent().enter(people).await })).await;
        visits.into_iter().filter_map(Result::ok).max().unwrap_or_default()
    }

    async fn enter(this: Shared<Self>, people: u32) -> u32 {
        this.with(Self::enters);
        let clock = walker("closed", "clock");
        for _ in 0..LOOKS_MAX {
            if this.with(|grain| grain.most) >= people {
                break;
            }
            // Lets the other turns run.
            let _ = clock.concurrent().nap(1).await;
        }
        this.with(|grain| {
            grain.inside -= 1;
            grain.most
        })
    }

    #[expect(clippy::panic, reason = "a panic is what the caller asks for")]
    async fn fall(_this: Shared<Self>) {
        panic!("it fell");
    }

    fn nap(&mut self, ms: u32) {
        thread::sleep(Duration::from_millis(u64::from(ms)));
    }

    fn seen(&mut self) -> Tally {
        Tally { visits: self.visits, most: self.most }
    }
}
