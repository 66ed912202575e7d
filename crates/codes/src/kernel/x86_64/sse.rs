//! Registers of 16 bytes, with SSSE3, which every processor with SSE4.2 has.

use std::arch::x86_64::{
    __m128i, _MM_HINT_T0, _mm_add_epi8, _mm_and_si128, _mm_cmpgt_epi8, _mm_load_si128, _mm_loadu_si128, _mm_prefetch,
    _mm_set1_epi8, _mm_setzero_si128, _mm_shuffle_epi8, _mm_srli_epi16, _mm_storeu_si128, _mm_sub_epi8,
    _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi16, _mm_unpacklo_epi32,
    _mm_unpacklo_epi64, _mm_xor_si128,
};

use crate::gf256::{POLYNOMIAL, TIMES_16};
use crate::kernel::transposed::{self, Lanes};
use crate::kernel::vector::{Secded, Vector};

/// Never faults, whatever the address.
#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: every x86-64 has SSE; a prefetch is a hint.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

/// In each lane, bytes of the two words alternate.
pub(super) const PAIRS: [u8; 16] = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15];

#[derive(Clone, Copy)]
pub(super) struct Xmm(__m128i);

/// # Safety
/// Every x86-64 has SSE2.
#[inline(always)]
unsafe fn table(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the bytes are as many as are read.
    unsafe { _mm_loadu_si128((&raw const *bytes).cast()) }
}

/// All ones where a byte's highest bit is set.
///
/// # Safety
/// Every x86-64 has SSE2.
#[inline(always)]
unsafe fn carries(bytes: __m128i) -> __m128i {
    // SAFETY: the instruction set is there.
    unsafe { _mm_cmpgt_epi8(_mm_setzero_si128(), bytes) }
}

impl Vector for Xmm {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: it is the same contract.
        Self(unsafe { _mm_load_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { _mm_storeu_si128(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn twice_plus(self, next: Self) -> Self {
        // SAFETY: the instruction set is there.
        unsafe {
            let carried = _mm_and_si128(carries(self.0), _mm_set1_epi8(POLYNOMIAL.cast_signed()));
            let doubled = _mm_xor_si128(_mm_add_epi8(self.0, self.0), carried);
            Self(_mm_xor_si128(doubled, next.0))
        }
    }

    #[inline(always)]
    unsafe fn times_16(self) -> Self {
        let [low, high] = &TIMES_16;
        // SAFETY: the instruction set is there.
        unsafe {
            let half = _mm_set1_epi8(15);
            let low = _mm_shuffle_epi8(table(low), _mm_and_si128(self.0, half));
            let upper = _mm_and_si128(_mm_srli_epi16::<4>(self.0), half);
            Self(_mm_xor_si128(low, _mm_shuffle_epi8(table(high), upper)))
        }
    }

    #[inline(always)]
    fn prefetch(line: *const u8) {
        prefetch(line);
    }
}

impl Secded for Xmm {
    #[inline(always)]
    unsafe fn secded(lines: *const u8, check: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { transposed::secded::<Self>(lines, check) };
    }
}

impl Lanes for Xmm {
    #[inline(always)]
    unsafe fn pair_words(self) -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm_shuffle_epi8(self.0, table(&PAIRS)) })
    }

    #[inline(always)]
    unsafe fn zip16(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm_unpacklo_epi16(self.0, other.0)), Self(_mm_unpackhi_epi16(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn zip32(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm_unpacklo_epi32(self.0, other.0)), Self(_mm_unpackhi_epi32(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn zip64(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm_unpacklo_epi64(self.0, other.0)), Self(_mm_unpackhi_epi64(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn turned(self) -> Self {
        // SAFETY: the instruction set is there. Less minus one where the highest bit is set: it comes in again below.
        Self(unsafe { _mm_sub_epi8(_mm_add_epi8(self.0, self.0), carries(self.0)) })
    }

    #[inline(always)]
    unsafe fn lanes_in_turn(self) -> Self {
        self
    }
}
