//! The CRC on processors with carry-less products of 128 bits.
//!
//! **Problem.** Per cycle, such a processor begins one `crc32` of eight bytes, or one carry-less product, of which 16
//! bytes take two: eight bytes per cycle either way. **Idea.** Different parts of the processor execute the two. So
//! half the page goes through products, folded into four blocks of 16 bytes, and half through `crc32`, in four streams,
//! since each instruction waits three cycles for its predecessor. The five states are then moved to the page's end and
//! added. **Why this way.** It processes 16 bytes per cycle, and the correcting code runs beside it.

use std::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_load_si128, _mm_set_epi64x,
    _mm_setzero_si128, _mm_unpackhi_epi64, _mm_xor_si128,
};

use crate::crc::{advance_by, fold_by};
use crate::kernel::accumulator::{Crc, GROUP_BYTES, GROUPS};
use crate::{LINE_BYTES, PAGE_BYTES};

const HALF: usize = PAGE_BYTES / 2;

/// Bytes of the folded half that are taken at once.
const FOLDED: usize = HALF / GROUPS;

/// Blocks of 16 bytes in a line.
const BLOCKS: usize = 4;

/// The number of streams; one line of each is taken at once, with [`FOLDED`] bytes of the other half.
const STREAMS: usize = 4;

/// Bytes of a stream.
const STREAM: usize = HALF / STREAMS;

const _: () = assert!(FOLDED + STREAMS * LINE_BYTES == GROUP_BYTES && STREAM == GROUPS * LINE_BYTES);

pub(super) struct Streams {
    /// The first half up to now, folded into its last line.
    folded: [__m128i; BLOCKS],
    /// The states of the second half's quarters.
    states: [u64; STREAMS],
}

impl Crc for Streams {
    #[inline(always)]
    fn begin() -> Self {
        // SAFETY: every x86-64 has SSE2.
        Self { folded: [unsafe { _mm_setzero_si128() }; BLOCKS], states: [0; STREAMS] }
    }

    #[inline(always)]
    unsafe fn take(&mut self, page: *const u8, group: usize) {
        // SAFETY: the instruction set is there; the lines taken are the group's part of the first half, and its line in
        // each of the second half's quarters.
        unsafe {
            for offset in (0..FOLDED).step_by(LINE_BYTES) {
                let line = page.add(group * FOLDED + offset).cast::<__m128i>();
                for (i, block) in self.folded.iter_mut().enumerate() {
                    *block = fold::<{ 8 * LINE_BYTES }>(*block, _mm_load_si128(line.add(i)));
                }
            }
            for offset in (0..LINE_BYTES).step_by(8) {
                for (i, state) in self.states.iter_mut().enumerate() {
                    let word = page.add(HALF + i * STREAM + group * LINE_BYTES + offset).cast::<u64>();
                    *state = _mm_crc32_u64(*state, word.read());
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(self) -> u32 {
        // SAFETY: the instruction set is there.
        unsafe {
            let [mut block, ..] = self.folded;
            for next in &self.folded[1..] {
                block = fold::<128>(block, *next);
            }
            let [one, two, three, last] = self.states;
            let half = _mm_xor_si128(advance::<HALF>(state_of(block)), advance::<{ 3 * STREAM }>(one));
            let end = _mm_xor_si128(half, _mm_xor_si128(advance::<{ 2 * STREAM }>(two), advance::<STREAM>(three)));
            state(_mm_crc32_u64(0, _mm_cvtsi128_si64(end).cast_unsigned()) ^ last)
        }
    }
}

/// The block moved ahead by `BITS`, added to `next`.
///
/// # Safety
/// The processor has PCLMULQDQ.
#[inline(always)]
unsafe fn fold<const BITS: usize>(block: __m128i, later: __m128i) -> __m128i {
    let [first, second] = const { fold_by(BITS as u64) };
    // SAFETY: the instruction set is there.
    unsafe {
        let by = _mm_set_epi64x(second.cast_signed(), first.cast_signed());
        let moved = _mm_xor_si128(_mm_clmulepi64_si128::<0x00>(block, by), _mm_clmulepi64_si128::<0x11>(block, by));
        _mm_xor_si128(moved, later)
    }
}

/// Eight bytes of message, in the lower half, that lead to the state that `state` becomes after `BYTES` zero bytes.
///
/// # Safety
/// The processor has PCLMULQDQ.
#[inline(always)]
unsafe fn advance<const BYTES: usize>(state: u64) -> __m128i {
    let by = const { advance_by(BYTES as u64) };
    // SAFETY: the instruction set is there.
    unsafe {
        let (state, by) = (_mm_cvtsi64_si128(state.cast_signed()), _mm_cvtsi64_si128(by.cast_signed()));
        _mm_clmulepi64_si128::<0x00>(state, by)
    }
}

/// The state after 16 bytes.
///
/// # Safety
/// The processor has SSE4.2.
#[inline(always)]
pub(super) unsafe fn state_of(block: __m128i) -> u64 {
    // SAFETY: the instruction set is there.
    unsafe {
        let first = _mm_crc32_u64(0, _mm_cvtsi128_si64(block).cast_unsigned());
        _mm_crc32_u64(first, _mm_cvtsi128_si64(_mm_unpackhi_epi64(block, block)).cast_unsigned())
    }
}

/// The instruction keeps its 32 bits of state in a 64-bit register.
#[inline(always)]
pub(super) fn state(register: u64) -> u32 {
    u32::try_from(register).expect("CRC32 clears the upper half")
}
