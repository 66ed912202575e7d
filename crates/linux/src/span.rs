//! Pages of a vault, by their numbers.

use std::ops::Range;

use rampart_memory::{Bytes, FRAME_BYTES};

use crate::PAGE_BYTES;
use crate::block::mapping::HUGE_BYTES;

/// Pages of 4 KiB in a huge page.
pub const HUGE_PAGES: u64 = (HUGE_BYTES / PAGE_BYTES) as u64;

/// More pages than any process can have: those of 2^47 bytes.
const END: u64 = 1 << 35;

const _: () = assert!(HUGE_PAGES == 512 && END * FRAME_BYTES == 1 << 47);

/// Adjacent pages of 4 KiB, at least one, numbered from the first of their range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VaultSpan {
    first: u64,
    pages: u64,
}

impl VaultSpan {
    /// `pages` pages from number `first` on; `None` for an empty span, or one beyond any range.
    #[must_use]
    pub const fn new(first: u64, pages: u64) -> Option<Self> {
        match first.checked_add(pages) {
            Some(end) if pages > 0 && end <= END => Some(Self { first, pages }),
            _ => None,
        }
    }

    /// One page; `None` if no range has as many.
    #[must_use]
    pub const fn page(number: u64) -> Option<Self> {
        Self::new(number, 1)
    }

    /// The first page.
    #[must_use]
    pub const fn first(self) -> u64 {
        self.first
    }

    /// The number of pages.
    #[must_use]
    pub const fn pages(self) -> u64 {
        self.pages
    }

    /// The page after the last.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.first + self.pages
    }

    /// The offset of the first page from the range's first byte.
    #[must_use]
    pub const fn offset(self) -> Bytes {
        Bytes::new(self.first * FRAME_BYTES)
    }

    /// Its length.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes::new(self.pages * FRAME_BYTES)
    }

    /// The pages' numbers.
    #[must_use]
    pub const fn numbers(self) -> Range<u64> {
        self.first..self.first + self.pages
    }

    /// Whether it consists of whole huge pages.
    #[must_use]
    pub const fn is_huge(self) -> bool {
        self.first.is_multiple_of(HUGE_PAGES) && self.pages.is_multiple_of(HUGE_PAGES)
    }

    /// The parts before and from page `at` on, if they are not empty.
    #[must_use]
    pub fn split(self, at: u64) -> (Option<Self>, Option<Self>) {
        let at = at.clamp(self.first, self.end());
        (Self::new(self.first, at - self.first), Self::new(at, self.end() - at))
    }

    /// In a walk that comes to `found`: the skipped part before it, if any. The rest continues after it.
    pub(crate) fn come_to(rest: &mut Option<Self>, found: Self) -> Option<Self> {
        let (before, from) = rest.map_or((None, None), |rest| rest.split(found.first));
        *rest = from.and_then(|from| from.split(found.end()).1);
        before
    }

    /// Its pages in order, in parts that are in one of the `odd` spans, which ascend, or in none; and whether they are
    /// odd.
    pub(crate) fn around(self, odd: &[Self]) -> impl Iterator<Item = (Self, bool)> {
        let (mut odd, mut rest) = (odd.iter().peekable(), Some(self));
        std::iter::from_fn(move || {
            let span = rest?;
            while odd.next_if(|odd| odd.end() <= span.first).is_some() {}
            let (end, is_odd) = match odd.peek() {
                Some(odd) if odd.first <= span.first => (odd.end(), true),
                Some(odd) => (odd.first, false),
                None => (span.end(), false),
            };
            let (part, behind) = span.split(end);
            rest = behind;
            part.map(|part| (part, is_odd))
        })
    }

    /// Pieces that are each in one huge page's place, in order.
    pub fn by_huge_page(self) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let span = rest?;
            let (piece, behind) = span.split((span.first / HUGE_PAGES + 1) * HUGE_PAGES);
            rest = behind;
            piece
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn there_is_no_span_of_nothing_and_none_beyond_all_addresses() {
        assert_eq!(VaultSpan::new(7, 0), None);
        assert_eq!(VaultSpan::new(END - 1, 2), None);
        assert_eq!(VaultSpan::new(u64::MAX, 1), None);
        assert!(VaultSpan::new(END - 1, 1).is_some_and(|span| span.end() == END));
    }

    #[test]
    fn a_span_is_known_by_pages_and_by_bytes() {
        let span = VaultSpan::new(512, 1024).unwrap();
        assert_eq!((span.offset(), span.bytes()), (Bytes::from_mib(2), Bytes::from_mib(4)));
        assert!(span.is_huge() && span.numbers() == (512..1536));
        assert!(!VaultSpan::page(512).unwrap().is_huge() && !VaultSpan::new(511, 512).unwrap().is_huge());
    }

    proptest! {
        #[test]
        fn a_span_is_cut_around_what_is_odd(
            first in 0_u64..50, pages in 1_u64..200, odd in proptest::collection::vec((1_u64..20, 1_u64..20), 0..6)
        ) {
            let (span, mut at) = (VaultSpan::new(first, pages).unwrap(), 0);
            let place = |(gap, pages): (u64, u64)| {
                let odd = VaultSpan::new(at + gap, pages).unwrap();
                at = odd.end();
                odd
            };
            let odd: Vec<VaultSpan> = odd.into_iter().map(place).collect();
            let parts: Vec<(u64, bool)> =
                span.around(&odd).flat_map(|(part, is_odd)| part.numbers().map(move |page| (page, is_odd))).collect();
            let is_odd = |page: u64| odd.iter().any(|odd| odd.numbers().contains(&page));
            prop_assert_eq!(parts, span.numbers().map(|page| (page, is_odd(page))).collect::<Vec<_>>());
        }

        #[test]
        fn the_pieces_of_a_span_are_the_span(first in 0_u64..5000, pages in 1_u64..3000, at in 0_u64..9000) {
            let span = VaultSpan::new(first, pages).unwrap();
            let (before, behind) = span.split(at);
            let halves: Vec<u64> = [before, behind].into_iter().flatten().flat_map(VaultSpan::numbers).collect();
            let pieces: Vec<VaultSpan> = span.by_huge_page().collect();
            prop_assert!(pieces.iter().all(|piece| piece.first / 512 == (piece.end() - 1) / 512));
            let pieces: Vec<u64> = pieces.into_iter().flat_map(VaultSpan::numbers).collect();
            prop_assert_eq!(&pieces, &span.numbers().collect::<Vec<_>>());
            prop_assert_eq!(&halves, &pieces);
            prop_assert!(before.is_none_or(|part| part.end() <= at) && behind.is_none_or(|part| part.first >= at));
        }
    }
}
