//! Linear memories in slots of two sizes; a larger one has a mapping of its own.

use std::ptr;
use std::sync::Arc;

use wasmtime::{LinearMemory, MemoryCreator, MemoryType, Result, format_err};

use super::{Base, PAGE_BYTES, Region, Slots};

/// The sizes of slots in bytes. The small one holds a guest whose shadow stack is 64 KiB, the other one a guest as
/// `rustc` links it, with 1 MiB of shadow stack.
const SLOT_BYTES: [usize; 2] = [256 << 10, 2 << 20];

/// The size of a region in bytes.
const REGION_BYTES: usize = 1 << 30;

/// The memories of one silo.
#[derive(Debug)]
pub(crate) struct MemoryArena(Arc<[Slots; 2]>);

impl Default for MemoryArena {
    fn default() -> Self {
        Self(Arc::new(SLOT_BYTES.map(|bytes| Slots::new(bytes, REGION_BYTES))))
    }
}

/// Where a memory lies.
#[derive(Debug)]
enum Place {
    /// In a slot of this class.
    Slot(usize, Base),
    Own(Region),
}

#[derive(Debug)]
struct Memory {
    arena: Arc<[Slots; 2]>,
    place: Place,
    length: usize,
    /// What it may grow to, where its type says so.
    maximum: Option<usize>,
}

impl Place {
    fn base(&self) -> Base {
        match self {
            Self::Slot(_, base) => *base,
            Self::Own(region) => region.base,
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Slot(class, _) => SLOT_BYTES.get(*class).copied().unwrap_or_default(),
            Self::Own(region) => region.bytes,
        }
    }

    /// Room for `bytes`; where that is a mapping of its own, for `ahead` if that is more.
    fn find(arena: &[Slots; 2], bytes: usize, ahead: usize) -> std::io::Result<Self> {
        let fits = arena.iter().enumerate().find(|(_, slots)| slots.slot_bytes >= bytes);
        match fits {
            Some((class, slots)) => Ok(Self::Slot(class, slots.take()?)),
            None => Region::map(bytes.max(ahead).next_multiple_of(PAGE_BYTES)).map(Self::Own),
        }
    }

    /// Gives a slot back, of which the first `used` bytes were used; a mapping of its own ends with its drop.
    fn release(&self, arena: &[Slots; 2], used: usize) {
        if let Self::Slot(class, base) = self
            && let Some(slots) = arena.get(*class)
        {
            slots.give(*base, used);
        }
    }
}

// SAFETY: points 1, 3 and 4 of the module's argument: the memory owns its place, its length never exceeds the place's
// capacity, and what it gains by growing is zero.
unsafe impl LinearMemory for Memory {
    fn byte_size(&self) -> usize {
        self.length
    }

    fn byte_capacity(&self) -> usize {
        self.place.capacity()
    }

    fn grow_to(&mut self, new_size: usize) -> Result<()> {
        if new_size > self.place.capacity() {
            // A memory that outgrew the slots is likely to grow again.
            let ahead = self.length.saturating_mul(2).min(self.maximum.unwrap_or(usize::MAX));
            let place = Place::find(&self.arena, new_size, ahead)
                .map_err(|error| format_err!("no memory for {new_size} bytes: {error}"))?;
            let (from, to) = (self.place.base().0.as_ptr(), place.base().0.as_ptr());
            // SAFETY: both places are this memory's alone, differ, and are at least `length` long.
            unsafe { ptr::copy_nonoverlapping(from, to, self.length) };
            std::mem::replace(&mut self.place, place).release(&self.arena, self.length);
        }
        self.length = new_size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.place.base().0.as_ptr()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.place.release(&self.arena, self.length);
    }
}

// SAFETY: see `LinearMemory` above. A reservation or a guard cannot be had here, and is refused.
unsafe impl MemoryCreator for MemoryArena {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        maximum: Option<usize>,
        reserved_size_in_bytes: Option<usize>,
        guard_size_in_bytes: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        if reserved_size_in_bytes.is_some_and(|bytes| bytes > 0) || guard_size_in_bytes > 0 {
            return Err("the arena has no reservations and no guards".to_owned());
        }
        let place = Place::find(&self.0, minimum, minimum)
            .map_err(|error| format!("no memory for {minimum} bytes: {error}"))?;
        Ok(Box::new(Memory { arena: Arc::clone(&self.0), place, length: minimum, maximum }))
    }
}
