//! The frames of one word: 64 of them, a bit each, set if the frame is free.

use rampart_memory::BlockOrder;

/// Frames of a word.
pub const WORD_FRAMES: usize = 64;

/// A word all of whose frames are free.
pub const FREE: u64 = !0;

/// One frame in sixteen stands for all in the count of its bank, so most operations leave that count alone.
pub const SAMPLED: usize = 16;

/// The sampled frames. A block of sixteen frames or more has its exact share of them.
const SAMPLES: u64 = 0x0080_0080_0080_0080;

/// The largest order whose blocks lie in one word.
const MAX_ORDER: u8 = 6;

const _: () = assert!(SAMPLES.count_ones() as usize * SAMPLED == WORD_FRAMES, "each sample stands for sixteen frames");
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

/// Returns the number of sampled frames among these.
#[inline]
pub const fn samples(bits: u64) -> u32 {
    let sampled = bits & SAMPLES;
    if sampled == 0 { 0 } else { sampled.count_ones() }
}

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

        #[test]
        fn large_blocks_have_their_share_of_the_samples(bit in 0_u32..4, number in 4_u8..=6) {
            let first = (bit * 16) & !((1 << number) - 1);
            prop_assert_eq!(samples(run(order(number)) << first) as usize, (1 << number) / SAMPLED);
        }
    }

    #[test]
    fn one_frame_in_sixteen_is_a_sample() {
        assert_eq!((0..64).filter(|bit| samples(1 << bit) == 1).collect::<Vec<_>>(), [7, 23, 39, 55]);
    }
}
