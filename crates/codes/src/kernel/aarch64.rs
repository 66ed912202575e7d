//! aarch64: NEON, which every such processor has, with the CRC and the polynomial product extensions.

use std::arch::aarch64::{
    __crc32cd, uint8x16_t, vaddq_u8, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vmull_p64, vqtbl1q_u8,
    vreinterpretq_s8_u8, vreinterpretq_u8_s8, vreinterpretq_u8_u16, vreinterpretq_u8_u32, vreinterpretq_u8_u64,
    vreinterpretq_u16_u8, vreinterpretq_u32_u8, vreinterpretq_u64_u8, vshrq_n_s8, vshrq_n_u8, vsriq_n_u8, vst1q_u8,
    vzip1q_u16, vzip1q_u32, vzip1q_u64, vzip2q_u16, vzip2q_u32, vzip2q_u64,
};
use std::arch::asm;
use std::arch::is_aarch64_feature_detected;

use super::accumulator::{Crc, GROUPS};
use super::pass::{Job, perform};
use super::portable::{ByTables, Word};
use super::transposed::{self, Lanes};
use super::vector::{Secded, Vector};
use crate::PAGE_BYTES;
use crate::crc::advance_by;
use crate::gf256::{POLYNOMIAL, TIMES_16};

/// An instruction set that this processor has, since only [`Isa::available`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Isa {
    Neon,
    Portable,
}

impl Isa {
    /// The fastest first.
    pub(super) fn available() -> Vec<Self> {
        let neon = is_aarch64_feature_detected!("crc") && is_aarch64_feature_detected!("pmull");
        [neon.then_some(Self::Neon), Some(Self::Portable)].into_iter().flatten().collect()
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Neon => "NEON",
            Self::Portable => "portable",
        }
    }

    /// Performs a job; returns the state of the CRC.
    ///
    /// # Safety
    /// 1. The job's page may be read and is aligned to 64 bytes.
    /// 2. Its `check` has room for the bytes of its scheme.
    pub(super) unsafe fn perform(self, job: &Job) -> u32 {
        // SAFETY: `self` exists, so the processor has the instruction set; the rest is this function's own contract.
        unsafe {
            match self {
                Self::Neon => perform_neon(job),
                Self::Portable => perform::<ByTables, Word, 8>(job),
            }
        }
    }
}

/// # Safety
/// As for [`perform`].
#[target_feature(enable = "neon,crc,aes")]
unsafe fn perform_neon(job: &Job) -> u32 {
    // SAFETY: it is the same contract.
    unsafe { perform::<Streams, Neon, 4>(job) }
}

/// The number of streams of the CRC, since each `crc32cx` waits for its predecessor.
const STREAMS: usize = 4;

/// The bytes of a stream.
const STREAM: usize = PAGE_BYTES / STREAMS;
const TAKEN: usize = STREAM / GROUPS;

/// The states of the page's quarters, which are later moved to its end and added.
struct Streams([u32; STREAMS]);

impl Crc for Streams {
    #[inline(always)]
    fn begin() -> Self {
        Self([0; STREAMS])
    }

    #[inline(always)]
    unsafe fn take(&mut self, page: *const u8, group: usize) {
        for offset in (0..TAKEN).step_by(8) {
            for (i, state) in self.0.iter_mut().enumerate() {
                // SAFETY: the instruction set is there, and the word lies in the group's part of quarter `i`.
                unsafe {
                    let word = page.add(i * STREAM + group * TAKEN + offset).cast::<u64>();
                    *state = state_after(*state, word.read());
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(self) -> u32 {
        let by = const { [advance_by(3 * STREAM as u64), advance_by(2 * STREAM as u64), advance_by(STREAM as u64)] };
        let mut end = 0;
        for (state, by) in self.0.into_iter().zip(by) {
            // SAFETY: the instruction set is there.
            end ^= unsafe { carry_less_product(state.into(), by) };
        }
        let end = u64::try_from(end).expect("31 and 31 bits");
        // SAFETY: the instruction set is there.
        unsafe { state_after(0, end) ^ self.0[STREAMS - 1] }
    }
}

// The intrinsics of these two extensions are inlined only if the calling function itself has the extension.

#[inline]
#[target_feature(enable = "crc")]
fn state_after(state: u32, word: u64) -> u32 {
    __crc32cd(state, word)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn carry_less_product(one: u64, other: u64) -> u128 {
    vmull_p64(one, other)
}

#[derive(Clone, Copy)]
struct Neon(uint8x16_t);

/// In each lane, bytes of the two words alternate.
const PAIRS: [u8; 16] = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15];

/// # Safety
/// Every aarch64 has NEON.
#[inline(always)]
unsafe fn table(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the bytes are as many as are read.
    unsafe { vld1q_u8((&raw const *bytes).cast()) }
}

impl Vector for Neon {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: it is the same contract.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { vst1q_u8(to, self.0) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn twice_plus(self, next: Self) -> Self {
        // SAFETY: the instruction set is there.
        unsafe {
            // An arithmetic shift fills a byte with its highest bit.
            let carries = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(self.0)));
            let doubled = veorq_u8(vaddq_u8(self.0, self.0), vandq_u8(carries, vdupq_n_u8(POLYNOMIAL)));
            Self(veorq_u8(doubled, next.0))
        }
    }

    #[inline(always)]
    unsafe fn times_16(self) -> Self {
        let [low, high] = &TIMES_16;
        // SAFETY: the instruction set is there.
        unsafe {
            let low = vqtbl1q_u8(table(low), vandq_u8(self.0, vdupq_n_u8(15)));
            Self(veorq_u8(low, vqtbl1q_u8(table(high), vshrq_n_u8::<4>(self.0))))
        }
    }

    #[inline(always)]
    fn prefetch(line: *const u8) {
        // SAFETY: a prefetch is a hint: it never faults and changes nothing.
        unsafe { asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) };
    }
}

impl Secded for Neon {
    #[inline(always)]
    unsafe fn secded(lines: *const u8, check: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { transposed::secded::<Self>(lines, check) };
    }
}

impl Lanes for Neon {
    #[inline(always)]
    unsafe fn pair_words(self) -> Self {
        // SAFETY: the instruction set is there.
        Self(unsafe { vqtbl1q_u8(self.0, table(&PAIRS)) })
    }

    #[inline(always)]
    unsafe fn zip16(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe {
            let (one, other) = (vreinterpretq_u16_u8(self.0), vreinterpretq_u16_u8(other.0));
            [Self(vreinterpretq_u8_u16(vzip1q_u16(one, other))), Self(vreinterpretq_u8_u16(vzip2q_u16(one, other)))]
        }
    }

    #[inline(always)]
    unsafe fn zip32(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe {
            let (one, other) = (vreinterpretq_u32_u8(self.0), vreinterpretq_u32_u8(other.0));
            [Self(vreinterpretq_u8_u32(vzip1q_u32(one, other))), Self(vreinterpretq_u8_u32(vzip2q_u32(one, other)))]
        }
    }

    #[inline(always)]
    unsafe fn zip64(self, other: Self) -> [Self; 2] {
        // SAFETY: the instruction set is there.
        unsafe {
            let (one, other) = (vreinterpretq_u64_u8(self.0), vreinterpretq_u64_u8(other.0));
            [Self(vreinterpretq_u8_u64(vzip1q_u64(one, other))), Self(vreinterpretq_u8_u64(vzip2q_u64(one, other)))]
        }
    }

    #[inline(always)]
    unsafe fn turned(self) -> Self {
        // SAFETY: the instruction set is there. The highest bit is shifted in below the doubled byte.
        Self(unsafe { vsriq_n_u8::<7>(vaddq_u8(self.0, self.0), self.0) })
    }

    #[inline(always)]
    unsafe fn lanes_in_turn(self) -> Self {
        self
    }
}
