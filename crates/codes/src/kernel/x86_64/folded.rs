//! The CRC on processors with carry-less products of 512 bits: four lines at a time are folded into the next four
//! (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009).

use std::arch::x86_64::{
    __m512i, _mm_xor_si128, _mm512_broadcast_i32x4, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32,
    _mm512_load_si512, _mm512_set_epi64, _mm512_setzero_si512, _mm512_xor_si512,
};
use std::arch::x86_64::{_mm_set_epi64x, _mm512_castsi512_si128};

use super::streams::{state, state_of};
use crate::LINE_BYTES;
use crate::crc::fold_by;
use crate::kernel::accumulator::{Crc, GROUP_BYTES};

/// Lines that are folded at once.
const LINES: usize = 4;

pub(super) struct Folded([__m512i; LINES]);

impl Crc for Folded {
    #[inline(always)]
    fn begin() -> Self {
        // SAFETY: this kernel is used where AVX-512 is only.
        Self([unsafe { _mm512_setzero_si512() }; LINES])
    }

    #[inline(always)]
    unsafe fn take(&mut self, page: *const u8, group: usize) {
        for offset in (0..GROUP_BYTES).step_by(LINES * LINE_BYTES) {
            for (i, line) in self.0.iter_mut().enumerate() {
                // SAFETY: the instruction set is there, and the line is one of the group's eight.
                unsafe {
                    let next = page.add(group * GROUP_BYTES + offset + i * LINE_BYTES);
                    *line = fold::<{ 8 * LINES * LINE_BYTES }>(*line, _mm512_load_si512(next.cast()));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(self) -> u32 {
        // SAFETY: the instruction set is there.
        unsafe {
            let [mut line, ..] = self.0;
            for next in &self.0[1..] {
                line = fold::<{ 8 * LINE_BYTES }>(line, *next);
            }
            state(state_of(last_block(line)))
        }
    }
}

/// Each block of 16 bytes, moved ahead by `BITS` and added to `next`.
///
/// # Safety
/// The processor has AVX-512F and VPCLMULQDQ.
#[inline(always)]
unsafe fn fold<const BITS: usize>(line: __m512i, later: __m512i) -> __m512i {
    let [first, second] = const { fold_by(BITS as u64) };
    // SAFETY: the instruction set is there.
    unsafe {
        let by = _mm512_broadcast_i32x4(_mm_set_epi64x(second.cast_signed(), first.cast_signed()));
        _mm512_xor_si512(products(line, by), later)
    }
}

/// # Safety
/// The processor has AVX-512F and VPCLMULQDQ.
#[inline(always)]
unsafe fn products(line: __m512i, by: __m512i) -> __m512i {
    // SAFETY: the instruction set is there.
    unsafe { _mm512_xor_si512(_mm512_clmulepi64_epi128::<0x00>(line, by), _mm512_clmulepi64_epi128::<0x11>(line, by)) }
}

/// A line folded into its last block.
///
/// # Safety
/// The processor has AVX-512F and VPCLMULQDQ.
#[inline(always)]
unsafe fn last_block(line: __m512i) -> std::arch::x86_64::__m128i {
    const BY: [[u64; 2]; 3] = [fold_by(384), fold_by(256), fold_by(128)];
    let [[a, b], [c, d], [e, f]] = BY.map(|by| by.map(u64::cast_signed));
    // SAFETY: the instruction set is there.
    unsafe {
        let moved = products(line, _mm512_set_epi64(0, 0, f, e, d, c, b, a));
        let halves = _mm_xor_si128(_mm512_castsi512_si128(moved), _mm512_extracti32x4_epi32::<1>(moved));
        let three = _mm_xor_si128(halves, _mm512_extracti32x4_epi32::<2>(moved));
        _mm_xor_si128(three, _mm512_extracti32x4_epi32::<3>(line))
    }
}
