//! The world's random numbers: splitmix64, so that a seed means the same run everywhere.

/// A seeded generator.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Seeds are small consecutive numbers: spread them first.
        Self(mix(seed ^ 0x6772_616E_6172_7921))
    }

    #[must_use]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number in `[0, limit)`; 0 when the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next_u64() % limit }
    }

    /// A number in `[low, high)`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    /// True in `per_mille` of 1 000 cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1_000) < per_mille
    }

    /// One of the items; `None` when there are none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        let index = usize::try_from(self.below(items.len() as u64)).ok()?;
        items.get(index).copied()
    }
}

/// A bijection that makes small differences large; also the step of the trace's hash.
#[must_use]
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
