//! Which faults a schedule has, and how strong. Each seed first draws the kinds (swarm testing): a world in which
//! everything fails at once hides the faults that need some parts to work well.

use crate::rng::Rng;

/// One millisecond and one second of world time, which counts microseconds.
pub(crate) const MS: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000;

/// How a schedule is made. All chances are per mille.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Silos in the cluster, 3 to 5.
    pub silos: usize,
    /// Grains that are called.
    pub grains: u32,
    /// The faults stop at this time.
    pub calm_at: u64,
    /// All silos start within this time.
    pub start_spread: u64,
    pub loss: u64,
    pub duplication: u64,
    /// Upper end of the usual delay of a message.
    pub delay_max: u64,
    /// Messages that are late by up to two seconds.
    pub straggling: u64,
    /// Messages of one link stay in order, as on one connection.
    pub in_order: bool,
    /// A refused connection is noticed by the sender.
    pub refusals: bool,
    /// Mean time between partitions; 0 for none.
    pub partition_every: u64,
    /// Partitions cut one direction only.
    pub one_way: bool,
    pub store_down_every: u64,
    /// Store operations that take up to three seconds.
    pub store_slow: u64,
    /// Writes that are applied and reported as failed, or not reported at all.
    pub store_ack_lost: u64,
    /// Writes that are refused as conflicts without one.
    pub store_conflict: u64,
    pub crash_every: u64,
    pub leave_every: u64,
    pub pause_every: u64,
    /// All silos share a host, so that a file lock can prove a death.
    pub same_host: bool,
    /// A file lock answers the question for a proof.
    pub proofs: bool,
    /// Clocks run up to one percent fast or slow.
    pub drift: bool,
    /// How long a shell waits for an operation of the directory.
    pub operation_timeout: u64,
    pub call_every: u64,
    pub migrate_every: u64,
    pub deactivate_every: u64,
}

impl Plan {
    /// Draws the plan of a seed.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let mut maybe =
            |choices: &[u64]| -> u64 { if rng.chance(500) { rng.pick(choices).unwrap_or(0) } else { 0 } };
        Self {
            loss: maybe(&[10, 50, 200]),
            duplication: maybe(&[20, 100, 300]),
            straggling: maybe(&[5, 30]),
            partition_every: maybe(&[3 * SECOND, 8 * SECOND]),
            store_down_every: maybe(&[5 * SECOND, 10 * SECOND]),
            store_slow: maybe(&[20, 100]),
            store_ack_lost: maybe(&[50, 200]),
            store_conflict: maybe(&[50]),
            crash_every: maybe(&[3 * SECOND, 6 * SECOND]),
            leave_every: maybe(&[4 * SECOND, 8 * SECOND]),
            pause_every: maybe(&[4 * SECOND, 8 * SECOND]),
            migrate_every: maybe(&[150 * MS, 500 * MS]),
            deactivate_every: maybe(&[200 * MS, 800 * MS]),
            start_spread: maybe(&[500 * MS, 4 * SECOND]),
            delay_max: if maybe(&[1]) == 1 { 100 * MS } else { 4 * MS },
            operation_timeout: if maybe(&[1]) == 1 { 900 * MS } else { 8 * SECOND },
            in_order: maybe(&[1]) == 1,
            refusals: maybe(&[1]) == 1,
            one_way: maybe(&[1]) == 1,
            same_host: maybe(&[1]) == 1,
            proofs: maybe(&[1]) == 1,
            drift: maybe(&[1]) == 1,
            silos: usize::try_from(rng.between(3, 6)).unwrap_or(3),
            grains: u32::try_from(rng.between(3, 9)).unwrap_or(3),
            calm_at: rng.between(8, 16) * SECOND,
            call_every: rng.between(40, 120) * MS,
        }
    }
}
