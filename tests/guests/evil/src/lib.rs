//! A grain that panics, spins, recurses, allocates and answers too much, when a test tells it to.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use granary_guest::prelude::*;

/// Bytes in a mebibyte.
const MIB: usize = 1 << 20;
/// The step between bytes that are written, so that every page is touched.
const PAGE: usize = 4096;
/// What each level of recursion puts on the stack, at least.
const FRAME_BYTES: usize = 256;

/// The grain. It keeps nothing.
#[grain(interface = "granary-tests:evil/evil", refs = ["granary-tests:evil/evil"])]
#[derive(Debug, Default)]
pub struct EvilGrain;

impl contract::Evil for EvilGrain {
    #[expect(clippy::panic, reason = "a panic is what the caller asks for")]
    fn panic(&mut self, message: String) {
        panic!("{message}");
    }

    fn spin(&mut self) {
        loop {
            black_box(());
        }
    }

    fn recurse(&mut self, depth: u64) -> u64 {
        recurse(depth)
    }

    fn allocate(&mut self, mib: u32) -> u64 {
        let mut blocks = Vec::new();
        for _ in 0..mib {
            let mut block = vec![0u8; MIB];
            for byte in block.iter_mut().step_by(PAGE) {
                *byte = 1;
            }
            blocks.push(black_box(block));
        }
        blocks.iter().map(|block| block.len() as u64).sum()
    }

    fn oversize(&mut self, bytes: u32) -> Vec<u8> {
        vec![b'x'; bytes as usize]
    }

    fn log(&mut self, text: String) {
        log::info!("{text}");
    }

    #[expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what the caller asks for")]
    fn print(&mut self, text: String) {
        println!("{text}");
        eprintln!("{text}");
    }

    #[expect(clippy::print_stdout, reason = "printing is what the caller asks for")]
    fn flood(&mut self, lines: u32) {
        for line in 0..lines {
            log::warn!("line {line}");
            println!("line {line}");
        }
    }

    fn ask(&mut self, times: u32) -> u64 {
        (0..times).map(|_| context::silo().len() as u64).sum()
    }

    fn storm(&mut self, other: String, calls: u32) -> u32 {
        let Ok(other) = contract::EvilRef::get(&other) else { return 0 };
        (0..calls).map(|_| u32::from(other.echo("x").is_ok())).sum()
    }

    fn echo(&mut self, text: String) -> String {
        text
    }

    fn sleep_ms(&mut self, ms: u32) {
        thread::sleep(Duration::from_millis(u64::from(ms)));
    }

    fn call_me_back(&mut self, other: String) -> Result<String, String> {
        let own = context::self_ref().key;
        let other = contract::EvilRef::get(&other).map_err(|error| error.to_string())?;
        other.call_me_back(&own).map_err(|error| error.to_string())
    }
}

/// Recursion that no compiler turns into a loop: each level holds memory that is looked at after the next returns.
fn recurse(depth: u64) -> u64 {
    let frame = black_box([1u8; FRAME_BYTES]);
    if depth == 0 {
        return 0;
    }
    let below = recurse(depth - 1);
    below + u64::from(black_box(&frame).first().copied().unwrap_or_default())
}
