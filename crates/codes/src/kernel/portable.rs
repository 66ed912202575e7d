//! The engine for every processor: eight bytes in a 64-bit register, and tables for the CRC.

use super::accumulator::{Crc, GROUP_BYTES};
use super::vector::{Secded, Vector};
use crate::crc::TABLES;
use crate::gf256::POLYNOMIAL;
use crate::hsiao::turned_by;

/// The lowest bit of each byte.
const LOWEST: u64 = u64::MAX / 255;

/// Eight bytes, the first in the lowest position.
#[derive(Clone, Copy)]
pub(super) struct Word(u64);

impl Word {
    /// Each byte times 2 in the field of [`crate::gf256`].
    #[inline(always)]
    fn doubled(self) -> u64 {
        let carries = self.0 >> 7 & LOWEST;
        (self.0 ^ carries << 7) << 1 ^ carries.wrapping_mul(POLYNOMIAL.into())
    }
}

impl Vector for Word {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: it is the same contract.
        Self(u64::from_le(unsafe { from.cast::<u64>().read() }))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: it is the same contract.
        unsafe { to.cast::<u64>().write_unaligned(self.0.to_le()) };
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(0)
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    #[inline(always)]
    unsafe fn twice_plus(self, next: Self) -> Self {
        Self(self.doubled() ^ next.0)
    }

    #[inline(always)]
    unsafe fn times_16(self) -> Self {
        (0..4).fold(self, |product, _| Self(product.doubled()))
    }

    #[inline(always)]
    fn prefetch(_line: *const u8) {}
}

impl Secded for Word {
    #[inline(always)]
    unsafe fn secded(lines: *const u8, check: *mut u8) {
        for word in 0..GROUP_BYTES / 8 {
            // SAFETY: the word is one of 64, and its check byte one of 64.
            unsafe { check.add(word).write(check_byte(Self::load(lines.add(8 * word)).0)) };
        }
    }
}

/// It does not matter where shifted bits leave their byte for the next one: all bytes are added in the end.
#[inline(always)]
fn check_byte(word: u64) -> u8 {
    const MASKS: [(u32, u64); 5] =
        [(0, turned_by(0)), (1, turned_by(1)), (2, turned_by(2)), (3, turned_by(3)), (5, turned_by(5))];
    let turned = MASKS.iter().fold(0, |sum, (turn, mask)| sum ^ (word & mask).rotate_left(*turn));
    turned.to_le_bytes().into_iter().fold(0, |sum, byte| sum ^ byte)
}

/// A CRC by tables, eight bytes at a time (Kounavis and Berry, "A Systematic Approach to Building High Performance
/// Software-based CRC Generators", 2005).
pub(super) struct ByTables(u32);

impl Crc for ByTables {
    #[inline(always)]
    fn begin() -> Self {
        Self(0)
    }

    #[inline(always)]
    unsafe fn take(&mut self, page: *const u8, group: usize) {
        for offset in (0..GROUP_BYTES).step_by(8) {
            // SAFETY: the eight bytes lie in the page, which may be read.
            let word = unsafe { Word::load(page.add(group * GROUP_BYTES + offset)) }.0 ^ u64::from(self.0);
            let bytes = word.to_le_bytes().into_iter().zip(TABLES.iter().rev());
            self.0 = bytes.fold(0, |state, (byte, table)| state ^ table[usize::from(byte)]);
        }
    }

    #[inline(always)]
    unsafe fn finish(self) -> u32 {
        self.0
    }
}
