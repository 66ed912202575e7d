//! One pass over a page, for all codes of a scheme.
//!
//! ```text
//! for each eight lines:
//!     prefetch the same lines of the next page
//!     add them to the CRC
//!     add them to the correcting code
//! ```
//!
//! **Problem.** Codes that are computed one after the other each wait at the end of their own chain of operations, and
//! use one part of the processor at a time. **Idea.** Each code is an accumulator that takes eight lines at a time; a
//! pass feeds the same lines to two of them, whose instructions then overlap. **Why this way.** Eight lines are what
//! the SECDED codes need at once to fill a line, they are a group of the Hamming codes, and they are few enough that
//! the second accumulator finds them in the first cache. An instruction set has to provide a handful of operations
//! ([`Vector`]) and one way of computing a CRC ([`Crc`]), not a function for each scheme.

use super::accumulator::{Check, Crc, GROUP_BYTES, GROUP_LINES, GROUPS};
use super::hamming::Hamming;
use super::plus_q::PlusQ;
use super::vector::{Secded, Vector};
use crate::{LINE_BYTES, Scheme};

/// One page to process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The codes to compute.
    pub scheme: Scheme,
    /// The page.
    pub page: *const u8,
    /// The next page.
    pub ahead: *const u8,
    /// The destination of the correcting code.
    pub check: *mut u8,
}

/// No correcting code.
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

/// Performs a job with lines of `N` vectors; returns the state of the CRC.
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

/// The SECDED codes, which carry no state from group to group.
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
