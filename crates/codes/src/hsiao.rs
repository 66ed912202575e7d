//! The SECDED(72,64) code: eight check bits for a word of 64, which correct any one bit and detect any two.
//!
//! **Problem.** A Hsiao code has 64 columns of eight bits, all different, each with an odd number of ones, as few as
//! possible: 56 with three and 8 with five ("A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", 1970). The
//! assignment of columns to bits is free. With an arbitrary assignment, each check bit is the parity of a mask of the
//! word, and processors have no fast parity of masks. **Idea.** The seven necklaces of three ones in eight places, each
//! in its eight rotations, are exactly the 56 columns; one necklace of five ones gives the other eight. Give each byte
//! of the word one necklace, and bit `j` of the byte that necklace rotated by `j`. The check byte is then a sum of
//! rotated bytes, and the necklaces of [`TURNS`] need only five different rotations for all bytes. **Why this way.**
//! Eight XORs, shifts and ands on whole registers give the check bytes of as many words as a register has bytes.

/// The left rotations of each byte of a word, each of which is added to the check byte.
pub(crate) const TURNS: [&[u32]; 8] =
    [&[0, 1, 2], &[0, 1, 3], &[0, 1, 5], &[0, 2, 3], &[0, 2, 5], &[1, 2, 5], &[1, 3, 5], &[0, 1, 2, 3, 5]];

/// The part of the check byte that comes from one byte of the word, 0 to 7.
const fn part(byte: usize, value: u8) -> u8 {
    let (turns, mut sum, mut turn) = (TURNS[byte], 0, 0);
    while turn < turns.len() {
        sum ^= value.rotate_left(turns[turn]);
        turn += 1;
    }
    sum
}

/// The column of each bit: the change of the check byte when the bit flips.
pub(crate) const COLUMNS: [u8; 64] = {
    let mut columns = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        columns[bit] = part(bit / 8, 1 << (bit % 8));
        bit += 1;
    }
    columns
};

/// The bytes of a word that are rotated left by `turn` bits, with all their bits set.
pub(crate) const fn turned_by(turn: u32) -> u64 {
    let (mut mask, mut byte) = (0, 0);
    while byte < 8 {
        let turns = TURNS[byte];
        let mut i = 0;
        while i < turns.len() {
            if turns[i] == turn {
                mask |= 0xff << (8 * byte);
            }
            i += 1;
        }
        byte += 1;
    }
    mask
}

/// The bit, 0 to 63, whose flip alone gives this syndrome. `None` where no single bit of the word does: nothing is
/// wrong, a check bit is, or more than one bit is.
pub(crate) fn flipped(syndrome: u8) -> Option<u8> {
    (0..64).find(|&bit| COLUMNS[usize::from(bit)] == syndrome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_those_of_a_code_of_hsiaos() {
        let mut columns = COLUMNS.to_vec();
        columns.sort_unstable();
        columns.dedup();
        assert_eq!(columns.len(), 64, "all different");
        let ones = |count: u32| COLUMNS.iter().filter(|column| column.count_ones() == count).count();
        assert_eq!((ones(3), ones(5)), (56, 8), "odd, and as few ones as 64 such columns can have");
    }

    #[test]
    fn the_part_of_a_byte_is_the_sum_of_the_columns_of_its_bits() {
        for byte in 0..8 {
            for value in 0..=u8::MAX {
                let columns = (0..8).filter(|bit| value >> bit & 1 == 1).map(|bit| COLUMNS[8 * byte + bit]);
                assert_eq!(part(byte, value), columns.fold(0, |sum, column| sum ^ column), "{value} in byte {byte}");
            }
        }
    }

    #[test]
    fn any_one_of_the_72_bits_is_corrected_and_any_two_are_detected() {
        let all: Vec<u8> = COLUMNS.into_iter().chain((0..8).map(|bit| 1 << bit)).collect();
        for (bit, &column) in (0..).zip(&all) {
            assert_eq!(flipped(column), (bit < 64).then_some(bit));
            for other in all.iter().filter(|&&other| other != column) {
                assert_ne!(column ^ other, 0);
                assert_eq!(flipped(column ^ other), None, "two flips look like one");
            }
        }
    }
}
