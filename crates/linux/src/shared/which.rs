//! Sets of pages: which pages of a range are of one of two kinds.
//!
//! One bit per page, in pieces that are allocated when their first bit is set: a range may be much larger than its used
//! part.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::span::VaultSpan;

/// Words of 64 pages in a piece.
const WORDS: usize = 512;

type Piece = Box<[AtomicU64; WORDS]>;

/// A set of pages. Bits of different pages may be changed at once.
#[derive(Debug)]
pub(super) struct PageSet {
    pieces: Box<[OnceLock<Piece>]>,
    /// The end of the last page that was ever in the set.
    reach: AtomicU64,
}

impl PageSet {
    /// An empty set for so many pages.
    pub(super) fn none(pages: u64) -> Self {
        let pieces = pages.div_ceil(64 * WORDS as u64);
        Self { pieces: (0..pieces).map(|_| OnceLock::new()).collect(), reach: AtomicU64::new(0) }
    }

    /// Pages up to the last that was ever in it.
    pub(super) fn reach(&self) -> u64 {
        self.reach.load(Ordering::Acquire)
    }

    pub(super) fn has(&self, page: u64) -> bool {
        let (piece, word, bit) = place(page);
        self.pieces[piece].get().is_some_and(|words| words[word].load(Ordering::Acquire) & bit != 0)
    }

    /// Adds pages, or removes them. Adding may allocate.
    pub(super) fn set(&self, span: VaultSpan, are_in: bool) {
        if are_in {
            self.reach.fetch_max(span.end(), Ordering::AcqRel);
        }
        for page in span.numbers() {
            let (piece, word, bit) = place(page);
            let words = match self.pieces[piece].get() {
                None if !are_in => continue,
                _ => self.pieces[piece].get_or_init(|| Box::new([const { AtomicU64::new(0) }; WORDS])),
            };
            if are_in {
                words[word].fetch_or(bit, Ordering::AcqRel);
            } else {
                words[word].fetch_and(!bit, Ordering::AcqRel);
            }
        }
    }

    /// A span in runs of pages of one kind each, and whether they are in the set.
    pub(super) fn runs(&self, span: VaultSpan) -> impl Iterator<Item = (VaultSpan, bool)> {
        let mut rest = Some(span);
        std::iter::from_fn(move || {
            let span = rest?;
            let kind = self.has(span.first());
            let end = span.numbers().find(|page| self.has(*page) != kind).unwrap_or(span.end());
            let (run, behind) = span.split(end);
            rest = behind;
            run.map(|run| (run, kind))
        })
    }
}

fn place(page: u64) -> (usize, usize, u64) {
    let word = usize::try_from(page / 64).expect("words have addresses");
    (word / WORDS, word % WORDS, 1 << (page % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const PAGES: u64 = 2 * 64 * WORDS as u64;

    proptest! {
        #[test]
        fn it_is_what_a_set_of_numbers_is(
            steps in proptest::collection::vec((0..PAGES - 200, 1_u64..200, any::<bool>()), 1..20),
            first in 0..PAGES - 400, count in 1_u64..400
        ) {
            let (which, mut naive) = (PageSet::none(PAGES), BTreeSet::new());
            for (first, count, are_in) in steps {
                let span = VaultSpan::new(first, count).unwrap();
                which.set(span, are_in);
                if are_in { naive.extend(span.numbers()) } else { naive.retain(|page| !span.numbers().contains(page)) }
            }
            prop_assert!(naive.last().is_none_or(|last| *last < which.reach()));
            let span = VaultSpan::new(first, count).unwrap();
            let runs: Vec<_> = which.runs(span).collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].0.end() == pair[1].0.first() && pair[0].1 != pair[1].1));
            let pages: Vec<_> = runs.iter().flat_map(|(run, are_in)| run.numbers().map(|page| (page, *are_in))).collect();
            prop_assert_eq!(pages, span.numbers().map(|page| (page, naive.contains(&page))).collect::<Vec<_>>());
        }
    }
}
