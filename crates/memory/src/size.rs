//! Byte counts, their notation, and the sizes of frames and lines.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Bytes in a frame: 4 KiB, the base page of x86-64 and of aarch64 kernels built with 4 KiB granules.
pub const FRAME_BYTES: u64 = 4096;

/// Bytes in a virtual page, as a length in memory; as many as in a frame.
pub const PAGE_BYTES: usize = 4096;

const _: () = assert!(PAGE_BYTES as u64 == FRAME_BYTES);

/// Bytes in a line.
pub const LINE_BYTES: u64 = 64;

/// Lines in a frame.
pub const LINES_PER_FRAME: u64 = FRAME_BYTES / LINE_BYTES;

const _: () = assert!(LINES_PER_FRAME == 64, "a frame's lines fit one u64 mask");

/// A count of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(u64);

const UNITS: [(&str, u64); 7] = [
    ("EiB", 1 << 60),
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl Bytes {
    /// None.
    pub const ZERO: Self = Self(0);

    /// A count of bytes.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// A count of MiB. Panics above 2^44 MiB: only ever called with small constants.
    #[must_use]
    pub const fn from_mib(count: u64) -> Self {
        Self(count.checked_mul(1 << 20).expect("a small constant"))
    }

    /// The count.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole frames that fit.
    #[must_use]
    pub const fn frames(self) -> u64 {
        self.0 / FRAME_BYTES
    }

    /// The largest multiple of `granule` that is not above this. `granule` must not be zero.
    #[must_use]
    pub const fn round_down(self, granule: Self) -> Self {
        Self(self.0 - self.0 % granule.0)
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Bytes {
    /// In the largest binary unit that leaves at least 1, with one decimal where it is not whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS.into_iter().find(|(_, factor)| self.0 >= *factor).unwrap_or(("B", 1));
        if self.0.is_multiple_of(factor) {
            write!(f, "{} {unit}", self.0 / factor)
        } else {
            #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
            let value = self.0 as f64 / factor as f64;
            write!(f, "{value:.1} {unit}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_is_shown_in_the_largest_unit() {
        assert_eq!(Bytes(u64::MAX).to_string(), "16.0 EiB");
    }
}
