//! Memories and stacks of many activations in few mappings.
//!
//! The kernel allows a process 65,530 mappings by default, and wasmtime's own allocators spend two to seven on each
//! activation. Here linear memories and stacks are slots of large regions, one mapping each: a slot costs address
//! space, and pages only where it is touched. What is given back is discarded, so that the next owner reads zeros.
//!
//! # Safety
//!
//! This module implements wasmtime's `MemoryCreator`, `LinearMemory`, `StackCreator` and `StackMemory`, which wasmtime
//! trusts with all memory accesses of guests:
//!
//! 1. *A slot has one owner.* [`Slots::take`] hands a slot out once, and only the drop of its owner gives it back.
//! 2. *A region outlives its slots.* Regions are unmapped with their arena, and each memory and stack holds the arena.
//! 3. *Accesses stay inside.* Engines that use this arena reserve nothing and have no guard (see `engine.rs`), so that
//!    compiled code compares each access with the memory's length, which never exceeds its slot or its own mapping.
//! 4. *Memory is zero when handed out and when it grows.* A private anonymous mapping is zero, stays zero beyond the
//!    length, which nobody can write, and is zero again after `MADV_DONTNEED`. A slot that could not be discarded is
//!    never used again.
//! 5. *Stacks.* wasmtime stops wasm code by counting at `max_wasm_stack`, and host code has the rest of the slot, with
//!    a guard page below it as long as mappings last ([`GUARDED_STACKS_MAX`]). A stack has more room for host code
//!    than any path of this silo uses; an overflow of a guarded one ends the process instead of harming a neighbour.
#![expect(
    unsafe_code,
    reason = "wasmtime's traits for memories and stacks are unsafe; see the argument above"
)]

mod memory;
mod stack;
#[cfg(test)]
mod tests;

use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

pub(crate) use memory::MemoryArena;
pub(crate) use stack::StackArena;

/// Stacks that get a guard page, at most. Each splits its region and so costs two mappings: together a quarter of what
/// the kernel allows by default.
const GUARDED_STACKS_MAX: usize = 8_192;

/// The size of a page, which is also what sizes here are multiples of.
const PAGE_BYTES: usize = 4 << 10;

/// The first byte of a slot.
#[derive(Debug, Clone, Copy)]
struct Base(NonNull<u8>);

// SAFETY: a slot has one owner (point 1), and owning it is all that the address is for.
unsafe impl Send for Base {}
// SAFETY: as above; through a shared reference the address can only be read.
unsafe impl Sync for Base {}

/// One private anonymous mapping, unmapped when dropped.
#[derive(Debug)]
struct Region {
    base: Base,
    bytes: usize,
}

impl Region {
    /// Maps address space whose pages are zero and cost nothing until they are touched.
    fn map(bytes: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses the place, so no other mapping is touched.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags)? };
        let base = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let region = Self { base: Base(base), bytes };
        // Large pages would make a slot that touches 8 KiB cost 2 MiB. A kernel without them refuses the advice.
        // SAFETY: the advice changes nothing that can be seen in the mapping just made.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        Ok(region)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this region's, and nobody has an address in it any more (point 2).
        let _ = unsafe { munmap(self.base.0.as_ptr().cast(), self.bytes) };
    }
}

/// Gives pages back to the kernel; they read as zero from then on.
fn discard(base: Base, bytes: usize) -> io::Result<()> {
    let bytes = bytes.next_multiple_of(PAGE_BYTES);
    if bytes > 0 {
        // SAFETY: called by the owner of the slot, for pages of the slot, whose contents it does not need any more.
        unsafe { madvise(base.0.as_ptr().cast(), bytes, Advice::LinuxDontNeed)? };
    }
    Ok(())
}

/// Makes pages that trap.
fn protect(base: Base, bytes: usize) -> io::Result<()> {
    // SAFETY: called by the owner of the slot, for pages of the slot that nobody reads or writes.
    unsafe { mprotect(base.0.as_ptr().cast(), bytes, rustix::mm::MprotectFlags::empty())? };
    Ok(())
}

/// Slots of one size.
#[derive(Debug)]
struct Slots {
    slot_bytes: usize,
    /// Slots of a region.
    region_slots: usize,
    state: Mutex<SlotsState>,
}

#[derive(Debug, Default)]
struct SlotsState {
    regions: Vec<Region>,
    /// Slots of the last region that were never handed out.
    fresh: usize,
    free: Vec<Base>,
}

impl Slots {
    /// Slots of `slot_bytes`, in mappings of about `region_bytes`; both are multiples of a page.
    fn new(slot_bytes: usize, region_bytes: usize) -> Self {
        Self { slot_bytes, region_slots: (region_bytes / slot_bytes).max(1), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, SlotsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot of zeros.
    fn take(&self) -> io::Result<Base> {
        let mut state = self.lock();
        if let Some(base) = state.free.pop() {
            return Ok(base);
        }
        if state.fresh == 0 {
            state.regions.push(Region::map(self.slot_bytes.saturating_mul(self.region_slots))?);
            state.fresh = self.region_slots;
        }
        let offset = self.region_slots.saturating_sub(state.fresh).saturating_mul(self.slot_bytes);
        let region = state.regions.last().ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a fresh slot's index is less than the region's number of slots, so the slot lies in its mapping.
        let base = Base(unsafe { region.base.0.add(offset) });
        state.fresh = state.fresh.saturating_sub(1);
        Ok(base)
    }

    /// Takes back a slot of which the owner used the first `used` bytes at most.
    fn give(&self, base: Base, used: usize) {
        match discard(base, used.min(self.slot_bytes)) {
            Ok(()) => self.lock().free.push(base),
            Err(error) => tracing::warn!("a slot of {} bytes is lost: {error}", self.slot_bytes),
        }
    }
}
