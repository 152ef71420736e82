//! Types and values from a seed.

use granary_wit::{Case, Encoder, Field, Type};

use super::Arc;

/// A small generator of random numbers (splitmix64): the same seed gives the same cases everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn names(&mut self) -> Arc<[Arc<str>]> {
        // One in eight has more names than a byte has bits, or a discriminant of one byte has values.
        let count = if self.below(8) == 0 { 1 + self.below(300) } else { 1 + self.below(12) };
        (0..count).map(|at| Arc::from(format!("n{at}"))).collect()
    }

    fn maybe(&mut self, depth: usize) -> Option<Type> {
        (self.below(3) > 0).then(|| self.ty(depth))
    }

    pub(super) fn ty(&mut self, depth: usize) -> Type {
        let kinds = if depth == 0 { 15 } else { 24 };
        match self.below(kinds) {
            0 => Type::Bool,
            1 => Type::U8,
            2 => Type::U16,
            3 => Type::U32,
            4 => Type::U64,
            5 => Type::S8,
            6 => Type::S16,
            7 => Type::S32,
            8 => Type::S64,
            9 => Type::F32,
            10 => Type::F64,
            11 => Type::Char,
            12 => Type::String,
            13 => Type::Enum(self.names()),
            14 => {
                // Components allow 32 flags.
                let names = self.names();
                Type::Flags(names.iter().take(32).cloned().collect())
            }
            15 | 16 => Type::List(Arc::new(self.ty(depth - 1))),
            17 => Type::Option(Arc::new(self.ty(depth - 1))),
            18 | 19 => Type::Result {
                ok: self.maybe(depth - 1).map(Arc::new),
                err: self.maybe(depth - 1).map(Arc::new),
            },
            20 => Type::Tuple((0..=self.below(3)).map(|_| self.ty(depth - 1)).collect()),
            21 | 22 => {
                let field = |at: usize, ty| Field { name: format!("f{at}").into(), ty };
                Type::Record((0..=self.below(4)).map(|at| field(at, self.ty(depth - 1))).collect())
            }
            _ => {
                let case = |at: usize, ty| Case { name: format!("c{at}").into(), ty };
                Type::Variant((0..=self.below(4)).map(|at| case(at, self.maybe(depth - 1))).collect())
            }
        }
    }

    fn character(&mut self) -> char {
        match self.below(3) {
            0 => char::from_u32(u32::try_from(self.below(0x11_0000)).unwrap()).unwrap_or('🌾'),
            _ => char::from(u8::try_from(self.below(128)).unwrap()),
        }
    }

    /// Appends a value; integers are often at the edge of their range.
    pub(super) fn value(&mut self, ty: &Type, out: &mut Encoder) {
        let chosen = match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => 0x8080_8080_8080_8080,
            _ => self.next(),
        };
        let raw = chosen.to_le_bytes();
        match ty {
            Type::Bool => out.bool(chosen % 2 == 1),
            Type::U8 | Type::S8 => out.raw(&raw[..1]),
            Type::U16 | Type::S16 => out.raw(&raw[..2]),
            Type::U32 | Type::S32 => out.raw(&raw[..4]),
            Type::U64 | Type::S64 => out.raw(&raw),
            Type::F32 => out.f32(f32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]])),
            Type::F64 => out.f64(f64::from_bits(chosen)),
            Type::Char => out.char(self.character()),
            Type::String => {
                let text: String = (0..self.below(12)).map(|_| self.character()).collect();
                out.string(&text)
            }
            Type::List(item) => {
                let count = self.below(6);
                out.count(count).unwrap();
                (0..count).for_each(|_| self.value(item, out));
                Ok(())
            }
            Type::Option(some) => self.case(&[None, Some(some)], out),
            Type::Result { ok, err } => self.case(&[ok.as_deref(), err.as_deref()], out),
            Type::Tuple(items) => {
                items.iter().for_each(|item| self.value(item, out));
                Ok(())
            }
            Type::Record(fields) => {
                fields.iter().for_each(|field| self.value(&field.ty, out));
                Ok(())
            }
            Type::Variant(cases) => {
                let payloads: Vec<Option<&Type>> = cases.iter().map(|case| case.ty.as_ref()).collect();
                self.case(&payloads, out)
            }
            Type::Enum(names) => out.case(self.below(names.len())),
            Type::Flags(names) => {
                out.flags(names.len(), (0..names.len()).filter(|at| chosen >> (at % 64) & 1 == 1))
            }
        }
        .unwrap();
    }

    fn case(&mut self, payloads: &[Option<&Type>], out: &mut Encoder) -> Result<(), granary_wit::WireError> {
        let index = self.below(payloads.len());
        out.case(index)?;
        if let Some(ty) = payloads[index] {
            self.value(ty, out);
        }
        Ok(())
    }
}
