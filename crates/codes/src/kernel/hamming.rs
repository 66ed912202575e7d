//! The vertical extended Hamming codes: for each bit of a line's index, the sum of the lines whose index has it, and
//! the sum of all.
//!
//! **Idea.** The low three bits of a line's index give its place in its group of eight, and the high three give the
//! group. So each group gives four sums, and the sums for the high bits are made at the end from the groups' sums.

use super::accumulator::{Check, GROUP_LINES, GROUPS};
use super::vector::Vector;
use crate::LINE_BYTES;

pub(super) struct Hamming<V, const N: usize> {
    /// For each of the low three bits.
    low: [[V; N]; 3],
    /// The sum of each group.
    groups: [[V; N]; GROUPS],
}

impl<V: Vector, const N: usize> Check for Hamming<V, N> {
    #[inline(always)]
    unsafe fn begin() -> Self {
        // SAFETY: the instruction set is there.
        let zero = [unsafe { V::zero() }; N];
        Self { low: [zero; 3], groups: [zero; GROUPS] }
    }

    #[inline(always)]
    unsafe fn take(&mut self, lines: *const u8, group: usize, _check: *mut u8) {
        for part in 0..N {
            // SAFETY: the instruction set is there, and part `part` of each of the eight lines may be read and is
            // aligned.
            unsafe {
                let mut line = [V::load(lines.add(part * size_of::<V>())); GROUP_LINES];
                for (i, line) in line.iter_mut().enumerate().skip(1) {
                    *line = V::load(lines.add(i * LINE_BYTES + part * size_of::<V>()));
                }
                let odd_high = line[5].xor(line[7]);
                let odd = line[1].xor(line[3]).xor(odd_high);
                let even_high = line[4].xor(line[6]);
                let middle = line[2].xor(line[3]).xor(line[6]).xor(line[7]);
                self.low[0][part] = self.low[0][part].xor(odd);
                self.low[1][part] = self.low[1][part].xor(middle);
                self.low[2][part] = self.low[2][part].xor(even_high).xor(odd_high);
                self.groups[group][part] = odd.xor(even_high).xor(line[0]).xor(line[2]);
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(self, check: *mut u8) {
        for part in 0..N {
            // SAFETY: the instruction set is there, and `check` has room for seven lines.
            unsafe {
                let [first, second, third] = self.low;
                let zero = V::zero();
                let mut sums = [first[part], second[part], third[part], zero, zero, zero, zero];
                for (number, group) in self.groups.iter().enumerate() {
                    // The groups that count for sums four to seven: for the last, all.
                    for (bit, sum) in sums[3..].iter_mut().enumerate() {
                        if (GROUPS + number) >> bit & 1 == 1 {
                            *sum = sum.xor(group[part]);
                        }
                    }
                }
                for (line, sum) in sums.into_iter().enumerate() {
                    sum.store(check.add(line * LINE_BYTES + part * size_of::<V>()));
                }
            }
        }
    }
}
