//! The SECDED(72,64) code: eight check bits to a word of 64, which correct any one bit and detect any two.
//!
//! **Problem.** A code of Hsiao's has 64 columns of eight bits, all different and each with an odd number of ones, as
//! few as possible: 56 with three and 8 with five ("A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", 1970).
//! Which columns belong to which bits is free. Taken as they come, each check bit is the parity of a mask of the word,
//! and processors have no fast parity of masks. **Idea.** The seven necklaces of three ones in eight places, each
//! turned eight times, are just the 56 columns; one necklace of five gives the other eight. So give each byte of the
//! word one necklace, and its bit `j` that necklace turned `j` times. Then the check byte is a sum of turned bytes, and
//! with the necklaces of [`TURNS`] there are only five turns, whatever the byte. **Why this way.** Eight XORs, shifts
//! and ands on whole registers give the check bytes of as many words as a register has bytes.

/// By how much each byte of a word is turned left, each time added to the check byte.
pub(crate) const TURNS: [&[u32]; 8] =
    [&[0, 1, 2], &[0, 1, 3], &[0, 1, 5], &[0, 2, 3], &[0, 2, 5], &[1, 2, 5], &[1, 3, 5], &[0, 1, 2, 3, 5]];

/// The check byte's part that comes from one byte of the word, 0 to 7.
const fn part(byte: usize, value: u8) -> u8 {
    let (turns, mut sum, mut turn) = (TURNS[byte], 0, 0);
    while turn < turns.len() {
        sum ^= value.rotate_left(turns[turn]);
        turn += 1;
    }
    sum
}

/// The column of each bit: what the check byte changes by when the bit flips.
pub(crate) const COLUMNS: [u8; 64] = {
    let mut columns = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        columns[bit] = part(bit / 8, 1 << (bit % 8));
        bit += 1;
    }
    columns
};

/// The bytes of a word that are turned left by `turn` bits, all their bits set.
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

/// The bit, 0 to 63, whose flip alone changes the check byte so; `None` where no single bit of the word does: where
/// nothing is wrong, a check bit is, or more than one bit.
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
