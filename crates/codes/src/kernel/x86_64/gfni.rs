//! Registers of 64 bytes with VBMI and GFNI. One instruction of GFNI multiplies each byte by any 8 by 8 matrix of bits.
//!
//! The instruction `gf2p8mulb` is of no use here: its field is that of AES, modulo 0x11b. But a product with a constant
//! is a matrix in any field, and so is a sum of rotated bytes.

use std::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_permutexvar_epi8, _mm512_set1_epi64,
    _mm512_shuffle_i64x2, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use super::avx512::Zmm;
use crate::LINE_BYTES;
use crate::gf256::times_power;
use crate::hsiao::COLUMNS;
use crate::kernel::vector::{Secded, Vector};

#[derive(Clone, Copy)]
pub(super) struct ZmmGalois(Zmm);

/// The matrix that maps bit i of a byte to `images[i]`. Byte `7 - j` of the matrix has the bits that are added to bit
/// `j` (Intel SDM, volume 2, GF2P8AFFINEQB).
const fn matrix(images: [u8; 8]) -> i64 {
    let (mut matrix, mut bit) = (0_u64, 0);
    while bit < 8 {
        let mut row = 0;
        while row < 8 {
            matrix |= ((images[bit] >> row & 1) as u64) << (8 * (7 - row) + bit);
            row += 1;
        }
        bit += 1;
    }
    matrix.cast_signed()
}

/// The matrix of the product with 2 to the power of `exponent`.
const fn product(exponent: usize) -> i64 {
    let (mut images, mut bit) = ([0; 8], 0);
    while bit < 8 {
        images[bit] = times_power(1 << bit, exponent);
        bit += 1;
    }
    matrix(images)
}

/// For each byte of a word, the matrix that maps it to its part of the check byte.
static PARTS: [i64; 8] = {
    let (mut parts, mut byte) = ([0; 8], 0);
    while byte < 8 {
        let (mut images, mut bit) = ([0; 8], 0);
        while bit < 8 {
            images[bit] = COLUMNS[8 * byte + bit];
            bit += 1;
        }
        parts[byte] = matrix(images);
        byte += 1;
    }
    parts
};

/// Byte `8 * i + word` comes from byte `i` of the word.
static BYTES_IN_TURN: [u8; LINE_BYTES] = {
    let mut bytes = [0; LINE_BYTES];
    let mut byte = 0_u8;
    while byte < 64 {
        bytes[byte as usize] = byte % 8 * 8 + byte / 8;
        byte += 1;
    }
    bytes
};

impl Vector for ZmmGalois {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: it is the same contract.
        Self(unsafe { Zmm::load(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { self.0.store(to) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: it is the same contract.
        Self(unsafe { Zmm::zero() })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: it is the same contract.
        Self(unsafe { self.0.xor(other.0) })
    }

    #[inline(always)]
    unsafe fn twice_plus(self, next: Self) -> Self {
        // SAFETY: the instruction set is there.
        unsafe {
            let by = _mm512_set1_epi64(const { product(1) });
            Self(Zmm(_mm512_xor_si512(_mm512_gf2p8affine_epi64_epi8::<0>(self.0.0, by), next.0.0)))
        }
    }

    #[inline(always)]
    unsafe fn times_16(self) -> Self {
        // SAFETY: the instruction set is there.
        unsafe {
            let by = _mm512_set1_epi64(const { product(4) });
            Self(Zmm(_mm512_gf2p8affine_epi64_epi8::<0>(self.0.0, by)))
        }
    }

    #[inline(always)]
    fn prefetch(line: *const u8) {
        Zmm::prefetch(line);
    }
}

impl Secded for ZmmGalois {
    /// Each line's 64 parts of check bytes. The lines are then added in pairs, each sum made of one half of both, until
    /// one line is left.
    #[inline(always)]
    unsafe fn secded(lines: *const u8, check: *mut u8) {
        // SAFETY: the instruction set is there, the lines may be read, and 64 bytes may be written.
        unsafe {
            let ab = add_halves(parts(lines, 0), parts(lines, 1));
            let cd = add_halves(parts(lines, 2), parts(lines, 3));
            let ef = add_halves(parts(lines, 4), parts(lines, 5));
            let gh = add_halves(parts(lines, 6), parts(lines, 7));
            let sum = add_lanes(add_lanes(ab, cd), add_lanes(ef, gh));
            Zmm(sum).store(check);
        }
    }
}

/// The parts of the check bytes of a line's eight words: bytes `8 * i` to `8 * i + 7` come from byte `i` of the words.
///
/// # Safety
/// The processor has AVX-512 VBMI and GFNI, and `lines` has this many more lines.
#[inline(always)]
unsafe fn parts(lines: *const u8, line: usize) -> __m512i {
    // SAFETY: the instruction set is there, the line may be read, and the constants are as long as a register.
    unsafe {
        let words = Zmm::load(lines.add(line * LINE_BYTES)).0;
        let order = _mm512_loadu_si512((&raw const BYTES_IN_TURN).cast());
        let matrices = _mm512_loadu_si512((&raw const PARTS).cast());
        _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_permutexvar_epi8(order, words), matrices)
    }
}

/// In each lane, the sum of `one`'s halves, then that of `other`'s.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
unsafe fn add_halves(one: __m512i, other: __m512i) -> __m512i {
    // SAFETY: the instruction set is there.
    unsafe { _mm512_xor_si512(_mm512_unpacklo_epi64(one, other), _mm512_unpackhi_epi64(one, other)) }
}

/// The sums of `one`'s lanes 0 and 1, and 2 and 3; then those of `other`'s.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
unsafe fn add_lanes(one: __m512i, other: __m512i) -> __m512i {
    // SAFETY: the instruction set is there.
    unsafe {
        let even = _mm512_shuffle_i64x2::<0b10_00_10_00>(one, other);
        _mm512_xor_si512(even, _mm512_shuffle_i64x2::<0b11_01_11_01>(one, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effect of the instruction on one byte, after Intel's SDM, volume 2.
    fn affine(matrix: i64, byte: u8) -> u8 {
        let rows = matrix.to_le_bytes();
        (0..8).fold(0, |image, bit| image | u8::from((rows[7 - bit] & byte).count_ones() % 2 == 1) << bit)
    }

    #[test]
    fn the_matrices_do_as_the_field_and_the_check_byte() {
        for byte in 0..=u8::MAX {
            for exponent in [1, 4] {
                assert_eq!(affine(product(exponent), byte), times_power(byte, exponent));
            }
            for (i, &part) in PARTS.iter().enumerate() {
                let columns = (0..8).filter(|bit| byte >> bit & 1 == 1).map(|bit| COLUMNS[8 * i + bit]);
                assert_eq!(affine(part, byte), columns.fold(0, |sum, column| sum ^ column), "byte {i}");
            }
        }
    }
}
