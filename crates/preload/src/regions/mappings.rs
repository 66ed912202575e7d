//! The places of a program's own mappings in the range, if those are guarded too.
//!
//! **Problem.** A program maps memory, gives parts of it back, maps over others and changes their protection, page by
//! page; the guard works on blocks. **Idea.** Mappings are in pieces that come from the range like an arena's. Only two
//! facts are kept: which addresses are *free*, and which are excluded from guarding (`left`). Freed memory is given
//! back at once: as whole blocks if no other mapping has a part in them, otherwise as pages that read as zeros. **Why
//! this way.** Without a list of mappings, a `munmap` of half of one and a quarter of the next cannot disagree with it;
//! and free memory is always zeros, as a new mapping must be.

use std::ops::Range;

use rampart_memory::PAGE_BYTES;

use super::spans::Spans;

/// Pages have 4 KiB. Larger mappings start at a multiple of this, as the kernel's own do: a huge page.
const HUGE: usize = 2 << 20;

/// The operations on the pages below. Calls come one after the other.
pub(crate) trait Below {
    /// The addresses of a block, a power of two; blocks start at its multiples.
    fn block(&self) -> usize;
    /// More unused addresses of the range, from a multiple of [`HUGE`] on.
    fn cut(&self, length: usize) -> Option<Range<usize>>;
    /// Unused whole blocks: they read as zeros from now on, and are guarded if they were not.
    fn take_back(&self, blocks: Range<usize>);
    /// Pages read as zeros from now on; the rest of their blocks is unchanged.
    fn zero(&self, pages: Range<usize>);
    /// Pages can be read and written again, and are not mlocked.
    fn restore(&self, pages: Range<usize>);
}

/// All mappings in the range.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// All pieces from the range.
    own: Spans,
    /// Of these, the unused ones; they read as zeros.
    free: Spans,
    /// Excluded memory anywhere in the range: the program chose its protection or its kind.
    left: Spans,
}

impl Mappings {
    pub(crate) const fn new() -> Self {
        Self { own: Spans::new(), free: Spans::new(), left: Spans::new() }
    }

    /// The excluded memory.
    pub(crate) const fn left(&self) -> &Spans {
        &self.left
    }

    /// Excludes pages.
    pub(crate) fn leave(&mut self, pages: Range<usize>) {
        self.left.insert(pages);
    }

    /// The number of mapped bytes.
    pub(crate) fn mapped(&self) -> usize {
        let bytes = |spans: &Spans| spans.iter().map(|span| span.len()).sum::<usize>();
        bytes(&self.own) - bytes(&self.free)
    }

    /// Whether all of these pages are mapped here.
    pub(crate) fn has(&self, pages: Range<usize>) -> bool {
        self.own.contains(pages.clone()) && self.free.parts(pages).is_empty()
    }

    /// A new mapping of zeros.
    pub(crate) fn map(&mut self, length: usize, below: &impl Below) -> Option<Range<usize>> {
        let length = length.checked_next_multiple_of(PAGE_BYTES).filter(|length| *length > 0)?;
        let alignment = if length >= HUGE { HUGE } else { length.next_power_of_two() };
        if self.free.first_fit(length, alignment).is_none() {
            let more = below.cut(length.checked_next_multiple_of(HUGE)?)?;
            self.own.insert(more.clone());
            self.free.insert(more);
        }
        let found = self.free.first_fit(length, alignment)?;
        self.free.remove(found.clone());
        Some(found)
    }

    /// Extends a mapping by the pages after it, if they are free.
    pub(crate) fn extend(&mut self, pages: Range<usize>) -> bool {
        let free = self.free.contains(pages.clone());
        if free {
            self.free.remove(pages);
        }
        free
    }

    /// Unmaps the mapped ones of these pages. Returns the others.
    pub(crate) fn unmap(&mut self, pages: Range<usize>, below: &impl Below) -> Vec<Range<usize>> {
        for own in self.own.parts(pages.clone()) {
            for used in self.free.gaps(own) {
                self.release(used, below);
            }
        }
        self.own.gaps(pages)
    }

    /// Pages that are about to become something else, for good.
    pub(crate) fn lose(&mut self, pages: Range<usize>) {
        self.own.remove(pages.clone());
        self.free.remove(pages.clone());
        self.left.insert(pages);
    }

    fn release(&mut self, pages: Range<usize>, below: &impl Below) {
        for changed in self.left.parts(pages.clone()) {
            below.restore(changed.clone());
            self.left.remove(changed);
        }
        self.free.insert(pages.clone());
        let run = self.free.run(pages.start).expect("it was just put there");
        let block = below.block();
        let down = |address: usize| address / block * block;
        let start = run.start.next_multiple_of(block).max(down(pages.start));
        let end = down(run.end).min(pages.end.next_multiple_of(block));
        if start >= end {
            below.zero(pages);
            return;
        }
        below.take_back(start..end);
        for edge in [pages.start..start, end..pages.end] {
            if !edge.is_empty() {
                below.zero(edge);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    use proptest::prelude::*;

    const BLOCK: usize = 4 * PAGE_BYTES;
    const PAGES: usize = 8 * HUGE / PAGE_BYTES;

    /// A word per page, and whether the program changed its protection.
    struct Paper {
        content: RefCell<Vec<u32>>,
        changed: RefCell<Vec<bool>>,
        cut: Cell<usize>,
    }

    impl Paper {
        fn new() -> Self {
            Self { content: vec![0; PAGES].into(), changed: vec![false; PAGES].into(), cut: Cell::new(0) }
        }
    }

    fn numbers(span: &Range<usize>) -> Range<usize> {
        assert!(span.start.is_multiple_of(PAGE_BYTES) && span.end.is_multiple_of(PAGE_BYTES), "{span:?}");
        span.start / PAGE_BYTES..span.end / PAGE_BYTES
    }

    impl Below for Paper {
        fn block(&self) -> usize {
            BLOCK
        }

        fn cut(&self, length: usize) -> Option<Range<usize>> {
            let start = self.cut.get();
            (start + length <= PAGES * PAGE_BYTES).then(|| {
                self.cut.set(start + length);
                start..start + length
            })
        }

        fn take_back(&self, blocks: Range<usize>) {
            assert!(blocks.start.is_multiple_of(BLOCK) && blocks.end.is_multiple_of(BLOCK) && !blocks.is_empty());
            self.content.borrow_mut()[numbers(&blocks)].fill(0);
        }

        fn zero(&self, pages: Range<usize>) {
            self.content.borrow_mut()[numbers(&pages)].fill(0);
        }

        fn restore(&self, pages: Range<usize>) {
            self.changed.borrow_mut()[numbers(&pages)].fill(false);
        }
    }

    proptest! {
        /// Each live mapping is filled with a number of its own, and is the only one to have it.
        #[test]
        fn a_mapping_is_zeros_at_first_and_keeps_its_content_whatever_happens_to_others(
            steps in proptest::collection::vec((0_u8..5, 1_usize..700, any::<prop::sample::Index>(), 0_usize..700), 1..60)
        ) {
            let (mut mappings, paper) = (Mappings::new(), Paper::new());
            let mut naive = vec![0_u32; PAGES];
            for (step, (kind, pages, which, skip)) in (1_u32..).zip(steps) {
                let used: Vec<usize> = (0..PAGES).filter(|&page| naive[page] != 0).collect();
                let chosen = (!used.is_empty()).then(|| used[which.index(used.len())]);
                match (kind, chosen) {
                    (0..=1, _) => {
                        let Some(found) = mappings.map(pages * PAGE_BYTES, &paper) else { continue };
                        prop_assert_eq!(found.len(), pages * PAGE_BYTES);
                        for page in numbers(&found) {
                            prop_assert!(naive[page] == 0 && paper.content.borrow()[page] == 0, "page {} is used", page);
                            prop_assert!(!paper.changed.borrow()[page], "page {} has rights of its own", page);
                            naive[page] = step;
                        }
                        paper.content.borrow_mut()[numbers(&found)].fill(step);
                    }
                    (2, Some(first)) => {
                        let last = (first + pages).min(PAGES);
                        mappings.unmap(first * PAGE_BYTES..last * PAGE_BYTES, &paper);
                        naive[first..last].fill(0);
                    }
                    (3, Some(first)) => {
                        mappings.leave(first * PAGE_BYTES..(first + 1) * PAGE_BYTES);
                        paper.changed.borrow_mut()[first] = true;
                    }
                    (4, Some(first)) => {
                        let tail = (first + skip % 8)..(first + skip % 8 + 1).min(PAGES);
                        if !tail.is_empty() && mappings.extend(tail.start * PAGE_BYTES..tail.end * PAGE_BYTES) {
                            prop_assert_eq!(naive[tail.start], 0);
                            naive[tail.start] = step;
                            paper.content.borrow_mut()[tail.start] = step;
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(&*paper.content.borrow(), &naive);
                prop_assert_eq!(mappings.mapped(), naive.iter().filter(|&&page| page != 0).count() * PAGE_BYTES);
            }
        }
    }

    #[test]
    fn a_block_is_taken_back_with_the_last_mapping_that_has_a_part_in_it() {
        let (mut mappings, paper) = (Mappings::new(), Paper::new());
        let first = mappings.map(2 * PAGE_BYTES, &paper).unwrap();
        let second = mappings.map(2 * PAGE_BYTES, &paper).unwrap();
        assert_eq!(first.end, second.start);
        mappings.leave(first.clone());
        let rest = mappings.unmap(0..PAGES * PAGE_BYTES, &paper);
        assert!(rest.len() == 1 && rest[0] == (HUGE..PAGES * PAGE_BYTES), "what was never mapped: {rest:?}");
        assert!(!mappings.has(first) && mappings.mapped() == 0 && mappings.left().iter().next().is_none());
    }

    #[test]
    fn what_became_something_else_is_never_given_out_again() {
        let (mut mappings, paper) = (Mappings::new(), Paper::new());
        let all = mappings.map(HUGE, &paper).unwrap();
        let lost = all.start + PAGE_BYTES..all.start + 2 * PAGE_BYTES;
        mappings.lose(lost.clone());
        assert_eq!(mappings.unmap(all, &paper), std::slice::from_ref(&lost));
        let second = mappings.map(HUGE, &paper).unwrap();
        assert!(second.start >= HUGE && mappings.left().contains(lost));
    }
}
