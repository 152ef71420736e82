//! Reads the wire encoding, strictly.

use super::{NAN_F32, NAN_F64, WireError};

/// Reads encoded values piece by piece. The caller follows the type.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// The next `wanted` bytes as they are.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn take(&mut self, wanted: usize) -> Result<&'a [u8], WireError> {
        let end = WireError::End { at: self.at, wanted, left: self.left() };
        let stop = self.at.checked_add(wanted).ok_or(end)?;
        let taken = self.bytes.get(self.at..stop).ok_or(end)?;
        self.at = stop;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The bytes that are left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`WireError::Trailing`] when bytes are left.
    pub fn finish(self) -> Result<(), WireError> {
        match self.left() {
            0 => Ok(()),
            left => Err(WireError::Trailing { at: self.at, left }),
        }
    }

    /// A `bool`.
    ///
    /// # Errors
    /// [`WireError`], as all methods here, when the bytes at this place are no such value.
    pub fn bool(&mut self) -> Result<bool, WireError> {
        let at = self.at;
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Invalid { at, what: "bool, 0 or 1" }),
        }
    }

    /// An `f32`.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn f32(&mut self) -> Result<f32, WireError> {
        let at = self.at;
        let bits = self.u32()?;
        let value = f32::from_bits(bits);
        if value.is_nan() && bits != NAN_F32 {
            return Err(WireError::Invalid { at, what: "canonical f32 NaN" });
        }
        Ok(value)
    }

    /// An `f64`.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn f64(&mut self) -> Result<f64, WireError> {
        let at = self.at;
        let bits = self.u64()?;
        let value = f64::from_bits(bits);
        if value.is_nan() && bits != NAN_F64 {
            return Err(WireError::Invalid { at, what: "canonical f64 NaN" });
        }
        Ok(value)
    }

    /// A `char`.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn char(&mut self) -> Result<char, WireError> {
        let at = self.at;
        char::from_u32(self.u32()?).ok_or(WireError::Invalid { at, what: "Unicode scalar value" })
    }

    /// A `string`.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn string(&mut self) -> Result<&'a str, WireError> {
        let at = self.at;
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Invalid { at, what: "UTF-8 string" })
    }

    /// A whole `list<u8>`.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let count = self.count()?;
        self.take(count)
    }

    /// The number of items of a list, which follow; never more than there are bytes left.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn count(&mut self) -> Result<usize, WireError> {
        let count = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        if count > self.left() {
            return Err(WireError::End { at: self.at, wanted: count, left: self.left() });
        }
        Ok(count)
    }

    /// The index of a case, of `cases` in all.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn case(&mut self, cases: usize) -> Result<usize, WireError> {
        let at = self.at;
        let index = self.u32()?;
        match usize::try_from(index) {
            Ok(found) if found < cases => Ok(found),
            _ => Err(WireError::Case { at, index, cases }),
        }
    }

    /// The indexes of the flags that are set, of `names` in all, in order.
    ///
    /// # Errors
    /// See [`Decoder::bool`].
    pub fn flags(&mut self, names: usize) -> Result<impl Iterator<Item = usize> + use<'a>, WireError> {
        let at = self.at;
        let words = self.take(names.div_ceil(32).saturating_mul(4))?;
        let (last, used) = (words.last_chunk::<4>(), names % 32);
        if used != 0 && last.is_some_and(|last| u32::from_le_bytes(*last) >> used != 0) {
            return Err(WireError::Invalid { at, what: "set of known flags" });
        }
        // Little-endian words, lowest bit first, are bytes in order, lowest bit first.
        let bit = |byte: u8, bit: usize| (byte >> bit) & 1 == 1;
        Ok(words.iter().enumerate().flat_map(move |(index, byte)| {
            (0..8).filter(move |at| bit(*byte, *at)).map(move |at| index * 8 + at)
        }))
    }
}

/// One method for each type of integer.
macro_rules! integers {
    ($($name:ident: $ty:ty, $wit:literal;)*) => {
        impl Decoder<'_> {
            $(
                #[doc = concat!("A `", $wit, "`.")]
                ///
                /// # Errors
                /// See [`Decoder::bool`].
                pub fn $name(&mut self) -> Result<$ty, WireError> {
                    Ok(<$ty>::from_le_bytes(self.array()?))
                }
            )*
        }
    };
}
integers! {
    u8: u8, "u8"; u16: u16, "u16"; u32: u32, "u32"; u64: u64, "u64";
    s8: i8, "s8"; s16: i16, "s16"; s32: i32, "s32"; s64: i64, "s64";
}
