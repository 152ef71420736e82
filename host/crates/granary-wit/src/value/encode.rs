//! Writes the wire encoding.

use super::{NAN_F32, NAN_F64, WireError};

/// Builds encoded values piece by piece, up to a bound. The caller follows the type.
#[derive(Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// Where the count of a list that is being written will stand.
#[derive(Debug)]
#[must_use]
pub struct ListMark(usize);

impl Encoder {
    /// An empty encoder that refuses to hold more than `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max }
    }

    /// The bytes written.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// How many bytes are written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Takes back everything from `start` on.
    pub(crate) fn split_off(&mut self, start: usize) -> Vec<u8> {
        self.bytes.split_off(start.min(self.bytes.len()))
    }

    /// Bytes that are encoded already.
    ///
    /// # Errors
    /// As all methods here, when the bound is hit: [`WireError::TooLarge`].
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        if bytes.len() > self.bytes_max.saturating_sub(self.bytes.len()) {
            return Err(WireError::TooLarge { max: self.bytes_max });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// A `bool`.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn bool(&mut self, value: bool) -> Result<(), WireError> {
        self.raw(&[u8::from(value)])
    }

    /// An `f32`; every NaN becomes the same one.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn f32(&mut self, value: f32) -> Result<(), WireError> {
        self.u32(if value.is_nan() { NAN_F32 } else { value.to_bits() })
    }

    /// An `f64`; every NaN becomes the same one.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn f64(&mut self, value: f64) -> Result<(), WireError> {
        self.u64(if value.is_nan() { NAN_F64 } else { value.to_bits() })
    }

    /// A `char`.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn char(&mut self, value: char) -> Result<(), WireError> {
        self.u32(u32::from(value))
    }

    /// A `string`.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn string(&mut self, value: &str) -> Result<(), WireError> {
        self.bytes(value.as_bytes())
    }

    /// A whole `list<u8>`.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn bytes(&mut self, value: &[u8]) -> Result<(), WireError> {
        self.count(value.len())?;
        self.raw(value)
    }

    /// The number of items of a list, which follow.
    ///
    /// # Errors
    /// See [`Encoder::raw`]; also for a number beyond `u32`.
    pub fn count(&mut self, items: usize) -> Result<(), WireError> {
        self.u32(u32::try_from(items).map_err(|_| WireError::TooLarge { max: self.bytes_max })?)
    }

    /// Starts a list whose number of items is not known yet.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn begin_list(&mut self) -> Result<ListMark, WireError> {
        let mark = ListMark(self.bytes.len());
        self.u32(0)?;
        Ok(mark)
    }

    /// Ends a list: sets its number of items.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] for a number beyond `u32`.
    pub fn end_list(&mut self, mark: ListMark, items: usize) -> Result<(), WireError> {
        let count = u32::try_from(items).map_err(|_| WireError::TooLarge { max: self.bytes_max })?;
        if let Some(place) = self.bytes.get_mut(mark.0..mark.0.saturating_add(4)) {
            place.copy_from_slice(&count.to_le_bytes());
        }
        Ok(())
    }

    /// The index of a case of a variant, enum, option (0 none, 1 some) or result (0 ok, 1 err), whose payload
    /// follows if it has one.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn case(&mut self, index: usize) -> Result<(), WireError> {
        self.count(index)
    }

    /// Flags: the indexes of the names that are set, of `names` in all. Indexes beyond are ignored.
    ///
    /// # Errors
    /// See [`Encoder::raw`].
    pub fn flags(&mut self, names: usize, set: impl IntoIterator<Item = usize>) -> Result<(), WireError> {
        let mut words = vec![0u32; names.div_ceil(32)];
        for index in set.into_iter().filter(|index| *index < names) {
            if let Some(word) = words.get_mut(index / 32) {
                *word |= 1 << (index % 32);
            }
        }
        words.into_iter().try_for_each(|word| self.u32(word))
    }
}

/// One method for each type of integer.
macro_rules! integers {
    ($($name:ident: $ty:ty, $wit:literal;)*) => {
        impl Encoder {
            $(
                #[doc = concat!("A `", $wit, "`.")]
                ///
                /// # Errors
                /// See [`Encoder::raw`].
                pub fn $name(&mut self, value: $ty) -> Result<(), WireError> {
                    self.raw(&value.to_le_bytes())
                }
            )*
        }
    };
}
integers! {
    u8: u8, "u8"; u16: u16, "u16"; u32: u32, "u32"; u64: u64, "u64";
    s8: i8, "s8"; s16: i16, "s16"; s32: i32, "s32"; s64: i64, "s64";
}
