//! The terms of the fault model: a cell, a change, some lines, some bits of a word, a probability.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{LINE_WORDS, LineBit, LineBits, LineData, RegionLine};

/// One bit of one line of the region under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FaultCell {
    /// The line that holds it.
    pub line: RegionLine,
    /// The bit of that line.
    pub bit: LineBit,
}

impl FaultCell {
    /// The cell as a set of bits of its line.
    #[must_use]
    pub const fn bits(self) -> LineBits {
        LineBits(LineData::ZERO.with_bit(self.bit, true))
    }
}

/// The direction of a cell's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransitionDirection {
    /// From 0 to 1.
    Up,
    /// From 1 to 0.
    Down,
}

impl TransitionDirection {
    /// The direction of a change, or `None` if nothing changes.
    #[must_use]
    pub const fn of(from: bool, to: bool) -> Option<Self> {
        match (from, to) {
            (false, true) => Some(Self::Up),
            (true, false) => Some(Self::Down),
            _ => None,
        }
    }

    /// The value before the change.
    #[must_use]
    pub const fn from(self) -> bool {
        matches!(self, Self::Down)
    }
}

/// Lines `first ..= last`; none if `last` is below `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LineSpan {
    /// The first line.
    pub first: RegionLine,
    /// The last line, inclusive.
    pub last: RegionLine,
}

impl LineSpan {
    /// The lines, ascending.
    pub fn iter(self) -> impl Iterator<Item = RegionLine> {
        (self.first.0..=self.last.0).map(RegionLine)
    }
}

/// Some bits of one 64-bit word of a line, each with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedWordPattern")]
pub struct WordPattern {
    word: u8,
    mask: u64,
    values: u64,
}

/// A word pattern as it was read, before its word is checked.
#[derive(Deserialize)]
struct UncheckedWordPattern {
    word: u8,
    mask: u64,
    values: u64,
}

/// word {0} is not one of a line's 8: give 0 to 7
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct NotAWord(u8);

impl TryFrom<UncheckedWordPattern> for WordPattern {
    type Error = NotAWord;

    fn try_from(raw: UncheckedWordPattern) -> Result<Self, Self::Error> {
        Self::new(raw.word, raw.mask, raw.values).ok_or(NotAWord(raw.word))
    }
}

impl WordPattern {
    /// The bits in `mask` of word `word` (0 to 7) with their values; `None` if there is no such word.
    #[must_use]
    pub const fn new(word: u8, mask: u64, values: u64) -> Option<Self> {
        if (word as usize) < LINE_WORDS { Some(Self { word, mask, values: values & mask }) } else { None }
    }

    /// The bits.
    #[must_use]
    pub fn bits(&self) -> LineBits {
        let mut bits = LineData::ZERO;
        bits.0[usize::from(self.word)] = self.mask;
        LineBits(bits)
    }

    /// Whether all the bits of `data` have these values.
    #[must_use]
    pub fn is_shown_by(&self, data: &LineData) -> bool {
        data.0[usize::from(self.word)] & self.mask == self.values
    }

    /// `data` with these bits at these values.
    #[must_use]
    pub fn imposed_on(&self, mut data: LineData) -> LineData {
        let word = &mut data.0[usize::from(self.word)];
        *word = *word & !self.mask | self.values;
        data
    }
}

impl fmt::Display for WordPattern {
    /// Each bit with its value: `bit 3 = 1, bit 7 = 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ones = self.imposed_on(LineData::ZERO);
        for (place, bit) in self.bits().iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(f, "{separator}bit {} = {}", bit.index(), u8::from(ones.bit(bit)))?;
        }
        Ok(())
    }
}

/// A probability: 0 (never) to 1 (always).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Probability(f64);

/// {0} is not a probability: give a number from 0 to 1
#[derive(Clone, Copy, Debug, PartialEq, displaydoc::Display, thiserror::Error)]
pub struct NotAProbability(f64);

impl Probability {
    /// The number, 0 to 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Probability {
    type Error = NotAProbability;

    fn try_from(value: f64) -> Result<Self, Self::Error> {
        // `+ 0.0` makes a negative zero positive, so that its sign is not displayed.
        if (0.0..=1.0).contains(&value) { Ok(Self(value + 0.0)) } else { Err(NotAProbability(value)) }
    }
}

impl From<Probability> for f64 {
    fn from(probability: Probability) -> Self {
        probability.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_pattern_is_imposed_on_its_bits_alone_and_then_shown() {
        let pattern = WordPattern::new(2, 0b1110, 0b0101).unwrap();
        let imposed = pattern.imposed_on(LineData([u64::MAX; LINE_WORDS]));
        assert_eq!(imposed.0, [u64::MAX, u64::MAX, !0b1010, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX]);
        assert!(pattern.is_shown_by(&imposed));
        assert!(!pattern.is_shown_by(&LineData::ZERO));
        assert_eq!(pattern.bits().iter().map(LineBit::index).collect::<Vec<_>>(), [129, 130, 131]);
    }

    #[test]
    fn a_line_has_eight_words_and_a_probability_ends_at_one() {
        assert!(WordPattern::new(7, 1, 1).is_some() && WordPattern::new(8, 1, 1).is_none());
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Probability::try_from(bad).is_err(), "{bad}");
        }
        assert_eq!(Probability::try_from(-0.0).unwrap().get().to_string(), "0");
    }
}
