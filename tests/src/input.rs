//! Inputs from seeds: a valid sample, arbitrary bytes, or a sample with a few changes.

/// The longest arbitrary input, in bytes.
const ARBITRARY_BYTES_MAX: u64 = 300;

/// Seeded numbers (SplitMix64).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when there is none.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        // Half of them are bytes that mean something to most formats.
        const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\"\\[]{}(),:@/.-+eE0919 \n\t#%<>'_u";
        let any = self.next().to_le_bytes();
        if any[0].is_multiple_of(2) { any[1] } else { TELLING[usize::from(any[1]) % TELLING.len()] }
    }
}

/// The input of this seed.
#[must_use]
pub fn generate(samples: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    match random.below(16) {
        0 => samples[random.below(samples.len())].clone(),
        1 | 2 => {
            let bytes = random.next() % ARBITRARY_BYTES_MAX;
            (0..bytes).map(|_| random.byte()).collect()
        }
        _ => {
            let mut bytes = samples[random.below(samples.len())].clone();
            for _ in 0..=random.below(4) {
                change(&mut bytes, samples, &mut random);
            }
            bytes
        }
    }
}

fn change(bytes: &mut Vec<u8>, samples: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(16)).min(bytes.len());
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.insert(at, random.byte()),
        3 | 4 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.byte();
            }
        }
        5 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        // The same piece many times: nesting and long lists.
        6 => {
            let piece = bytes[at..end].repeat(1 + random.below(200));
            bytes.splice(at..at, piece);
        }
        // The head of one and the tail of another.
        _ => {
            let other = &samples[random.below(samples.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
    }
}
