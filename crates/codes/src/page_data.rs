//! A page that we own.

use rampart_memory::LineData;

use crate::{PAGE_LINES, PageBits};

/// The content of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct PageData {
    /// Its lines, the one with the lowest address first.
    pub lines: [LineData; PAGE_LINES],
}

const _: () = assert!(size_of::<PageData>() == crate::PAGE_BYTES);

impl PageData {
    /// All bits 0.
    pub const ZERO: Self = Self { lines: [LineData::ZERO; PAGE_LINES] };

    /// Arbitrary content, the same for the same seed everywhere: the words of SplitMix64 (Steele, Lea and Flood, "Fast
    /// Splittable Pseudorandom Number Generators", 2014).
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut state = seed;
        let mut word = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        Self { lines: std::array::from_fn(|_| LineData(std::array::from_fn(|_| word()))) }
    }

    /// Flips bits.
    pub fn flip(&mut self, bits: &PageBits) {
        for (line, flipped) in self.lines.iter_mut().zip(bits.lines()) {
            *line = LineData(std::array::from_fn(|word: usize| line.0[word] ^ flipped.0.0[word]));
        }
    }

    /// Its bytes, in the order of their addresses.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.0.map(u64::to_le_bytes)).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_words() {
        // The first three words of SplitMix64 from seed 1234567, as in the test of its reference implementation.
        let page = PageData::from_seed(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(page.lines[0].0[..3], first);
        assert_ne!(page, PageData::from_seed(1_234_568));
    }

    #[test]
    fn bytes_come_in_the_order_of_their_addresses() {
        let mut page = PageData::ZERO;
        page.lines[1].0[2] = 0x0201;
        let bytes = page.to_bytes();
        assert_eq!((bytes[64 + 16], bytes[64 + 17], bytes.len()), (1, 2, 4096));
    }
}
