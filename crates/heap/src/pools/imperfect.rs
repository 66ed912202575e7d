//! Imperfect pages that nothing uses, by how many of their lines have failed.
//!
//! **Problem.** A heap that borrows perfect pages must leave two of its own alone for each, and rarely needs the rest
//! all at once. **Idea.** The pages with the fewest failed lines are used first, and those with the most are left
//! alone. **Why this way.** If lines fail at random, pages differ much: with 10 % of all lines failed, one page in 25
//! has at most two failed lines, and one in 20 has eleven or more. One list for each count makes all steps short.

use super::PageToken;
use crate::wear::FailedLines;

/// A page has so many lines; of an imperfect one, at least one has failed, and at least one works.
const LINES: usize = u64::BITS as usize;

/// The pages.
#[derive(Debug)]
pub(crate) struct ImperfectPages {
    /// By the number of failed lines.
    lists: [Vec<PageToken>; LINES],
    /// A bit for each list in which there is a page.
    filled: u64,
    /// How many pages there are.
    count: usize,
}

impl Default for ImperfectPages {
    fn default() -> Self {
        Self { lists: [const { Vec::new() }; LINES], filled: 0, count: 0 }
    }
}

impl ImperfectPages {
    /// Puts a page there, with its failed lines: some, and not all.
    pub fn push(&mut self, token: PageToken, failed: FailedLines) {
        let lines = failed.count() as usize;
        self.lists[lines].push(token);
        self.filled |= 1 << lines;
        self.count += 1;
    }

    /// The most failed lines that a page here has, and 0 if there is none.
    pub fn most_failed(&self) -> u32 {
        self.filled.checked_ilog2().unwrap_or(0)
    }

    /// Takes a page with the fewest failed lines.
    pub fn pop_best(&mut self) -> Option<PageToken> {
        self.pop(self.filled.trailing_zeros() as usize)
    }

    /// Takes a page with the most failed lines.
    pub fn pop_worst(&mut self) -> Option<PageToken> {
        self.pop(self.most_failed() as usize)
    }

    fn pop(&mut self, lines: usize) -> Option<PageToken> {
        let list = self.lists.get_mut(lines)?;
        let token = list.pop()?;
        self.took(lines);
        Some(token)
    }

    /// Takes a certain page with these failed lines, and returns whether it was there.
    pub fn remove(&mut self, token: PageToken, failed: FailedLines) -> bool {
        let lines = failed.count() as usize;
        let Some(list) = self.lists.get_mut(lines) else { return false };
        let Some(place) = list.iter().position(|listed| *listed == token) else { return false };
        list.remove(place);
        self.took(lines);
        true
    }

    /// A page has left a list.
    fn took(&mut self, lines: usize) {
        self.count -= 1;
        if self.lists[lines].is_empty() {
            self.filled &= !(1 << lines);
        }
    }

    /// How many pages there are.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// The failed lines of all pages.
    pub fn failed(&self) -> usize {
        self.lists.iter().enumerate().map(|(count, list)| count * list.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Failed lines, as many as `count`.
    fn failed(count: u32) -> FailedLines {
        FailedLines::from_bits(u64::MAX >> (64 - count))
    }

    proptest! {
        #[test]
        fn imperfect_pages_come_by_the_number_of_their_failed_lines(
            steps in prop::collection::vec((0..5, 1_u32..64, 0_usize..40), 1..300),
        ) {
            let mut pages = ImperfectPages::default();
            let mut naive: Vec<(u32, PageToken)> = Vec::new();
            let take = |naive: &mut Vec<(u32, PageToken)>, lines: Option<u32>, token: Option<PageToken>| {
                let place = naive.iter().position(|page| Some(page.0) == lines && Some(page.1) == token);
                place.map(|place| naive.remove(place)).is_some() || lines.is_none() && token.is_none()
            };
            for (number, (step, count, chosen)) in (0..).zip(steps) {
                let (fewest, most) = (naive.iter().map(|page| page.0).min(), naive.iter().map(|page| page.0).max());
                match step {
                    0 | 1 => {
                        pages.push(PageToken(number), failed(count));
                        naive.push((count, PageToken(number)));
                    }
                    2 => prop_assert!(take(&mut naive, fewest, pages.pop_best())),
                    3 => prop_assert!(take(&mut naive, most, pages.pop_worst())),
                    _ => {
                        let page = naive.get(chosen).copied().unwrap_or((count, PageToken(u32::MAX)));
                        prop_assert_eq!(pages.remove(page.1, failed(page.0)), chosen < naive.len());
                        naive.retain(|there| *there != page);
                    }
                }
                prop_assert_eq!(pages.len(), naive.len());
                prop_assert_eq!(pages.failed(), naive.iter().map(|page| page.0 as usize).sum::<usize>());
                prop_assert_eq!(pages.most_failed(), naive.iter().map(|page| page.0).max().unwrap_or(0));
            }
        }
    }
}
