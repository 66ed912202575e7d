//! Corrects one flip per bit position of a line, from vertical extended Hamming codes.
//!
//! A lane is one bit position through all lines. In each lane, the first six bits of the syndrome name the flipped
//! line, and the seventh, the parity, says that an odd number of lines flipped. Parity with line number 0 is a flip in
//! line 0, or of the stored parity itself; the page's CRC tells the two apart. The first guess is line 0, the second
//! the parity, each for all lanes at once.

use super::syndrome::line_of;
use crate::PageBits;

/// The index of the parity's line.
const PARITY: usize = 6;

/// The flips of all lanes with an odd number of flips; `line_0` says whether line number 0 means line 0.
pub(super) fn flipped(syndrome: &[u8], line_0: bool) -> PageBits {
    let numbers: [_; PARITY] = std::array::from_fn(|bit| line_of(syndrome, bit));
    let mut flipped = PageBits::NONE;
    for bit in line_of(syndrome, PARITY).iter() {
        let named = numbers.iter().enumerate().filter(|(_, number)| number.0.bit(bit));
        let line: usize = named.map(|(power, _)| 1 << power).sum();
        if line != 0 || line_0 {
            flipped.insert(512 * line + usize::from(bit.index()));
        }
    }
    flipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageData, reference_model};

    fn syndrome(lines: &[usize]) -> Vec<u8> {
        let mut data = PageData::ZERO;
        data.flip(&lines.iter().map(|line| 512 * line + 77).collect());
        reference_model::hamming(&data)
    }

    #[test]
    fn one_flip_in_a_lane_is_found_two_are_not_and_three_look_like_one() {
        for line in 0..64 {
            assert_eq!(flipped(&syndrome(&[line]), true), [512 * line + 77].into_iter().collect());
        }
        assert!(flipped(&syndrome(&[3, 40]), true).is_empty());
        assert_eq!(flipped(&syndrome(&[1, 2, 4]), true), [512 * 7 + 77].into_iter().collect());
    }

    #[test]
    fn line_0_is_not_told_from_the_parity() {
        let mut parity = vec![0; 448];
        parity[64 * PARITY + 77 / 8] = 1 << (77 % 8);
        assert_eq!(syndrome(&[0]), parity);
        assert!(flipped(&parity, false).is_empty());
    }
}
