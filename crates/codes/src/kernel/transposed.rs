//! The SECDED codes by rotating bytes, for registers with lanes of 16 bytes.
//!
//! **Problem.** The check byte of a word is a sum of its eight bytes, each with its own rotations ([`crate::hsiao`]);
//! in a register the eight are side by side. **Idea.** Transpose eight registers of words, so that each register holds
//! the same byte of all words; sums and rotations are then operations on whole registers. By Horner's rule, start with
//! the bytes rotated by five bits, rotate by two, add those rotated by three, rotate by one, add those rotated by two,
//! and so on: five rotations of one bit in all. **Why this way.** Every instruction set has shuffles inside lanes.

use super::accumulator::GROUP_BYTES;
use super::vector::Vector;
use crate::hsiao::turned_by;

/// Bytes of a word, and the registers that are transposed.
const WORD_BYTES: usize = 8;

/// A register of lanes of 16 bytes; an operation does the same in each lane.
pub(super) trait Lanes: Vector {
    /// The bytes of the two words of a lane, alternating: byte 0 of the first, byte 0 of the second, and so on.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn pair_words(self) -> Self;

    /// The 16-bit parts of both registers, alternating: of the lanes' first halves, and of their second halves.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn zip16(self, other: Self) -> [Self; 2];

    /// The same with 32-bit parts.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn zip32(self, other: Self) -> [Self; 2];

    /// The same with 64-bit parts.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn zip64(self, other: Self) -> [Self; 2];

    /// Each byte rotated left by one bit.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn turned(self) -> Self;

    /// From 16-bit parts lane by lane, to the first part of each lane, the second part of each, and so on.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn lanes_in_turn(self) -> Self;
}

/// The check bytes of the 64 words of eight lines.
///
/// # Safety
/// As for [`super::vector::Secded::secded`].
#[inline(always)]
pub(super) unsafe fn secded<V: Lanes>(lines: *const u8, check: *mut u8) {
    let size = size_of::<V>();
    for start in (0..GROUP_BYTES).step_by(WORD_BYTES * size) {
        // SAFETY: the eight registers from `start` on lie in the eight lines, and the one made of them in the 64 bytes.
        unsafe {
            let mut words = [V::load(lines.add(start)).pair_words(); WORD_BYTES];
            for (i, word) in words.iter_mut().enumerate().skip(1) {
                *word = V::load(lines.add(start + i * size)).pair_words();
            }
            check_bytes(transpose(words)).lanes_in_turn().store(check.add(start / WORD_BYTES));
        }
    }
}

/// From registers of words, paired in each lane, to registers of the words' bytes 0, 1, … 7. The pair of register `i`
/// becomes the 16-bit part `i` of its lane.
///
/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn transpose<V: Lanes>(words: [V; WORD_BYTES]) -> [V; WORD_BYTES] {
    // SAFETY: the instruction set is there.
    unsafe {
        let [a, b, c, d, e, f, g, h] = words;
        let ([ab0, ab4], [cd0, cd4], [ef0, ef4], [gh0, gh4]) = (a.zip16(b), c.zip16(d), e.zip16(f), g.zip16(h));
        let ([abcd0, abcd2], [efgh0, efgh2]) = (ab0.zip32(cd0), ef0.zip32(gh0));
        let ([abcd4, abcd6], [efgh4, efgh6]) = (ab4.zip32(cd4), ef4.zip32(gh4));
        let ([byte0, byte1], [byte2, byte3]) = (abcd0.zip64(efgh0), abcd2.zip64(efgh2));
        let ([byte4, byte5], [byte6, byte7]) = (abcd4.zip64(efgh4), abcd6.zip64(efgh6));
        [byte0, byte1, byte2, byte3, byte4, byte5, byte6, byte7]
    }
}

/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn check_bytes<V: Lanes>(bytes: [V; WORD_BYTES]) -> V {
    // SAFETY: the instruction set is there.
    unsafe {
        let by_five = sum_of::<V, 5>(bytes);
        let by_three = by_five.turned().turned().xor(sum_of::<V, 3>(bytes));
        let by_two = by_three.turned().xor(sum_of::<V, 2>(bytes));
        let by_one = by_two.turned().xor(sum_of::<V, 1>(bytes));
        by_one.turned().xor(sum_of::<V, 0>(bytes))
    }
}

/// The sum of the bytes that are rotated by `TURN` bits.
///
/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn sum_of<V: Lanes, const TURN: u32>(bytes: [V; WORD_BYTES]) -> V {
    let turned = const { turned_by(TURN) };
    // SAFETY: the instruction set is there.
    unsafe {
        let mut sum = V::zero();
        for (i, byte) in bytes.into_iter().enumerate() {
            if turned >> (8 * i) & 1 == 1 {
                sum = sum.xor(byte);
            }
        }
        sum
    }
}
