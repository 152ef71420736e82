//! What a store holds beside its instance: the activation's host, the running turn, limits, handles and output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use granary_core::hosting::{ActivationHost, Limits, LogLevel, TurnContext};
use tokio::sync::Semaphore;
use wasmtime::component::{GuestTaskId, ResourceTable};
use wasmtime::{ResourceLimiter, StoreContextMut, UpdateDeadline};

use crate::guest_log::{GuestLog, Stream};
use crate::imports::types::LastCalled;

/// Handles of host resources (streams, pollables) that one activation may hold.
pub(crate) const HANDLES_MAX: usize = 1_000;

/// Calls of other grains that one activation may have waiting at once, where it awaits several.
pub(crate) const OUTGOING_CALLS_MAX: usize = 256;

/// Elements of each table of a component.
const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Core instances, tables and memories of one component.
const INSTANCES_MAX: usize = 200;
const TABLES_MAX: usize = 200;
const MEMORIES_MAX: usize = 32;

/// How long a guest may always wait in a turn. A caller that gives up earlier does not end the turn: the next
/// caller's activation is not lost because this one was in a hurry.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// The longest deadline that is taken at its word; beyond it, adding to a time could overflow.
const CALL_TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Store data of one activation.
#[derive(Debug)]
pub(crate) struct HostState {
    pub(crate) host: Arc<dyn ActivationHost>,
    turn: RunningTurn,
    /// The turns that run beside each other, by their tasks; `None` while turns run one at a time.
    overlapping: Option<BTreeMap<GuestTaskId, RunningTurn>>,
    pub(crate) budget: Budget,
    pub(crate) memory: MemoryLimiter,
    pub(crate) handles: ResourceTable,
    /// One permit for each call that is awaited beside others.
    pub(crate) outgoing: Arc<Semaphore>,
    /// Live handles of denied resources, which have no entry in `handles`.
    pub(crate) denied_handles: usize,
    pub(crate) log: GuestLog,
    pub(crate) last_called: LastCalled,
    /// The largest encoded arguments of an outgoing call.
    pub(crate) value_bytes_max: usize,
}

/// The turn that runs, or ran last.
#[derive(Debug, Clone)]
pub(crate) struct RunningTurn {
    context: TurnContext,
    started: Instant,
}

/// The CPU budget, in epochs that ended while wasm code was running. Which of several overlapping turns used one
/// cannot be told: each brings a turn's budget, and they share what they brought.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) time_max: Duration,
    /// What one turn brings.
    ticks_max: u64,
    left: u64,
}

/// Bounds memory, and remembers a refusal: after it, an `unreachable` means that the guest ran out of memory.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    bytes_max: usize,
    bytes: usize,
    pub(crate) refused: bool,
}

impl HostState {
    pub(crate) fn new(host: Arc<dyn ActivationHost>, limits: &Limits, ticks_max: u64) -> Self {
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(HANDLES_MAX);
        Self {
            host,
            turn: RunningTurn::new(TurnContext::default()),
            overlapping: None,
            budget: Budget { time_max: limits.turn_cpu_max, ticks_max, left: ticks_max },
            memory: MemoryLimiter {
                bytes_max: usize::try_from(limits.memory_bytes_max).unwrap_or(usize::MAX),
                bytes: 0,
                refused: false,
            },
            handles,
            outgoing: Arc::new(Semaphore::new(OUTGOING_CALLS_MAX)),
            denied_handles: 0,
            log: GuestLog::new(),
            last_called: LastCalled::default(),
            value_bytes_max: usize::try_from(limits.value_bytes_max).unwrap_or(usize::MAX),
        }
    }

    /// Prepares for a turn that runs alone.
    pub(crate) fn start_turn(&mut self, context: TurnContext) {
        self.turn = RunningTurn::new(context);
        self.overlapping = None;
        self.budget.left = self.budget.ticks_max;
        self.memory.refused = false;
    }

    /// Prepares for turns that overlap. What runs without a turn, such as what an ended one left behind, has a
    /// context of its own.
    pub(crate) fn start_overlapping(&mut self) {
        let chain = vec![self.host.identity().grain.clone()];
        self.start_turn(TurnContext { chain, remaining: Some(WAIT_MAX), ..TurnContext::default() });
        self.overlapping = Some(BTreeMap::new());
    }

    /// One more overlapping turn runs, as this task; returns until when it may wait.
    pub(crate) fn enter_turn(&mut self, task: GuestTaskId, context: TurnContext) -> Instant {
        let turn = RunningTurn::new(context);
        let until = turn.wait_until();
        self.overlapping.get_or_insert_default().insert(task, turn);
        self.settle_budget(self.budget.left.saturating_add(self.budget.ticks_max));
        self.memory.refused = false;
        until
    }

    /// An overlapping turn ended. What it did not use of its budget is not saved up by the others.
    pub(crate) fn leave_turn(&mut self, task: GuestTaskId) {
        self.overlapping.get_or_insert_default().remove(&task);
        self.settle_budget(self.budget.left);
    }

    fn settle_budget(&mut self, left: u64) {
        // One turn's worth remains for what runs without a turn.
        let turns = self.overlapping.as_ref().map_or(1, BTreeMap::len).max(1);
        let all = self.budget.ticks_max.saturating_mul(u64::try_from(turns).unwrap_or(u64::MAX));
        self.budget.left = left.min(all);
    }

    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        self.log.write(&*self.host, stream, bytes);
    }

    pub(crate) fn record(&mut self, level: LogLevel, target: &str, message: &str) {
        self.log.record(&*self.host, level, target, message);
    }

    pub(crate) fn flush_log(&mut self) {
        self.log.flush(&*self.host);
    }
}

/// The turn that the running guest code belongs to.
pub(crate) fn current_turn<'a>(store: &'a mut StoreContextMut<'_, HostState>) -> &'a RunningTurn {
    let overlap = store.data().overlapping.is_some();
    // The last on the stack is the task that the host started.
    let task = if overlap { store.async_call_stack().ok().and_then(Iterator::last) } else { None };
    let state = store.data();
    let found = state.overlapping.as_ref().zip(task).and_then(|(turns, task)| turns.get(&task));
    found.unwrap_or(&state.turn)
}

impl RunningTurn {
    fn new(context: TurnContext) -> Self {
        Self { context, started: Instant::now() }
    }

    /// Time left for the call that the turn serves.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.context.remaining.map(|all| all.saturating_sub(self.started.elapsed()))
    }

    /// Until when the guest may wait.
    pub(crate) fn wait_until(&self) -> Instant {
        self.started + self.context.remaining.unwrap_or(WAIT_MAX).clamp(WAIT_MAX, CALL_TIME_MAX)
    }

    pub(crate) fn request_value(&self, key: &str) -> Option<&str> {
        self.context.request_context.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// What a call made now inherits.
    pub(crate) fn outgoing(&self) -> TurnContext {
        // One place more than the chain has, for the callee.
        let mut chain = Vec::with_capacity(self.context.chain.len() + 1);
        chain.extend_from_slice(&self.context.chain);
        TurnContext {
            chain,
            remaining: self.remaining(),
            request_context: self.context.request_context.clone(),
            trace_parent: self.context.trace_parent.clone(),
        }
    }
}

/// Called when an epoch ended while wasm code runs: counts it, and lets other tasks run, or ends the turn.
pub(crate) fn on_epoch(mut store: StoreContextMut<'_, HostState>) -> wasmtime::Result<UpdateDeadline> {
    let budget = &mut store.data_mut().budget;
    // Yielding at each tick, not only trapping at the end, is what keeps neighbours answering.
    Ok(match budget.left.checked_sub(1) {
        Some(left) => {
            budget.left = left;
            UpdateDeadline::Yield(1)
        }
        None => UpdateDeadline::Interrupt,
    })
}

/// After a host call that waited: the epochs that passed meanwhile are nobody's CPU time.
pub(crate) fn after_wait(store: &mut StoreContextMut<'_, HostState>) {
    store.set_epoch_deadline(1);
}

impl HostState {
    /// Until when the turn that runs alone may wait.
    pub(crate) fn wait_until(&self) -> Instant {
        self.turn.wait_until()
    }
}

impl MemoryLimiter {
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let bytes = self.bytes.saturating_add(desired.saturating_sub(current));
        if bytes > self.bytes_max {
            self.refused = true;
            return Ok(false);
        }
        // A growth beyond the memory's own maximum fails afterwards, and must not be counted.
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.bytes = bytes;
        }
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}
