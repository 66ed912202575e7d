//! Corrects one flip per word, from SECDED codes.

use crate::PageBits;
use crate::hsiao;

/// The flips of all words whose syndrome is that of one flip. Other words stay: their check byte was hit, and then the
/// CRC says so, or they are beyond correction.
pub(super) fn flipped(syndrome: &[u8]) -> PageBits {
    let words = syndrome.iter().enumerate();
    words.filter_map(|(word, &syndrome)| Some(64 * word + usize::from(hsiao::flipped(syndrome)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hsiao::COLUMNS;

    #[test]
    fn of_three_flips_in_a_word_nearly_half_look_like_one() {
        let (mut all, mut like_one) = (0, 0);
        for (i, third) in COLUMNS.iter().enumerate() {
            for (j, second) in COLUMNS[..i].iter().enumerate() {
                for first in &COLUMNS[..j] {
                    all += 1;
                    like_one += flipped(&[first ^ second ^ third]).count();
                }
            }
        }
        assert_eq!((like_one, all), (20_208, 41_664));
    }

    #[test]
    fn each_word_is_looked_at_by_itself() {
        let flipped = flipped(&[0, COLUMNS[5], 1, COLUMNS[1] ^ COLUMNS[2], COLUMNS[63]]);
        assert_eq!(flipped, [64 + 5, 4 * 64 + 63].into_iter().collect());
    }
}
