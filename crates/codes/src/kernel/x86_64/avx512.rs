//! Registers of 64 bytes, with AVX-512F and AVX-512BW.

use std::arch::x86_64::{
    __m128i, __m512i, _mm_loadu_si128, _mm512_add_epi8, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_load_si512,
    _mm512_loadu_si512, _mm512_mask_sub_epi8, _mm512_maskz_mov_epi8, _mm512_movepi8_mask, _mm512_permutexvar_epi16,
    _mm512_set1_epi8, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_storeu_si512,
    _mm512_unpackhi_epi16, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi16, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use super::sse::{PAIRS, prefetch};
use crate::gf256::{POLYNOMIAL, TIMES_16};
use crate::kernel::transposed::{self, Lanes};
use crate::kernel::vector::{Secded, Vector};

#[derive(Clone, Copy)]
pub(super) struct Zmm(pub(super) __m512i);

/// Part `4 * i + lane` of 16 bits comes from part `i` of the lane.
static LANES_IN_TURN: [u16; 32] = {
    let mut parts = [0; 32];
    let mut part = 0;
    while part < 32 {
        parts[part as usize] = part % 4 * 8 + part / 4;
        part += 1;
    }
    parts
};

/// The same 16 bytes in each lane.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
unsafe fn in_each_lane(bytes: &[u8; 16]) -> __m512i {
    // SAFETY: the instruction set is there, and the bytes are as many as are read.
    unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128((&raw const *bytes).cast::<__m128i>())) }
}

impl Vector for Zmm {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: it is the same contract.
        Self(unsafe { _mm512_load_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn twice_plus(self, next: Self) -> Self {
        // SAFETY: the instruction set is there.
        unsafe {
            let polynomial = _mm512_set1_epi8(POLYNOMIAL.cast_signed());
            let carried = _mm512_maskz_mov_epi8(_mm512_movepi8_mask(self.0), polynomial);
            let doubled = _mm512_xor_si512(_mm512_add_epi8(self.0, self.0), carried);
            Self(_mm512_xor_si512(doubled, next.0))
        }
    }

    #[inline(always)]
    unsafe fn times_16(self) -> Self {
        let [low, high] = &TIMES_16;
        // SAFETY: the instruction set is there.
        unsafe {
            let half = _mm512_set1_epi8(15);
            let low = _mm512_shuffle_epi8(in_each_lane(low), _mm512_and_si512(self.0, half));
            let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(self.0), half);
            Self(_mm512_xor_si512(low, _mm512_shuffle_epi8(in_each_lane(high), upper)))
        }
    }

    #[inline(always)]
    fn prefetch(line: *const u8) {
        prefetch(line);
    }
}

impl Secded for Zmm {
    #[inline(always)]
    unsafe fn secded(lines: *const u8, check: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { transposed::secded::<Self>(lines, check) };
    }
}

impl Lanes for Zmm {
    #[inline(always)]
    unsafe fn pair_words(self) -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { _mm512_shuffle_epi8(self.0, in_each_lane(&PAIRS)) })
    }

    #[inline(always)]
    unsafe fn zip16(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm512_unpacklo_epi16(self.0, other.0)), Self(_mm512_unpackhi_epi16(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn zip32(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm512_unpacklo_epi32(self.0, other.0)), Self(_mm512_unpackhi_epi32(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn zip64(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe { [Self(_mm512_unpacklo_epi64(self.0, other.0)), Self(_mm512_unpackhi_epi64(self.0, other.0))] }
    }

    #[inline(always)]
    unsafe fn turned(self) -> Self {
        // SAFETY: the instruction set is there.
        unsafe {
            let doubled = _mm512_add_epi8(self.0, self.0);
            // Minus minus one where the highest bit is set: that bit enters again below.
            let minus_one = _mm512_set1_epi8(-1);
            Self(_mm512_mask_sub_epi8(doubled, _mm512_movepi8_mask(self.0), doubled, minus_one))
        }
    }

    #[inline(always)]
    unsafe fn lanes_in_turn(self) -> Self {
        // SAFETY: the instruction set is there, and the constant is as long as a register.
        unsafe {
            let order = _mm512_loadu_si512((&raw const LANES_IN_TURN).cast());
            Self(_mm512_permutexvar_epi16(order, self.0))
        }
    }
}
