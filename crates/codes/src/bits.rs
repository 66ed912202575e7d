//! Sets of bits of a page.

use rampart_memory::{LineBit, LineBits, LineData};

use crate::{PAGE_BYTES, PAGE_LINES};

/// A set of bits of a page. It takes 4 KiB and no allocation, since it is made while a program waits for its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageBits([LineBits; PAGE_LINES]);

impl PageBits {
    /// None.
    pub const NONE: Self = Self([LineBits(LineData::ZERO); PAGE_LINES]);

    /// Adds a bit of the page, 0 to 32767, counted from the lowest bit of byte 0. Panics beyond.
    pub fn insert(&mut self, bit: usize) {
        assert!(bit < 8 * PAGE_BYTES, "a page has no bit {bit}");
        self.0[bit / 512].0.0[bit % 512 / 64] |= 1 << (bit % 64);
    }

    /// Adds these bits of a line. Panics from line 64 on.
    pub fn insert_line(&mut self, line: usize, bits: &LineBits) {
        self.0[line] = self.0[line].union(bits);
    }

    /// The number of bits in the set.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(LineBits::count).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(LineBits::is_empty)
    }

    /// The bits of each line.
    #[must_use]
    pub const fn lines(&self) -> &[LineBits; PAGE_LINES] {
        &self.0
    }

    /// The lines with bits in the set, and those bits.
    pub fn changed_lines(&self) -> impl Iterator<Item = (usize, &LineBits)> + '_ {
        self.0.iter().enumerate().filter(|(_, bits)| !bits.is_empty())
    }

    /// The bits in ascending order: the line, and the bit in it.
    pub fn iter(&self) -> impl Iterator<Item = (usize, LineBit)> + '_ {
        self.changed_lines().flat_map(|(line, bits)| bits.iter().map(move |bit| (line, bit)))
    }
}

impl FromIterator<usize> for PageBits {
    /// From bits of the page, 0 to 32767. Panics beyond.
    fn from_iter<I: IntoIterator<Item = usize>>(bits: I) -> Self {
        let mut set = Self::NONE;
        bits.into_iter().for_each(|bit| set.insert(bit));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_bits_that_were_put_in() {
        let set: PageBits = [32767, 0, 512, 0].into_iter().collect();
        let bits: Vec<_> = set.iter().map(|(line, bit)| (line, bit.index())).collect();
        assert_eq!(bits, [(0, 0), (1, 0), (63, 511)]);
        assert_eq!((set.count(), set.changed_lines().count(), set.is_empty()), (3, 3, false));
        assert!(PageBits::NONE.is_empty());
    }

    #[test]
    #[should_panic(expected = "a page has no bit 32768")]
    fn a_page_has_no_bit_beyond_its_last() {
        PageBits::NONE.clone().insert(32768);
    }
}
