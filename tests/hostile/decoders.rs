//! Every decoder that reads bytes from outside, over arbitrary bytes and over changed valid ones.
//!
//! The normal run has fixed seeds and takes a few seconds. `cargo xtask fuzz --seconds N` runs the same registry
//! with fresh seeds for longer. A failure prints the decoder, the seed and the input; `GRANARY_FUZZ_SEED` with
//! that seed runs that one case again.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use granary_tests::input::{self, Random};

use crate::registry::{Decoder, registry};
use crate::{CASE_TIME_MAX, ERROR_BYTES_MAX};

/// The first seed of the normal run.
const SEED: u64 = 1;

#[test]
fn no_input_makes_a_decoder_panic_hang_or_answer_at_length() {
    let decoders = registry();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("GRANARY_FUZZ_SEED") {
        for decoder in &decoders {
            case(decoder, seed);
        }
        return;
    }
    match number("GRANARY_FUZZ_SECONDS") {
        None => {
            for decoder in &decoders {
                run(decoder, SEED, |cases, _| cases < decoder.cases);
            }
        }
        Some(seconds) => {
            let each = Duration::from_secs(seconds) / u32::try_from(decoders.len()).unwrap();
            let fresh = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let first = Random(u64::try_from(fresh.as_nanos() & u128::from(u64::MAX)).unwrap()).next();
            for decoder in &decoders {
                run(decoder, first, |_, started| started.elapsed() < each);
            }
        }
    }
}

fn run(decoder: &Decoder, first: u64, go_on: impl Fn(u64, Instant) -> bool) {
    let (started, mut cases, mut accepted) = (Instant::now(), 0, 0);
    while go_on(cases, started) {
        accepted += u64::from(case(decoder, first.wrapping_add(cases)));
        cases += 1;
    }
    println!("{}: {cases} inputs, {accepted} accepted, {:?}", decoder.name, started.elapsed());
    assert!(accepted > 0, "{}: nothing was accepted, so the samples are stale", decoder.name);
}

/// Whether the input of this seed was accepted.
fn case(decoder: &Decoder, seed: u64) -> bool {
    let input = input::generate(&decoder.samples, seed);
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (decoder.decode)(&input)));
    let took = started.elapsed();
    let fault = match &outcome {
        Err(_) => Some("panicked".to_owned()),
        _ if took > CASE_TIME_MAX => Some(format!("took {took:?}")),
        Ok(Err(text)) if text.is_empty() || text.len() > ERROR_BYTES_MAX => {
            Some(format!("has an error of {} bytes", text.len()))
        }
        Ok(Err(text)) if text.chars().any(char::is_control) => Some(format!("has the error {text:?}")),
        Ok(_) => None,
    };
    if let Some(fault) = fault {
        let shown = String::from_utf8_lossy(&input[..input.len().min(2_000)]).into_owned();
        panic!("{} {fault}; GRANARY_FUZZ_SEED={seed}; {} bytes: {shown:?}", decoder.name, input.len());
    }
    matches!(outcome, Ok(Ok(())))
}
