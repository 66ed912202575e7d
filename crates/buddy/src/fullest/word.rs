//! The frames of one word: 64 of them, a bit each, set if the frame is free.

use rampart_memory::BlockOrder;

/// Frames of a word.
pub const WORD_FRAMES: usize = 64;

/// A word all of whose frames are free.
pub const FREE: u64 = !0;

/// The largest order whose blocks lie in one word.
const MAX_ORDER: u8 = 6;

const _: () = assert!(1 << MAX_ORDER == WORD_FRAMES, "a block of order 6 is a word");

/// Returns the bits of a block of this order, up to 6, at the beginning of a word.
#[inline]
pub const fn run(order: BlockOrder) -> u64 {
    assert!(order.number() <= MAX_ORDER, "a larger block has several words");
    FREE >> (WORD_FRAMES as u64 - order.frames())
}

/// Returns the first bits of all free blocks of this order, up to 6.
#[inline]
pub const fn starts(word: u64, order: BlockOrder) -> u64 {
    let mut free = word;
    let mut step = 0;
    // After each step, a bit says whether twice as many frames are free from it on.
    while step < order.number() {
        free &= free >> (1 << step);
        step += 1;
    }
    free & aligned(order)
}

/// Returns the bits at which blocks of this order begin.
const fn aligned(order: BlockOrder) -> u64 {
    match order.number() {
        0 => FREE,
        1 => 0x5555_5555_5555_5555,
        2 => 0x1111_1111_1111_1111,
        3 => 0x0101_0101_0101_0101,
        4 => 0x0001_0001_0001_0001,
        5 => 0x0000_0001_0000_0001,
        _ => 1,
    }
}

/// Which frames of each word are counted as free or used. Each of these *samples* stands for a run of frames, so most
/// operations leave the counts alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples(u64);

impl Samples {
    /// One frame in 16, for banks that have too few frames for sparser samples.
    const DENSE: Self = Self(0x0080_0080_0080_0080);

    /// One frame of each word.
    const SPARSE: Self = Self(0x0000_0000_8000_0000);

    /// The size of a bank, in frames, from which on sparse samples tell which of two banks is fuller: 128 MiB.
    const SPARSE_FROM: u64 = 1 << 15;

    /// Returns the samples for banks of so many frames.
    pub const fn of_banks(frames: u64) -> Self {
        if frames < Self::SPARSE_FROM { Self::DENSE } else { Self::SPARSE }
    }

    /// Whether any of these frames of a word is a sample.
    #[inline]
    pub const fn has_any(self, bits: u64) -> bool {
        bits & self.0 != 0
    }

    /// Returns how many frames the samples among these frames of a word stand for.
    #[inline]
    pub const fn frames(self, bits: u64) -> i32 {
        let each = u64::BITS / self.0.count_ones();
        ((bits & self.0).count_ones() * each).cast_signed()
    }
}

const _: () = assert!(Samples::DENSE.frames(FREE) as usize == WORD_FRAMES, "its samples stand for the whole word");
const _: () = assert!(Samples::SPARSE.frames(FREE) as usize == WORD_FRAMES, "its samples stand for the whole word");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::order;

    proptest! {
        #[test]
        fn a_block_starts_where_all_its_frames_are_free(sparse: u64, fill: u64, number in 0_u8..=6) {
            let word = sparse | fill;
            let length = 1_u32 << number;
            let naive = (0..64).step_by(1 << number).filter(|&bit| (bit..bit + length).all(|bit| word >> bit & 1 == 1));
            let expected: u64 = naive.map(|bit| 1 << bit).sum();
            prop_assert_eq!(starts(word, order(number)), expected);
            prop_assert_eq!(run(order(number)).count_ones(), length);
        }

    }

    #[test]
    fn samples_stand_for_as_many_frames_as_lie_between_them() {
        for (bank, each) in [(1 << 10, 16), (1 << 14, 16), (1 << 15, 64), (1 << 16, 64)] {
            let samples = Samples::of_banks(bank);
            for first in (0..64).step_by(each) {
                let sampled = (first..first + each).filter(|bit| samples.has_any(1 << bit));
                assert_eq!(sampled.collect::<Vec<_>>(), [first + each / 2 - 1], "banks of {bank} frames");
                assert_eq!(samples.frames(1 << (first + each / 2 - 1)), each.try_into().unwrap());
            }
        }
    }
}
