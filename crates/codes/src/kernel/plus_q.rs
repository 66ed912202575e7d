//! P and Q: the sum of a page's lines, and the sum of line i times 2^(63-i).
//!
//! **Problem.** By Horner's rule Q takes one doubling and one addition per line, each of which waits for the one
//! before: 64 times the latency of both. **Idea.** Apply Horner's rule over groups of four lines, and to each group by
//! itself. The groups' sums do not wait for one another. **Why this way.** One product with 2^4 per group costs less
//! than the three doublings that it removes from the chain.

use super::accumulator::{Check, GROUP_LINES};
use super::vector::Vector;
use crate::LINE_BYTES;

/// Lines that are summed by themselves.
const SUMMED: usize = 4;

pub(super) struct PlusQ<V, const N: usize> {
    p: [V; N],
    q: [V; N],
}

impl<V: Vector, const N: usize> Check for PlusQ<V, N> {
    #[inline(always)]
    unsafe fn begin() -> Self {
        // SAFETY: the instruction set is there.
        let zero = unsafe { V::zero() };
        Self { p: [zero; N], q: [zero; N] }
    }

    #[inline(always)]
    unsafe fn take(&mut self, lines: *const u8, _group: usize, _check: *mut u8) {
        for first in (0..GROUP_LINES).step_by(SUMMED) {
            for part in 0..N {
                // SAFETY: the instruction set is there, and part `part` of each of the eight lines may be read and is
                // aligned.
                unsafe {
                    let mut sum = V::load(lines.add(first * LINE_BYTES + part * size_of::<V>()));
                    let mut weighted = sum;
                    for line in first + 1..first + SUMMED {
                        let data = V::load(lines.add(line * LINE_BYTES + part * size_of::<V>()));
                        sum = sum.xor(data);
                        weighted = weighted.twice_plus(data);
                    }
                    self.p[part] = self.p[part].xor(sum);
                    self.q[part] = self.q[part].times_16().xor(weighted);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(self, check: *mut u8) {
        for part in 0..N {
            // SAFETY: the instruction set is there, and `check` has room for two lines.
            unsafe {
                self.p[part].store(check.add(part * size_of::<V>()));
                self.q[part].store(check.add(LINE_BYTES + part * size_of::<V>()));
            }
        }
    }
}
