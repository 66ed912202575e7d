//! Registers of 32 bytes, with AVX2.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_cmpgt_epi8, _mm256_load_si256, _mm256_permute4x64_epi64, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256, _mm256_sub_epi8, _mm256_unpackhi_epi16,
    _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi16, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
    _mm256_xor_si256,
};

use super::sse::{PAIRS, prefetch};
use crate::gf256::{POLYNOMIAL, TIMES_16};
use crate::kernel::transposed::{self, Lanes};
use crate::kernel::vector::{Secded, Vector};

#[derive(Clone, Copy)]
pub(super) struct Ymm(__m256i);

/// In each lane, the 16-bit parts of its first and of its second half alternate.
const HALVES_IN_TURN: [u8; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];

/// The same 16 bytes in each lane.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn in_each_lane(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: the instruction set is there, and the bytes are as many as are read.
    unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128((&raw const *bytes).cast::<__m128i>())) }
}

/// All ones where a byte's highest bit is set.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn carries(bytes: __m256i) -> __m256i {
    // SAFETY: the instruction set is there.
    unsafe { _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes) }
}

impl Vector for Ymm {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: it is the same contract.
        Self(unsafe { _mm256_load_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn twice_plus(self, next: Self) -> Self {
        // SAFETY: the instruction set is there.
        unsafe {
            let carried = _mm256_and_si256(carries(self.0), _mm256_set1_epi8(POLYNOMIAL.cast_signed()));
            let doubled = _mm256_xor_si256(_mm256_add_epi8(self.0, self.0), carried);
            Self(_mm256_xor_si256(doubled, next.0))
        }
    }

    #[inline(always)]
    unsafe fn times_16(self) -> Self {
        let [low, high] = &TIMES_16;
        // SAFETY: the instruction set is there.
        unsafe {
            let half = _mm256_set1_epi8(15);
            let low = _mm256_shuffle_epi8(in_each_lane(low), _mm256_and_si256(self.0, half));
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(self.0), half);
            Self(_mm256_xor_si256(low, _mm256_shuffle_epi8(in_each_lane(high), upper)))
        }
    }

    #[inline(always)]
    fn prefetch(line: *const u8) {
        prefetch(line);
    }
}

impl Secded for Ymm {
    #[inline(always)]
    unsafe fn secded(lines: *const u8, check: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { transposed::secded::<Self>(lines, check) };
    }
}

impl Lanes for Ymm {
    #[inline(always)]
    unsafe fn pair_words(self) -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm256_shuffle_epi8(self.0, in_each_lane(&PAIRS)) })
    }

    #[inline(always)]
    unsafe fn zip16(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm256_unpacklo_epi16(self.0, other.0)), Self(_mm256_unpackhi_epi16(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn zip32(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm256_unpacklo_epi32(self.0, other.0)), Self(_mm256_unpackhi_epi32(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn zip64(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm256_unpacklo_epi64(self.0, other.0)), Self(_mm256_unpackhi_epi64(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn turned(self) -> Self {
        // SAFETY: the instruction set is there. Less minus one where the highest bit is set: it comes in again below.
        Self(unsafe { _mm256_sub_epi8(_mm256_add_epi8(self.0, self.0), carries(self.0)) })
    }

    #[inline(always)]
    unsafe fn lanes_in_turn(self) -> Self {
        // SAFETY: the instruction set is there.
        unsafe {
            // The lanes' first halves, then their second halves.
            let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(self.0);
            Self(_mm256_shuffle_epi8(halves, in_each_lane(&HALVES_IN_TURN)))
        }
    }
}
