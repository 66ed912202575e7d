//! One pass over a page, for all codes of a scheme.
//!
//! ```text
//! for each eight lines:
//!     prefetch the same lines of the page that comes next
//!     take them into the CRC
//!     take them into what corrects
//! ```
//!
//! **Problem.** Codes that are computed one after the other wait, each at the end of its own chain of operations, and
//! use one part of the processor at a time. **Idea.** Each code is an accumulator that takes eight lines at a time; a pass
//! feeds the same lines to two of them, whose instructions then overlap. **Why this way.** Eight lines are what the
//! SECDED codes need at once to fill a line, a group of the Hamming codes, and few enough that the second accumulator
//! finds them in the first cache; and an instruction set has to provide a handful of operations ([`Vector`]) and one
//! way of computing a CRC ([`Crc`]), not a function for each scheme.

use super::hamming::Hamming;
use super::plus_q::PlusQ;
use super::vector::{Secded, Vector};
use crate::{LINE_BYTES, PAGE_LINES, Scheme};

/// Lines that are taken at once.
pub(super) const GROUP_LINES: usize = 8;

/// Bytes that are taken at once.
pub(super) const GROUP_BYTES: usize = GROUP_LINES * LINE_BYTES;

/// How many times that makes a page.
pub(super) const GROUPS: usize = PAGE_LINES / GROUP_LINES;

/// What to do with a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Which codes to compute.
    pub scheme: Scheme,
    /// The page.
    pub page: *const u8,
    /// The page that comes next.
    pub ahead: *const u8,
    /// Where to write what corrects.
    pub check: *mut u8,
}

/// A CRC in the making, from a state of zero. It may take the page's bytes in any order.
pub(super) trait Crc {
    fn begin() -> Self;

    /// Takes one more eighth of the page.
    ///
    /// # Safety
    /// The processor has the instruction set; `page` is a page that may be read, and `group` is less than 8.
    unsafe fn take(&mut self, page: *const u8, group: usize);

    /// The state after the whole page.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn finish(self) -> u32;
}

/// What corrects, in the making.
pub(super) trait Check {
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn begin() -> Self;

    /// Takes eight lines more.
    ///
    /// # Safety
    /// 1. The processor has the instruction set.
    /// 2. `lines` are the page's lines from `8 * group` on, aligned to 64 bytes, and may be read.
    /// 3. `check` has room for the bytes of the scheme.
    unsafe fn take(&mut self, lines: *const u8, group: usize, check: *mut u8);

    /// Writes what is left to write.
    ///
    /// # Safety
    /// The processor has the instruction set, and `check` has room for the bytes of the scheme.
    unsafe fn finish(self, check: *mut u8);
}

/// Nothing corrects.
struct Nothing;

impl Check for Nothing {
    #[inline(always)]
    unsafe fn begin() -> Self {
        Self
    }

    #[inline(always)]
    unsafe fn take(&mut self, _lines: *const u8, _group: usize, _check: *mut u8) {}

    #[inline(always)]
    unsafe fn finish(self, _check: *mut u8) {}
}

/// Does a job with lines of `N` vectors; returns the state of the CRC.
///
/// # Safety
/// 1. The processor has the instruction sets of `C` and `V`.
/// 2. The job's page may be read and is aligned to 64 bytes.
/// 3. Its `check` has room for the bytes of its scheme.
#[inline(always)]
pub(super) unsafe fn perform<C: Crc, V: Vector + Secded, const N: usize>(job: &Job) -> u32 {
    const { assert!(N * size_of::<V>() == LINE_BYTES, "the vectors of a line are the line") };
    // SAFETY: it is the same contract.
    unsafe {
        match job.scheme {
            Scheme::Crc => pass::<C, V, Nothing>(job),
            Scheme::CrcPq => pass::<C, V, PlusQ<V, N>>(job),
            Scheme::CrcSecded => pass::<C, V, WordByWord<V>>(job),
            Scheme::CrcHamming => pass::<C, V, Hamming<V, N>>(job),
        }
    }
}

/// # Safety
/// As for [`perform`], and `K` is what corrects in the job's scheme.
#[inline(always)]
unsafe fn pass<C: Crc, V: Vector, K: Check>(job: &Job) -> u32 {
    // SAFETY: 1. by this function's contract the instruction sets are there; 2. the groups are those of the page; 3.
    // there is room for what corrects.
    unsafe {
        let (mut crc, mut check) = (C::begin(), K::begin());
        for group in 0..GROUPS {
            for line in 0..GROUP_LINES {
                V::prefetch(job.ahead.wrapping_add(group * GROUP_BYTES + line * LINE_BYTES));
            }
            crc.take(job.page, group);
            check.take(job.page.add(group * GROUP_BYTES), group, job.check);
        }
        check.finish(job.check);
        crc.finish()
    }
}

/// The SECDED codes, which need nothing of one group for the next.
struct WordByWord<V>(std::marker::PhantomData<V>);

impl<V: Secded> Check for WordByWord<V> {
    #[inline(always)]
    unsafe fn begin() -> Self {
        Self(std::marker::PhantomData)
    }

    #[inline(always)]
    unsafe fn take(&mut self, lines: *const u8, group: usize, check: *mut u8) {
        // SAFETY: the lines are eight that may be read; their words are 64 of the page's 512, so their bytes lie in
        // `check`.
        unsafe { V::secded(lines, check.add(group * GROUP_BYTES / 8)) };
    }

    #[inline(always)]
    unsafe fn finish(self, _check: *mut u8) {}
}
