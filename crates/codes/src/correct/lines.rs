//! Corrects one wrong line, from P and Q (Anvin, "The mathematics of RAID-6", section 4).
//!
//! If line `i` alone is wrong, the syndrome of P is its change, and that of Q is the same change times 2^(63-i). So
//! every byte of the two must give the same `i`.

use super::syndrome::line_of;
use crate::gf256::{exponent_between, times_power};
use crate::{LINE_BYTES, PAGE_LINES, PageBits};

/// The change of the one line that explains both syndromes. Empty if no line does, or if one of the two is zero: then P
/// or Q was hit, and the other does not tell which line it is about.
pub(super) fn flipped(syndrome: &[u8]) -> PageBits {
    let (p, q) = syndrome.split_at(LINE_BYTES);
    let mut flipped = PageBits::NONE;
    if let Some(line) = wrong_line(p, q) {
        flipped.insert_line(line, &line_of(p, 0));
    }
    flipped
}

fn wrong_line(p: &[u8], q: &[u8]) -> Option<usize> {
    let first = p.iter().position(|&byte| byte != 0)?;
    let exponent = exponent_between(p[first], q[first])?;
    let line = (PAGE_LINES - 1).checked_sub(exponent)?;
    p.iter().zip(q).all(|(&p, &q)| times_power(p, exponent) == q).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageData, reference_model};

    /// The syndrome of changes.
    fn syndrome(changes: &[(usize, usize, u8)]) -> Vec<u8> {
        let mut data = PageData::ZERO;
        for &(line, byte, change) in changes {
            data.lines[line].0[byte / 8] ^= u64::from(change) << (8 * (byte % 8));
        }
        reference_model::p_and_q(&data)
    }

    #[test]
    fn a_byte_changed_in_two_lines_looks_like_one_in_a_third_once_in_four_times() {
        let mut third = 0;
        for (one, other) in [(0, 1), (0, 63), (17, 40)] {
            for change in 1..=u8::MAX {
                let flipped = flipped(&syndrome(&[(one, 9, 0x55), (other, 9, change)]));
                third += flipped.changed_lines().filter(|(line, _)| ![one, other].contains(line)).count();
            }
        }
        let ratio = third as f64 / (3.0 * 255.0);
        assert!((0.22..0.28).contains(&ratio), "{ratio}: as often as one of 255 exponents is a line's");
    }

    #[test]
    fn bytes_that_tell_of_different_lines_tell_of_none() {
        assert!(flipped(&syndrome(&[(1, 9, 1), (2, 10, 1)])).is_empty());
        assert_eq!(flipped(&syndrome(&[(1, 9, 1), (1, 10, 7)])).count(), 4);
    }

    /// The sum of the weights is a multiple of the field's polynomial: (x + 1)(x^8 + x^4 + x^3 + x^2 + 1) has six
    /// terms.
    #[test]
    fn a_bit_flipped_in_six_lines_can_be_nothing_to_p_and_q() {
        let syndrome = syndrome(&[9, 8, 5, 2, 1, 0].map(|exponent| (63 - exponent, 0, 1)));
        assert!(syndrome.iter().all(|&byte| byte == 0));
    }
}
