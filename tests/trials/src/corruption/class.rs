//! The classes of corruption.

use super::content::{PAGE_BYTES, Page, below, mix};

const LINE_BYTES: usize = 64;
const WORD_BYTES: usize = 8;

/// One change of a page or of its codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// One bit.
    Bit,
    /// Two bits of one word.
    TwoBitsOfAWord,
    /// Two bits in different lines.
    TwoBitsInTwoLines,
    /// Some or all of four bits.
    Nibble,
    /// A byte.
    Byte,
    /// A word of 64 bits.
    Word,
    /// 64 consecutive bits that begin inside a word.
    Burst,
    /// A line of random content.
    Line,
    /// A line of zeros.
    ZeroLine,
    /// A line from elsewhere in the page.
    OtherLine,
    /// Two lines that swap places.
    SwappedLines,
    /// Half of the page, with random content.
    HalfPage,
    /// The content of another locked page, as by an address fault.
    OtherPage,
    /// The page's older content, as by a lost write, or zeros.
    OlderPage,
    /// One stored copy of the CRC: the codes are wrong, and the page is good.
    Crc,
    /// The stored P: the codes are wrong, and the page is good.
    P,
    /// Both stored copies of the CRC: nothing shows that the page is good.
    BothCrcs,
}

/// Replacements for a page.
#[derive(Debug)]
pub struct Donors<'a> {
    /// The content of another page.
    pub other: &'a Page,
    /// The page's older content.
    pub older: &'a Page,
}

impl Class {
    /// The classes for pages.
    pub const OF_PAGES: [Self; 14] = [
        Self::Bit,
        Self::TwoBitsOfAWord,
        Self::TwoBitsInTwoLines,
        Self::Nibble,
        Self::Byte,
        Self::Word,
        Self::Burst,
        Self::Line,
        Self::ZeroLine,
        Self::OtherLine,
        Self::SwappedLines,
        Self::HalfPage,
        Self::OtherPage,
        Self::OlderPage,
    ];

    /// The classes for stored codes.
    pub const OF_CODES: [Self; 3] = [Self::Crc, Self::P, Self::BothCrcs];

    /// The class in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bit => "1 bit",
            Self::TwoBitsOfAWord => "2 bits of a word",
            Self::TwoBitsInTwoLines => "2 bits in two lines",
            Self::Nibble => "a nibble",
            Self::Byte => "a byte",
            Self::Word => "a word",
            Self::Burst => "64 bits across words",
            Self::Line => "a line, random",
            Self::ZeroLine => "a line of zeros",
            Self::OtherLine => "a line from elsewhere in the page",
            Self::SwappedLines => "two lines swapped",
            Self::HalfPage => "half a page, random",
            Self::OtherPage => "the content of another page",
            Self::OlderPage => "the page's older content, or zeros",
            Self::Crc => "codes: one copy of the CRC",
            Self::P => "codes: P",
            Self::BothCrcs => "codes: both copies of the CRC",
        }
    }

    /// The class of pages with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::OF_PAGES.into_iter().find(|class| class.name() == name)
    }

    /// Whether the class changes the stored codes and not the page.
    #[must_use]
    pub fn is_of_codes(self) -> bool {
        Self::OF_CODES.contains(&self)
    }

    /// The page after the corruption; it always differs. The same dice give the same corruption.
    #[must_use]
    pub fn corrupted(self, page: &Page, donors: &Donors<'_>, dice: u64) -> Page {
        let mut dice = Dice(dice);
        let mut corrupt = *page;
        match self {
            Self::Bit => flip(&mut corrupt, dice.below(8 * PAGE_BYTES)),
            Self::TwoBitsOfAWord => {
                let (word, bit) = (64 * dice.below(PAGE_BYTES / WORD_BYTES), dice.below(64));
                flip(&mut corrupt, word + bit);
                flip(&mut corrupt, word + (bit + 1 + dice.below(63)) % 64);
            }
            Self::TwoBitsInTwoLines => {
                let (one, other) = dice.two_lines();
                for line in [one, other] {
                    flip(&mut corrupt, 8 * line + dice.below(8 * LINE_BYTES));
                }
            }
            Self::Nibble => corrupt[dice.below(PAGE_BYTES)] ^= (1 + dice.byte() % 15) << (4 * (dice.byte() % 2)),
            Self::Byte => corrupt[dice.below(PAGE_BYTES)] ^= 1 + dice.byte() % 255,
            Self::Word => {
                let word = WORD_BYTES * dice.below(PAGE_BYTES / WORD_BYTES);
                dice.randomize(&mut corrupt[word..word + WORD_BYTES]);
            }
            Self::Burst => {
                let first = 64 * dice.below(PAGE_BYTES / WORD_BYTES - 1) + 1 + dice.below(63);
                let burst = dice.next() | 1 | 1 << 63;
                (0..64).filter(|bit| burst >> bit & 1 == 1).for_each(|bit| flip(&mut corrupt, first + bit));
            }
            Self::Line | Self::ZeroLine | Self::OtherLine | Self::SwappedLines => {
                self.corrupt_lines(&mut corrupt, &mut dice);
            }
            Self::HalfPage => {
                let half = PAGE_BYTES / 2 * dice.below(2);
                dice.randomize(&mut corrupt[half..half + PAGE_BYTES / 2]);
            }
            Self::OtherPage => corrupt = *donors.other,
            Self::OlderPage => corrupt = if dice.below(2) == 0 { *donors.older } else { [0; PAGE_BYTES] },
            Self::Crc | Self::P | Self::BothCrcs => {}
        }
        corrupt
    }

    fn corrupt_lines(self, page: &mut Page, dice: &mut Dice) {
        let (one, other) = dice.two_lines();
        let lines = [one, other].map(|line| page[line..line + LINE_BYTES].to_vec());
        let line = &mut page[one..one + LINE_BYTES];
        match self {
            Self::Line => dice.randomize(line),
            Self::ZeroLine => line.fill(0),
            _ => line.copy_from_slice(&lines[1]),
        }
        if self == Self::SwappedLines {
            page[other..other + LINE_BYTES].copy_from_slice(&lines[0]);
        }
    }
}

fn flip(page: &mut Page, bit: usize) {
    page[bit / 8] ^= 1 << (bit % 8);
}

/// Pseudo-random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    fn below(&mut self, end: usize) -> usize {
        below(self.next(), end)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn randomize(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.byte());
    }

    /// The starts of two different lines.
    fn two_lines(&mut self) -> (usize, usize) {
        let lines = PAGE_BYTES / LINE_BYTES;
        let one = self.below(lines);
        (one * LINE_BYTES, (one + 1 + self.below(lines - 1)) % lines * LINE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::page;
    use super::*;

    /// The number of lines that differ, and of bits.
    fn difference(one: &Page, other: &Page) -> (usize, u32) {
        let lines = one.chunks(LINE_BYTES).zip(other.chunks(LINE_BYTES)).filter(|(one, other)| one != other).count();
        (lines, one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum())
    }

    #[test]
    fn each_class_changes_what_its_name_says() {
        let (good, other, older) = (page(1, 1), page(2, 0), page(1, 0));
        let donors = Donors { other: &other, older: &older };
        for dice in (0..200).map(|seed| seed * 1000) {
            for class in Class::OF_PAGES {
                let (lines, bits) = difference(&good, &class.corrupted(&good, &donors, dice));
                let holds = match class {
                    Class::Bit => (lines, bits) == (1, 1),
                    Class::TwoBitsOfAWord => (lines, bits) == (1, 2),
                    Class::TwoBitsInTwoLines => (lines, bits) == (2, 2),
                    Class::Nibble => lines == 1 && (1..=4).contains(&bits),
                    Class::Byte => lines == 1 && (1..=8).contains(&bits),
                    Class::Word => lines == 1 && (1..=64).contains(&bits),
                    Class::Burst => lines <= 2 && (2..=64).contains(&bits),
                    Class::Line | Class::ZeroLine | Class::OtherLine => lines == 1 && bits > 100,
                    Class::SwappedLines => lines == 2,
                    Class::HalfPage => lines == 32,
                    Class::OtherPage | Class::OlderPage => lines == 64,
                    Class::Crc | Class::P | Class::BothCrcs => false,
                };
                assert!(holds, "{class:?}, {dice}: {lines} lines, {bits} bits");
            }
        }
    }
}
