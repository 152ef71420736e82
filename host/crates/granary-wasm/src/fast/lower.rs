//! From wire bytes to guest memory. The bytes were validated before any guest code runs; what is read here is
//! checked again all the same, except that strings are taken to be UTF-8 only once.

use std::slice::IterMut;

use granary_wit::Decoder;
use wasmtime::component::__internal::{ComponentTypes, InterfaceType as I, LowerContext};
use wasmtime::component::Lower;
use wasmtime::{Result, ValRaw, format_err};

use super::layout::{self, Cases};

/// Lowers a tuple of values into flat slots, all of which are zero.
pub(super) fn to_flat<T: 'static>(
    cx: &mut LowerContext<'_, T>,
    ty: &I,
    bytes: &[u8],
    slots: &mut [ValRaw],
) -> Result<()> {
    let types = cx.types;
    let mut lowering = Lowering { cx, types, wire: Decoder::new(bytes) };
    lowering.flat(ty, &mut slots.iter_mut())?;
    Ok(lowering.wire.finish()?)
}

/// Lowers a tuple of values into memory at `at`.
pub(super) fn to_memory<T: 'static>(
    cx: &mut LowerContext<'_, T>,
    ty: &I,
    bytes: &[u8],
    at: usize,
) -> Result<()> {
    let types = cx.types;
    let mut lowering = Lowering { cx, types, wire: Decoder::new(bytes) };
    lowering.memory(ty, at)?;
    Ok(lowering.wire.finish()?)
}

fn unsupported() -> wasmtime::Error {
    format_err!("a type that has no wire encoding")
}

fn put(slots: &mut IterMut<'_, ValRaw>, value: ValRaw) -> Result<()> {
    *slots.next().ok_or_else(|| format_err!("more flat values than the type has"))? = value;
    Ok(())
}

struct Lowering<'c, 'a, 'b, T: 'static> {
    cx: &'c mut LowerContext<'a, T>,
    types: &'a ComponentTypes,
    wire: Decoder<'b>,
}

impl<T: 'static> Lowering<'_, '_, '_, T> {
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        let end = at.saturating_add(bytes.len());
        let place = self.cx.as_slice_mut().get_mut(at..end);
        place.ok_or_else(|| format_err!("value out of bounds of memory"))?.copy_from_slice(bytes);
        Ok(())
    }

    fn write_pair(&mut self, at: usize, (start, length): (u32, u32)) -> Result<()> {
        self.write(at, &start.to_le_bytes())?;
        self.write(at.saturating_add(4), &length.to_le_bytes())
    }

    /// A scalar as a flat value.
    fn scalar(&mut self, ty: &I) -> Result<ValRaw> {
        Ok(match ty {
            I::Bool => ValRaw::u32(u32::from(self.wire.bool()?)),
            I::U8 => ValRaw::u32(u32::from(self.wire.u8()?)),
            I::U16 => ValRaw::u32(u32::from(self.wire.u16()?)),
            I::U32 => ValRaw::u32(self.wire.u32()?),
            I::U64 => ValRaw::u64(self.wire.u64()?),
            I::S8 => ValRaw::i32(i32::from(self.wire.s8()?)),
            I::S16 => ValRaw::i32(i32::from(self.wire.s16()?)),
            I::S32 => ValRaw::i32(self.wire.s32()?),
            I::S64 => ValRaw::i64(self.wire.s64()?),
            I::Float32 => ValRaw::f32(self.wire.f32()?.to_bits()),
            I::Float64 => ValRaw::f64(self.wire.f64()?.to_bits()),
            I::Char => ValRaw::u32(u32::from(self.wire.char()?)),
            _ => return Err(unsupported()),
        })
    }

    fn memory(&mut self, ty: &I, at: usize) -> Result<()> {
        match ty {
            I::Bool | I::U8 | I::S8 => {
                let [byte, ..] = self.scalar(ty)?.get_u32().to_le_bytes();
                self.write(at, &[byte])
            }
            I::U16 | I::S16 => {
                let [low, high, ..] = self.scalar(ty)?.get_u32().to_le_bytes();
                self.write(at, &[low, high])
            }
            I::U32 | I::S32 | I::Float32 | I::Char => {
                let bits = self.scalar(ty)?.get_u32();
                self.write(at, &bits.to_le_bytes())
            }
            I::U64 | I::S64 | I::Float64 => {
                let bits = self.scalar(ty)?.get_u64();
                self.write(at, &bits.to_le_bytes())
            }
            I::String => {
                let text = self.wire.string()?;
                text.linear_lower_to_memory(self.cx, I::String, at)
            }
            I::List(_) => {
                let pair = self.list(ty)?;
                self.write_pair(at, pair)
            }
            I::Record(_) | I::Tuple(_) => {
                let mut next = at;
                for member in layout::members(self.types, ty) {
                    let at = self.types.canonical_abi(&member).next_field32_size(&mut next);
                    self.memory(&member, at)?;
                }
                Ok(())
            }
            I::Option(_) | I::Result(_) | I::Variant(_) | I::Enum(_) => {
                let cases = Cases::of(self.types, ty).ok_or_else(unsupported)?;
                let index = self.wire.case(cases.count)?;
                let discriminant = u32::try_from(index)?.to_le_bytes();
                let used = discriminant.get(..cases.discriminant_bytes()).ok_or_else(unsupported)?;
                self.write(at, used)?;
                match layout::payload(self.types, ty, index) {
                    Some(payload) => self.memory(&payload, at.saturating_add(cases.payload_offset)),
                    None => Ok(()),
                }
            }
            I::Flags(_) => {
                let names = layout::flags(self.types, ty).ok_or_else(unsupported)?;
                let size = layout::flags_bytes(names);
                for index in 0..names.div_ceil(32) {
                    let word = self.wire.u32()?.to_le_bytes();
                    let used = word.get(..size.min(4)).ok_or_else(unsupported)?;
                    self.write(at.saturating_add(index.saturating_mul(4)), used)?;
                }
                Ok(())
            }
            _ => Err(unsupported()),
        }
    }

    fn flat(&mut self, ty: &I, slots: &mut IterMut<'_, ValRaw>) -> Result<()> {
        match ty {
            I::String => {
                let text = self.wire.string()?;
                let mut pair = std::mem::MaybeUninit::new([ValRaw::u64(0); 2]);
                text.linear_lower_to_flat(self.cx, I::String, &mut pair)?;
                // SAFETY: initialised when it was made, and whatever has been written since is a `ValRaw`.
                let [start, length] = unsafe { pair.assume_init() };
                put(slots, start)?;
                put(slots, length)
            }
            I::List(_) => {
                let (start, length) = self.list(ty)?;
                put(slots, ValRaw::u32(start))?;
                put(slots, ValRaw::u32(length))
            }
            I::Record(_) | I::Tuple(_) => {
                layout::members(self.types, ty).try_for_each(|member| self.flat(&member, slots))
            }
            I::Option(_) | I::Result(_) | I::Variant(_) | I::Enum(_) => {
                let cases = Cases::of(self.types, ty).ok_or_else(unsupported)?;
                let all = self.types.canonical_abi(ty).flat_count(super::FLAT_MAX).ok_or_else(unsupported)?;
                let left = slots.len().checked_sub(all).ok_or_else(unsupported)?;
                let index = self.wire.case(cases.count)?;
                put(slots, ValRaw::u32(u32::try_from(index)?))?;
                if let Some(payload) = layout::payload(self.types, ty, index) {
                    self.flat(&payload, slots)?;
                }
                // The slots that only other cases use stay zero.
                while slots.len() > left {
                    put(slots, ValRaw::u64(0))?;
                }
                Ok(())
            }
            I::Flags(_) => {
                let names = layout::flags(self.types, ty).ok_or_else(unsupported)?;
                for _ in 0..names.div_ceil(32) {
                    let word = self.wire.u32()?;
                    put(slots, ValRaw::u32(word))?;
                }
                Ok(())
            }
            _ => {
                let value = self.scalar(ty)?;
                put(slots, value)
            }
        }
    }

    /// Allocates a list in the guest and fills it: where it starts, and how many items it has.
    fn list(&mut self, ty: &I) -> Result<(u32, u32)> {
        let I::List(at) = ty else { return Err(unsupported()) };
        let item = self.types[*at].element;
        let (size, align) = layout::size_and_align(self.types, &item).ok_or_else(unsupported)?;
        let count = self.wire.count()?;
        let all = count.checked_mul(size).ok_or_else(|| format_err!("size overflow copying a list"))?;
        let raw = match layout::integer_bytes(&item) {
            Some(_) => Some(self.wire.take(all)?),
            None => None,
        };
        // wasmtime checks that the new memory is aligned and within bounds.
        let start = self.cx.realloc(0, 0, align, all)?;
        match raw {
            // Integers look the same in memory and on the wire.
            Some(bytes) => self.write(start, bytes)?,
            None => {
                for index in 0..count {
                    self.memory(&item, start.saturating_add(index.saturating_mul(size)))?;
                }
            }
        }
        Ok((u32::try_from(start)?, u32::try_from(count)?))
    }
}
