//! Clients that call one counter in a loop, and the proof that no call was lost or doubled.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::client::Client;
use super::number;

/// The most answers that one client keeps.
const ANSWERS_MAX: usize = 1_000_000;

/// Clients that run until they are told to stop.
#[derive(Debug)]
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Result<Answers>>>,
}

/// What one client, or all together, got.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The counter's values, as they were returned.
    values: Vec<u64>,
    /// The longest call.
    pub(super) slowest: Duration,
}

impl Load {
    /// Starts one client for each gateway given; each calls `increment(1)` of the counter.
    pub(super) fn start(grain: &'static str, gateways: &[SocketAddr]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = gateways
            .iter()
            .map(|gateway| {
                let (mut client, stop) = (Client::new(*gateway), Arc::clone(&stop));
                thread::spawn(move || {
                    let mut answers = Answers::default();
                    while !stop.load(Ordering::Relaxed) && answers.values.len() < ANSWERS_MAX {
                        let started = Instant::now();
                        let value = client.call(grain, "increment", &json!([1]))?;
                        answers.slowest = answers.slowest.max(started.elapsed());
                        answers.values.push(number(&value)?);
                    }
                    Ok(answers)
                })
            })
            .collect();
        Self { stop, clients }
    }

    /// Stops all clients; fails if any call of any client failed.
    pub(super) fn finish(mut self) -> Result<Answers> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Answers::default();
        for client in self.clients.drain(..) {
            let Ok(answers) = client.join() else { bail!("a client ended by a panic") };
            let answers = answers.context("a call failed")?;
            all.values.extend(answers.values);
            all.slowest = all.slowest.max(answers.slowest);
        }
        Ok(all)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Answers {
    /// How many calls there were, when the values are exactly those that follow `before`: none skipped, none twice.
    pub(super) fn check_consecutive(&mut self, before: u64) -> Result<usize> {
        self.values.sort_unstable();
        for (expected, found) in (before + 1..).zip(&self.values) {
            if expected != *found {
                bail!("the counter returned {found} where {expected} was due: a call was lost or doubled");
            }
        }
        anyhow::ensure!(!self.values.is_empty(), "no client got an answer");
        Ok(self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(values: &[u64]) -> Result<usize> {
        Answers { values: values.to_vec(), slowest: Duration::ZERO }.check_consecutive(10)
    }

    #[test]
    fn values_in_any_order_are_fine_when_none_is_missing() {
        assert_eq!(checked(&[13, 11, 12]).unwrap(), 3);
    }

    #[test]
    fn a_skipped_or_repeated_value_is_found() {
        assert!(checked(&[11, 13]).unwrap_err().to_string().contains("returned 13 where 12"));
        assert!(checked(&[11, 12, 12]).is_err());
        assert!(checked(&[12, 13]).is_err());
        assert!(checked(&[]).is_err());
    }
}
