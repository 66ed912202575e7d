//! Byte counts, their notation, and the sizes of frames and lines.

use std::fmt;
use std::str::FromStr;

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

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ParseSizeError {
    /// {0:?} is not a size: write a number and a unit, such as 64MiB or 4GiB
    Malformed(String),
    /// {0:?} is more than 2^64 bytes
    TooLarge(String),
}

impl FromStr for Bytes {
    type Err = ParseSizeError;

    /// `4096`, `64MiB`, `64 MiB`, `1.5GiB`, `4G`, `4g`: units are powers of 1024, as everywhere in memory.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ParseSizeError::Malformed(text.to_owned());
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let factor = unit_factor(unit.trim()).ok_or_else(malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 || fraction.contains('.') {
            return Err(malformed());
        }
        let too_large = || ParseSizeError::TooLarge(text.to_owned());
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let scale = 10_u128.pow(u32::try_from(fraction.len()).expect("at most 9"));
        let fraction: u128 = fraction.parse().map_err(|_| malformed())?;
        let bytes = u128::from(whole) * u128::from(factor) + fraction * u128::from(factor) / scale;
        u64::try_from(bytes).map(Self).map_err(|_| too_large())
    }
}

fn unit_factor(unit: &str) -> Option<u64> {
    let lower = unit.to_ascii_lowercase();
    let letter = match lower.as_str() {
        "" | "b" => return Some(1),
        _ => lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower),
    };
    let power = ["k", "m", "g", "t", "p", "e"].iter().position(|&known| known == letter)?;
    Some(1 << (10 * (power + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64 mb", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("4g", 4 << 30),
            ("0", 0),
            ("2TiB", 2 << 40),
            ("3p", 3 << 50),
            ("1EiB", 1 << 60),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for bad in ["", "MiB", "-1", "1e9", "4 GiB GiB", "1.2.3K", ".5G", "5.G", "4Gi4", "x", "4ib"] {
            assert!(matches!(bad.parse::<Bytes>(), Err(ParseSizeError::Malformed(_))), "{bad:?}");
        }
        for bad in ["99999999999999999999", "17179869184GiB", "16EiB"] {
            assert!(matches!(bad.parse::<Bytes>(), Err(ParseSizeError::TooLarge(_))), "{bad:?}");
        }
    }

    #[test]
    fn the_largest_size_is_shown_in_the_largest_unit() {
        assert_eq!(Bytes(u64::MAX).to_string(), "16.0 EiB");
    }

    proptest! {
        #[test]
        fn whole_sizes_come_back_as_they_were_shown(count in 0_u64..1024, power in 0_u32..6) {
            let size = Bytes(count << (10 * power));
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }
}
