//! 64-byte lines: the unit of caches and DRAM bursts, and the word of our march tests.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{LINE_BYTES, LINES_PER_FRAME};

/// 64-bit words in a line.
pub const LINE_WORDS: usize = 8;

const _: () = assert!(size_of::<LineData>() as u64 == LINE_BYTES);

/// The content of a line. Bit `i` of the line is bit `i % 64` of word `i / 64`: on a little-endian machine, bit `i % 8`
/// of byte `i / 8`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(C, align(64))]
#[serde(transparent)]
pub struct LineData(pub [u64; LINE_WORDS]);

impl LineData {
    /// All bits 0.
    pub const ZERO: Self = Self([0; LINE_WORDS]);

    /// The bit's value.
    #[must_use]
    pub const fn bit(&self, bit: LineBit) -> bool {
        self.0[bit.word()] >> (bit.0 % 64) & 1 == 1
    }

    /// The same line with one bit set to `value`.
    #[must_use]
    pub const fn with_bit(mut self, bit: LineBit, value: bool) -> Self {
        let mask = 1 << (bit.0 % 64);
        if value {
            self.0[bit.word()] |= mask;
        } else {
            self.0[bit.word()] &= !mask;
        }
        self
    }

    /// The bits that differ.
    #[must_use]
    pub fn differs(&self, other: &Self) -> LineBits {
        LineBits(Self(std::array::from_fn(|i| self.0[i] ^ other.0[i])))
    }

    /// Every bit inverted.
    #[must_use]
    pub fn inverted(&self) -> Self {
        Self(self.0.map(|word| !word))
    }
}

impl fmt::Display for LineData {
    /// 128 hexadecimal digits, word 0 first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

/// A bit of a line, 0 to 511.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct LineBit(u16);

impl From<LineBit> for u16 {
    fn from(bit: LineBit) -> Self {
        bit.0
    }
}

/// a line has no bit {0}: its bits are 0 to 511
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct NoSuchBit(u16);

impl TryFrom<u16> for LineBit {
    type Error = NoSuchBit;

    fn try_from(index: u16) -> Result<Self, Self::Error> {
        Self::new(index).ok_or(NoSuchBit(index))
    }
}

impl LineBit {
    /// The number of bits in a line.
    pub const COUNT: u16 = 512;

    /// A bit by its index, or `None` from 512 on.
    #[must_use]
    pub const fn new(index: u16) -> Option<Self> {
        if index < Self::COUNT { Some(Self(index)) } else { None }
    }

    /// The bit's index in its line, 0 to 511.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0
    }

    /// The word that holds it, 0 to 7.
    #[must_use]
    pub const fn word(self) -> usize {
        (self.0 / 64) as usize
    }
}

/// A set of bits of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LineBits(pub LineData);

impl LineBits {
    /// The number of bits in the set.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == LineData::ZERO
    }

    /// The bits, ascending.
    pub fn iter(&self) -> impl Iterator<Item = LineBit> + '_ {
        (0..LineBit::COUNT).map(LineBit).filter(|&bit| self.0.bit(bit))
    }

    /// The bits in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(LineData(std::array::from_fn(|i| self.0.0[i] & other.0.0[i])))
    }

    /// The bits in this set that are not in the other.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(LineData(std::array::from_fn(|i| self.0.0[i] & !other.0.0[i])))
    }

    /// The bits in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(LineData(std::array::from_fn(|i| self.0.0[i] | other.0.0[i])))
    }
}

/// A line by its place in a region under test: 0 is the region's first 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RegionLine(pub u64);

impl RegionLine {
    /// The page of the region that holds it, from 0.
    #[must_use]
    pub const fn page(self) -> u64 {
        self.0 / LINES_PER_FRAME
    }

    /// Its place in that page, 0 to 63.
    #[must_use]
    pub const fn in_page(self) -> u8 {
        (self.0 % LINES_PER_FRAME) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_line_are_numbered_little_endian() {
        let bit = LineBit::new(64 * 3 + 5).unwrap();
        let data = LineData::ZERO.with_bit(bit, true);
        assert_eq!(data.0, [0, 0, 0, 1 << 5, 0, 0, 0, 0]);
        assert_eq!(data.differs(&LineData::ZERO).iter().collect::<Vec<_>>(), [bit]);
        assert!(data.inverted().differs(&data).count() == 512);
        assert!(LineBit::new(512).is_none());
    }
}
