//! CRC32C as arithmetic: polynomials over GF(2) modulo Castagnoli's. All kernels take their constants from here.
//!
//! A polynomial of degree 31 at most is a `u32` whose bit 31 is the coefficient of x^0, as in the processors'
//! instructions. The CRC of a page is that of RFC 3720 (iSCSI), B.4: the state starts as all ones and is inverted at
//! the end. For pages of one size both are constants, so kernels start at zero and [`of_state`] adds the constants.

use crate::PAGE_BYTES;

/// x^32 + x^28 + x^27 + x^26 + … + 1 without x^32 (Castagnoli, Bräuer and Herrmann, "Optimization of Cyclic
/// Redundancy-Check Codes with 24 and 32 Parity Bits", 1993).
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x^0.
const ONE: u32 = 1 << 31;

const PAGE_BITS: u64 = 8 * PAGE_BYTES as u64;

/// The product with x.
const fn times_x(polynomial: u32) -> u32 {
    polynomial >> 1 ^ if polynomial & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// The product.
const fn times(mut one: u32, mut other: u32) -> u32 {
    let mut product = 0;
    while other != 0 {
        if other & ONE != 0 {
            product ^= one;
        }
        one = times_x(one);
        other <<= 1;
    }
    product
}

/// x to the power of `exponent`.
pub(crate) const fn x_to(mut exponent: u64) -> u32 {
    let (mut power, mut square) = (ONE, ONE >> 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = times(power, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    power
}

/// The CRC of a page from the final state of a kernel that started at zero.
pub(crate) const fn of_state(state: u32) -> u32 {
    const OF_ZEROS: u32 = !times(u32::MAX, x_to(PAGE_BITS));
    state ^ OF_ZEROS
}

/// The tables for eight bytes at once: `TABLES[i][byte]` is the state after the byte and `i` more zero bytes.
pub(crate) const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0_u32;
    while byte < 256 {
        let mut state = byte;
        let mut zeros = 0;
        while zeros < 8 {
            let mut bit = 0;
            while bit < 8 {
                state = times_x(state);
                bit += 1;
            }
            tables[zeros][byte as usize] = state;
            zeros += 1;
        }
        byte += 1;
    }
    tables
};

/// The factors of the carry-less products that move a 128-bit block ahead by `bits`: one for its first and one for its
/// second 64 bits. The product of 64 bits with such a factor is 128 bits congruent to them times x to the power of 64 +
/// `bits`, and of `bits` (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction",
/// 2009).
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) const fn fold_by(bits: u64) -> [u64; 2] {
    [(x_to(bits + 32) as u64) << 1, (x_to(bits - 32) as u64) << 1]
}

/// The factor of a state's carry-less product: the product, taken as eight more bytes of message, gives the state
/// `bytes` zero bytes later.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", test))]
pub(crate) const fn advance_by(bytes: u64) -> u64 {
    x_to(8 * bytes - 33) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference_model;

    #[test]
    fn powers_of_x_are_repeated_products_with_x() {
        let mut power = ONE;
        for exponent in 0..200 {
            assert_eq!(x_to(exponent), power, "x^{exponent}");
            power = times_x(power);
        }
    }

    #[test]
    fn the_twin_computes_the_published_check_value() {
        // RFC 3720, B.4, and the catalogue of CRC algorithms (CRC-32/ISCSI).
        assert_eq!(reference_model::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(reference_model::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(reference_model::crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn a_state_of_zero_is_that_of_a_page_of_zeros() {
        assert_eq!(of_state(0), reference_model::crc32c(&[0; 4096]));
    }

    #[test]
    fn a_table_is_the_byte_and_zeros_after_it() {
        for (zeros, table) in TABLES.iter().enumerate() {
            for (byte, &state) in (0..=u8::MAX).zip(table) {
                let message: Vec<u8> = [byte].into_iter().chain(vec![0; zeros]).collect();
                assert_eq!(state, reference_model::crc32c_state(0, &message), "{byte} and {zeros} zeros");
            }
        }
    }

    /// Reflected: bit 0 of each is its highest power.
    fn carry_less(one: u64, other: u64) -> u128 {
        (0..64).filter(|bit| other >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(one) << bit)
    }

    #[test]
    fn a_block_folded_ahead_leaves_the_state_that_zeros_after_it_leave() {
        let block = [0x0123_4567_89ab_cdef_u64, 0xfedc_ba98_7654_3210];
        for bytes in [16, 64, 256] {
            let [first, second] = fold_by(8 * bytes);
            let folded = carry_less(block[0], first) ^ carry_less(block[1], second);
            let mut message = block.map(u64::to_le_bytes).concat();
            message.resize(16 + usize::try_from(bytes).unwrap(), 0);
            let expected = reference_model::crc32c_state(0, &message);
            assert_eq!(reference_model::crc32c_state(0, &folded.to_le_bytes()), expected, "{bytes} bytes");
        }
    }

    #[test]
    fn a_state_advanced_is_that_after_zeros() {
        for bytes in [8, 512, 3072] {
            let message = carry_less(0x1234_5678, advance_by(bytes));
            let message = u64::try_from(message).expect("31 and 31 bits");
            let zeros = vec![0; usize::try_from(bytes).unwrap()];
            let expected = reference_model::crc32c_state(0x1234_5678, &zeros);
            assert_eq!(reference_model::crc32c_state(0, &message.to_le_bytes()), expected, "{bytes} bytes");
        }
    }
}
