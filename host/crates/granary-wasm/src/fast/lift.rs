//! From guest memory to wire bytes. The guest is not trusted: each read is checked, and each value made canonical.

use std::slice::Iter;

use granary_wit::{NAN_F32, NAN_F64};
use wasmtime::component::__internal::wasmtime_environ::component::StringEncoding;
use wasmtime::component::__internal::{ComponentTypes, InterfaceType as I, LiftContext};
use wasmtime::component::Lift;
use wasmtime::{Result, ValRaw, bail, format_err};

use super::layout::{self, Cases};

/// What each element, member and payload costs of the host-call fuel: as much as a dynamic value.
const VALUE_FUEL: usize = crate::instance::VAL_FUEL;

/// Lifts a tuple of values that is passed as flat values.
pub(super) fn from_flat(cx: &mut LiftContext<'_>, ty: &I, slots: &[ValRaw]) -> Result<Vec<u8>> {
    let types = cx.types;
    let mut lifting = Lifting { cx, types, bytes: Vec::with_capacity(64) };
    lifting.flat(ty, &mut slots.iter())?;
    Ok(lifting.bytes)
}

/// Lifts a tuple of values that lies at `at` in memory, which nobody has checked.
pub(super) fn from_memory(cx: &mut LiftContext<'_>, ty: &I, at: usize) -> Result<Vec<u8>> {
    let types = cx.types;
    let (size, align) = size_and_align(types, ty)?;
    if !at.is_multiple_of(align) {
        bail!("return pointer not aligned");
    }
    let mut lifting = Lifting { cx, types, bytes: Vec::with_capacity(64) };
    lifting.slice(at, size).ok_or_else(|| format_err!("pointer out of bounds of memory"))?;
    lifting.memory(ty, at)?;
    Ok(lifting.bytes)
}

fn size_and_align(types: &ComponentTypes, ty: &I) -> Result<(usize, usize)> {
    let known = layout::size_and_align(types, ty);
    known.and_then(|(size, align)| Some((size, usize::try_from(align).ok()?))).ok_or_else(unsupported)
}

fn unsupported() -> wasmtime::Error {
    format_err!("a type that has no wire encoding")
}

fn next(slots: &mut Iter<'_, ValRaw>) -> Result<ValRaw> {
    slots.next().copied().ok_or_else(|| format_err!("fewer flat values than the type has"))
}

struct Lifting<'c, 'a> {
    cx: &'c mut LiftContext<'a>,
    types: &'a ComponentTypes,
    bytes: Vec<u8>,
}

impl<'a> Lifting<'_, 'a> {
    fn slice(&self, at: usize, size: usize) -> Option<&'a [u8]> {
        self.cx.memory().get(at..at.checked_add(size)?)
    }

    fn read<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        let found = self.slice(at, N).and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
        found.ok_or_else(|| format_err!("value out of bounds of memory"))
    }

    fn pair(&self, at: usize) -> Result<(u32, u32)> {
        Ok((u32::from_le_bytes(self.read(at)?), u32::from_le_bytes(self.read(at.saturating_add(4))?)))
    }

    fn put_u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A scalar whose little-endian bits are `bits`.
    fn scalar(&mut self, ty: &I, bits: u64) -> Result<()> {
        let raw = bits.to_le_bytes();
        let [a, b, c, d, ..] = raw;
        let low = u32::from_le_bytes([a, b, c, d]);
        match ty {
            I::Float32 => self.put_u32(if f32::from_bits(low).is_nan() { NAN_F32 } else { low }),
            I::Float64 => {
                let bits = if f64::from_bits(bits).is_nan() { NAN_F64 } else { bits };
                self.bytes.extend_from_slice(&bits.to_le_bytes());
            }
            I::Char => {
                char::try_from(low)?;
                self.put_u32(low);
            }
            _ => {
                let size = layout::integer_bytes(ty).ok_or_else(unsupported)?;
                self.bytes.extend(raw.iter().take(size));
            }
        }
        Ok(())
    }

    fn memory(&mut self, ty: &I, at: usize) -> Result<()> {
        match ty {
            I::Bool => {
                let [byte] = self.read(at)?;
                self.bytes.push(u8::from(byte != 0));
                Ok(())
            }
            I::Float32 | I::Char => {
                let bits = u32::from_le_bytes(self.read(at)?);
                self.scalar(ty, u64::from(bits))
            }
            I::Float64 => {
                let bits = u64::from_le_bytes(self.read(at)?);
                self.scalar(ty, bits)
            }
            I::String => {
                let (start, length) = self.pair(at)?;
                self.string(start, length)
            }
            I::List(_) => {
                let (start, length) = self.pair(at)?;
                self.list(ty, start, length)
            }
            I::Record(_) | I::Tuple(_) => {
                let mut next = at;
                for member in layout::members(self.types, ty) {
                    self.cx.consume_fuel(VALUE_FUEL)?;
                    let at = self.types.canonical_abi(&member).next_field32_size(&mut next);
                    self.memory(&member, at)?;
                }
                Ok(())
            }
            I::Option(_) | I::Result(_) | I::Variant(_) | I::Enum(_) => {
                let cases = Cases::of(self.types, ty).ok_or_else(unsupported)?;
                let index = match cases.discriminant_bytes() {
                    1 => u32::from(u8::from_le_bytes(self.read(at)?)),
                    2 => u32::from(u16::from_le_bytes(self.read(at)?)),
                    _ => u32::from_le_bytes(self.read(at)?),
                };
                match self.case(ty, &cases, index)? {
                    Some(payload) => self.memory(&payload, at.saturating_add(cases.payload_offset)),
                    None => Ok(()),
                }
            }
            I::Flags(_) => {
                let names = layout::flags(self.types, ty).ok_or_else(unsupported)?;
                let size = layout::flags_bytes(names);
                let bytes =
                    self.slice(at, size).ok_or_else(|| format_err!("value out of bounds of memory"))?;
                for (index, word) in bytes.chunks(4).enumerate() {
                    let mut whole = [0; 4];
                    whole.iter_mut().zip(word).for_each(|(to, from)| *to = *from);
                    self.flags_word(names, index, u32::from_le_bytes(whole));
                }
                Ok(())
            }
            _ => {
                let size = layout::integer_bytes(ty).ok_or_else(unsupported)?;
                let bytes =
                    self.slice(at, size).ok_or_else(|| format_err!("value out of bounds of memory"))?;
                self.bytes.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn flat(&mut self, ty: &I, slots: &mut Iter<'_, ValRaw>) -> Result<()> {
        match ty {
            I::Bool => {
                let value = next(slots)?.get_u32();
                self.bytes.push(u8::from(value != 0));
                Ok(())
            }
            I::String => {
                let (start, length) = (next(slots)?.get_u32(), next(slots)?.get_u32());
                self.string(start, length)
            }
            I::List(_) => {
                let (start, length) = (next(slots)?.get_u32(), next(slots)?.get_u32());
                self.list(ty, start, length)
            }
            I::Record(_) | I::Tuple(_) => {
                for member in layout::members(self.types, ty) {
                    self.cx.consume_fuel(VALUE_FUEL)?;
                    self.flat(&member, slots)?;
                }
                Ok(())
            }
            I::Option(_) | I::Result(_) | I::Variant(_) | I::Enum(_) => {
                let cases = Cases::of(self.types, ty).ok_or_else(unsupported)?;
                let all = self.types.canonical_abi(ty).flat_count(super::FLAT_MAX).ok_or_else(unsupported)?;
                let left = slots.len().checked_sub(all).ok_or_else(unsupported)?;
                let index = next(slots)?.get_u32();
                if let Some(payload) = self.case(ty, &cases, index)? {
                    self.flat(&payload, slots)?;
                }
                // The slots that only other cases use.
                while slots.len() > left {
                    next(slots)?;
                }
                Ok(())
            }
            I::Flags(_) => {
                let names = layout::flags(self.types, ty).ok_or_else(unsupported)?;
                for index in 0..names.div_ceil(32) {
                    let word = next(slots)?.get_u32();
                    self.flags_word(names, index, word);
                }
                Ok(())
            }
            _ => {
                let bits = next(slots)?.get_u64();
                self.scalar(ty, bits)
            }
        }
    }

    /// Puts the index of a case, and gives its payload's type.
    fn case(&mut self, ty: &I, cases: &Cases, discriminant: u32) -> Result<Option<I>> {
        let index = usize::try_from(discriminant)?;
        if index >= cases.count {
            bail!("discriminant {discriminant} out of range [0..{})", cases.count);
        }
        self.put_u32(discriminant);
        let payload = layout::payload(self.types, ty, index);
        if payload.is_some() {
            self.cx.consume_fuel(VALUE_FUEL)?;
        }
        Ok(payload)
    }

    /// Puts one word of flags without the bits that have no name.
    fn flags_word(&mut self, names: usize, index: usize, word: u32) {
        let named = names.saturating_sub(index.saturating_mul(32));
        let mask = if named >= 32 { u32::MAX } else { (1 << named) - 1 };
        self.put_u32(word & mask);
    }

    fn string(&mut self, start: u32, length: u32) -> Result<()> {
        if self.cx.options().string_encoding != StringEncoding::Utf8 {
            let text = String::linear_lift_from_flat(
                self.cx,
                I::String,
                &[ValRaw::u32(start), ValRaw::u32(length)],
            )?;
            self.put_u32(u32::try_from(text.len())?);
            self.bytes.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let size = usize::try_from(length)?;
        let bytes = self.slice(usize::try_from(start)?, size);
        let bytes = bytes.ok_or_else(|| format_err!("string pointer/length out of bounds of memory"))?;
        self.cx.consume_fuel(size)?;
        std::str::from_utf8(bytes)?;
        self.put_u32(length);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn list(&mut self, ty: &I, start: u32, length: u32) -> Result<()> {
        let I::List(at) = ty else { return Err(unsupported()) };
        let item = self.types[*at].element;
        let (size, align) = size_and_align(self.types, &item)?;
        let (start, count) = (usize::try_from(start)?, usize::try_from(length)?);
        let all = count.checked_mul(size).and_then(|all| self.slice(start, all));
        let all = all.ok_or_else(|| format_err!("list pointer/length out of bounds of memory"))?;
        self.cx.consume_fuel_array(count, VALUE_FUEL)?;
        if !start.is_multiple_of(align) {
            bail!("list pointer is not aligned");
        }
        self.put_u32(length);
        if layout::integer_bytes(&item).is_some() {
            // Integers look the same in memory and on the wire.
            self.bytes.extend_from_slice(all);
            return Ok(());
        }
        (0..count).try_for_each(|index| self.memory(&item, start.saturating_add(index.saturating_mul(size))))
    }
}
