//! The free lines of a block, and the holes that they form.
//!
//! A bit for each line of the memory: so the lines beside a failed one stay of use, whatever the size of the heap's
//! lines.

use std::ops::Range;

use crate::geometry::BLOCK_PAGES;

/// How many lines of the memory a block has.
pub(crate) const BLOCK_LINES: usize = BLOCK_PAGES * u64::BITS as usize;

/// The free lines of a block: a bit for each, in a word for each page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreeLines(pub [u64; BLOCK_PAGES]);

/// Lines of the memory in a block, by their places from its start.
pub(crate) type LineRange = Range<usize>;

impl FreeLines {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Removes some.
    pub fn remove(&mut self, lines: LineRange) {
        let bits = u64::BITS as usize;
        for (word, first) in self.0.iter_mut().zip((0..).step_by(bits)) {
            let (start, end) = (lines.start.clamp(first, first + bits), lines.end.clamp(first, first + bits));
            if start < end {
                *word &= !((u64::MAX >> (bits - (end - start))) << (start - first));
            }
        }
    }

    /// The next hole from a place on.
    #[inline]
    pub fn next_hole(&self, from: usize) -> Option<LineRange> {
        let start = self.next(from, 0)?;
        let end = self.next(start, u64::MAX).unwrap_or(BLOCK_LINES);
        Some(start..end)
    }

    /// The next hole from a place on that has so many lines.
    pub fn next_hole_of(&self, lines: usize, mut from: usize) -> Option<LineRange> {
        loop {
            let hole = self.next_hole(from)?;
            if hole.len() >= lines {
                return Some(hole);
            }
            from = hole.end;
        }
    }

    /// All holes.
    pub fn holes(&self) -> impl Iterator<Item = LineRange> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let hole = self.next_hole(from)?;
            from = hole.end;
            Some(hole)
        })
    }

    /// The next line from a place on whose bit, exclusive-or `flip`, is set.
    #[inline]
    fn next(&self, from: usize, flip: u64) -> Option<usize> {
        let bits = u64::BITS as usize;
        let first = from / bits;
        let mut word = (self.0.get(first)? ^ flip) & (u64::MAX << (from % bits));
        for place in first.. {
            if word != 0 {
                return Some(place * bits + word.trailing_zeros() as usize);
            }
            word = self.0.get(place + 1)? ^ flip;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, line by line.
    fn holes_of(free: &[bool]) -> Vec<LineRange> {
        let mut holes: Vec<LineRange> = Vec::new();
        for line in (0..free.len()).filter(|line| free[*line]) {
            match holes.last_mut().filter(|hole| hole.end == line) {
                Some(hole) => hole.end += 1,
                None => holes.push(line..line + 1),
            }
        }
        holes
    }

    proptest! {
        #[test]
        fn holes_are_the_longest_runs_of_free_lines(
            words in prop::array::uniform8(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()]),
            from in 0..=BLOCK_LINES,
            lines in 1_usize..100,
        ) {
            let free = FreeLines(words);
            let each: Vec<bool> = (0..BLOCK_LINES).map(|line| words[line / 64] >> (line % 64) & 1 == 1).collect();
            prop_assert_eq!(free.holes().collect::<Vec<_>>(), holes_of(&each));
            prop_assert_eq!(free.count() as usize, each.iter().filter(|free| **free).count());
            let mut fewer = free;
            fewer.remove(from..(from + lines).min(BLOCK_LINES));
            let is_left = |line: usize| each[line] && !(from..from + lines).contains(&line);
            prop_assert_eq!(fewer.holes().collect::<Vec<_>>(), holes_of(&(0..BLOCK_LINES).map(is_left).collect::<Vec<_>>()));
            let rest: Vec<bool> = each.iter().enumerate().map(|(line, free)| *free && line >= from).collect();
            let large = holes_of(&rest).into_iter().find(|hole| hole.len() >= lines);
            prop_assert_eq!(free.next_hole_of(lines, from), large);
        }
    }
}
