//! A grain for benchmarks: echoes, holds ballast, and calls another of its kind in a loop.

use granary_guest::prelude::*;
use serde::{Deserialize, Serialize};

/// The grain: a number, and bytes that it only carries.
#[grain(interface = "granary-tests:pinger/pinger", refs = ["granary-tests:pinger/pinger"], migration)]
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PingerGrain {
    number: u64,
    ballast: String,
}

impl contract::Pinger for PingerGrain {
    fn echo(&mut self, n: u64) -> u64 {
        n
    }

    fn echo_bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn count(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn fill(&mut self, bytes: u32) {
        self.ballast = "x".repeat(bytes as usize);
    }

    fn run(&mut self, to: String, times: u32) -> Result<u64, String> {
        let to = peer(&to)?;
        let mut last = 0;
        for n in 0..u64::from(times) {
            last = to.echo(n).map_err(|error| error.to_string())?;
        }
        Ok(last)
    }

    fn run_bytes(&mut self, to: String, size: u32, times: u32) -> Result<u64, String> {
        let to = peer(&to)?;
        let bytes = vec![7; size as usize];
        let mut sum = 0;
        for _ in 0..times {
            sum += to.echo_bytes(&bytes).map_err(|error| error.to_string())?.len() as u64;
        }
        Ok(sum)
    }
}

fn peer(key: &str) -> Result<contract::PingerRef, String> {
    contract::PingerRef::get(key).map_err(|error| error.to_string())
}
