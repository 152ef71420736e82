//! The turns of a reentrant activation, beside each other.
//!
//! The activation's task drives the instance and the turns until none is left, and holds the instance all the while;
//! so whatever runs alone (`deactivate`, `dehydrate`) runs when all turns have ended. Once the activation is to end
//! or to move, no further turn starts.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use granary_core::hosting::{GrainInstance, OVERLAPPING_TURNS_MAX, Overlap};

use super::Activation;
use super::mailbox::QueuedCall;
use crate::grains::Inner;
use crate::turns::{self, AfterCall};

impl Activation {
    /// Takes a call that may overlap with those that run.
    fn next_beside(&self) -> Option<QueuedCall> {
        let mut shared = self.lock();
        if shared.ending.is_some() || shared.migrate.is_some() {
            return None;
        }
        let call = shared.mailbox.pop()?;
        shared.running += 1;
        Some(call)
    }

    /// Whether calls wait that could run, were there room.
    fn has_calls(&self) -> bool {
        let shared = self.lock();
        shared.mailbox.len() > 0 && shared.ending.is_none() && shared.migrate.is_none()
    }
}

/// Runs a call and those that come meanwhile, until none runs.
pub(crate) async fn run_calls(
    inner: &Arc<Inner>,
    activation: &Arc<Activation>,
    instance: &mut dyn GrainInstance,
    first: QueuedCall,
) -> AfterCall {
    if !activation.class().info().reentrant {
        return turns::run_call(inner, activation, instance, first).await;
    }
    let Some(Overlap { turns, mut driver }) = instance.overlap() else {
        tracing::warn!(grain = %activation.grain(), "the instance of a reentrant class has no overlapping turns");
        return AfterCall::Gone;
    };
    let mut running = FuturesUnordered::new();
    let mut after = AfterCall::Sound;
    running.push(turns::run_overlapping(inner, activation, turns.as_ref(), first));
    while !running.is_empty() {
        while running.len() < OVERLAPPING_TURNS_MAX {
            let Some(call) = activation.next_beside() else { break };
            running.push(turns::run_overlapping(inner, activation, turns.as_ref(), call));
        }
        if running.len() >= OVERLAPPING_TURNS_MAX && activation.has_calls() {
            inner.metrics.overlaps_full.add();
        }
        tokio::select! {
            Some(ended) = running.next() => if ended == AfterCall::Gone { after = AfterCall::Gone },
            () = activation.woken() => {}
            _ = &mut driver, if after == AfterCall::Sound => after = AfterCall::Gone,
        }
        if after == AfterCall::Gone {
            // Every turn was told so by the driver, or is by its absence. What waits goes to the next activation.
            while running.next().await.is_some() {}
        }
    }
    drop(running);
    drop(turns);
    match after {
        AfterCall::Sound if driver.await.is_ok() => AfterCall::Sound,
        _ => AfterCall::Gone,
    }
}
