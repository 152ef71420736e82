//! Stacks of guest fibres in slots of one size.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::{Result, StackCreator, StackMemory, bail, format_err};

use super::{Base, GUARDED_STACKS_MAX, PAGE_BYTES, Slots, protect};

/// The size of a region in bytes.
const REGION_BYTES: usize = 256 << 20;

/// The stacks of one silo.
#[derive(Debug)]
pub(crate) struct StackArena(Arc<Stacks>);

#[derive(Debug)]
struct Stacks {
    /// Without the page of the guard.
    stack_bytes: usize,
    /// Slots that never had a guard.
    plain: Slots,
    /// Free slots with a guard page, which they keep.
    guarded: Mutex<Vec<Base>>,
    guards: AtomicUsize,
}

#[derive(Debug)]
struct Stack {
    stacks: Arc<Stacks>,
    base: Base,
    guarded: bool,
}

impl StackArena {
    /// Stacks of at most `stack_bytes` each.
    pub(crate) fn new(stack_bytes: usize) -> Self {
        let stack_bytes = stack_bytes.next_multiple_of(PAGE_BYTES);
        let plain = Slots::new(stack_bytes.saturating_add(PAGE_BYTES), REGION_BYTES);
        Self(Arc::new(Stacks { stack_bytes, plain, guarded: Mutex::default(), guards: AtomicUsize::new(0) }))
    }
}

impl Stacks {
    fn take(self: &Arc<Self>) -> std::io::Result<Stack> {
        let free = self.guarded.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(base) = free {
            return Ok(Stack { stacks: Arc::clone(self), base, guarded: true });
        }
        let base = self.plain.take()?;
        let guarded = self.guards.fetch_add(1, Ordering::Relaxed) < GUARDED_STACKS_MAX
            && protect(base, PAGE_BYTES).is_ok();
        if !guarded {
            // Counted only while it can succeed, so that the counter never wraps.
            self.guards.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(Stack { stacks: Arc::clone(self), base, guarded })
    }
}

impl Stack {
    /// The lowest byte above the guard page.
    fn bottom(&self) -> Base {
        // SAFETY: a slot is one page longer than a stack.
        Base(unsafe { self.base.0.add(PAGE_BYTES) })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let stacks = &self.stacks;
        if !self.guarded {
            stacks.plain.give(self.base, stacks.plain.slot_bytes);
            return;
        }
        match super::discard(self.bottom(), stacks.stack_bytes) {
            Ok(()) => stacks.guarded.lock().unwrap_or_else(PoisonError::into_inner).push(self.base),
            Err(error) => tracing::warn!("a stack is lost: {error}"),
        }
    }
}

// SAFETY: points 1, 2 and 5 of the module's argument; the range is page aligned, and within the slot.
unsafe impl StackMemory for Stack {
    fn top(&self) -> *mut u8 {
        self.bottom().0.as_ptr().wrapping_add(self.stacks.stack_bytes)
    }

    fn range(&self) -> Range<usize> {
        let start = self.bottom().0.as_ptr().addr();
        start..start.saturating_add(self.stacks.stack_bytes)
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let start = self.base.0.as_ptr();
        start..start.wrapping_add(if self.guarded { PAGE_BYTES } else { 0 })
    }
}

// SAFETY: as above. Stacks are zero when handed out, asked for or not (point 4).
unsafe impl StackCreator for StackArena {
    fn new_stack(&self, size: usize, _zeroed: bool) -> Result<Box<dyn StackMemory>> {
        if size > self.0.stack_bytes {
            bail!("a stack of {size} bytes is wanted, of {} at most", self.0.stack_bytes);
        }
        let stack = self.0.take().map_err(|error| format_err!("no memory for a stack: {error}"))?;
        Ok(Box::new(stack))
    }
}
