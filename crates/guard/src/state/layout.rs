//! Pages and blocks of the guarded range, by number.
//!
//! A *block* is the most memory that is locked or unlocked at once: adjacent pages, a power of two of them, aligned to
//! their number. A block of 512 is a huge page. A *unit* is the least: a block consists of equal units.

use std::num::NonZero;

use rampart_memory::{Bytes, FRAME_BYTES};

use crate::state::units::Units;

/// The most pages of a block: those of a huge page.
pub const MOST_PAGES: u32 = 512;

/// A page of the range; the first is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(pub u64);

/// A block of the range; the first is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u64);

/// Adjacent pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// The first.
    pub first: PageIndex,
    /// The number of pages; at least one.
    pub count: NonZero<u64>,
}

impl PageSpan {
    /// One page.
    #[must_use]
    pub const fn of_page(page: PageIndex) -> Self {
        Self { first: page, count: NonZero::<u64>::MIN }
    }

    /// Its start, in bytes from the start of the range.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.first.0 * FRAME_BYTES
    }

    /// The page after the last.
    #[must_use]
    pub const fn end(self) -> PageIndex {
        PageIndex(self.first.0 + self.count.get())
    }

    /// Its length.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes::new(self.count.get() * FRAME_BYTES)
    }
}

/// The division of a range into blocks and units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    blocks: u64,
    /// The logarithm of the pages of a block, and of those of a unit.
    order: u32,
    unit_order: u32,
}

impl Layout {
    /// A range of so many bytes in blocks of so many pages, with units of so many. `None` unless the pages are powers
    /// of two, those of a block at most [`MOST_PAGES`] and at most [`Units::MOST`] units, and the range a multiple of
    /// the block, of at least one and at most 2^48 bytes.
    #[must_use]
    pub fn new(range: Bytes, block_pages: u32, unit_pages: u32) -> Option<Self> {
        let good = block_pages.is_power_of_two()
            && block_pages <= MOST_PAGES
            && unit_pages.is_power_of_two()
            && unit_pages <= block_pages
            && block_pages / unit_pages <= Units::MOST;
        let block = u64::from(block_pages) * FRAME_BYTES;
        let bytes = range.get();
        let fits = bytes > 0 && bytes <= 1 << 48 && bytes.is_multiple_of(block);
        (good && fits).then(|| Self {
            blocks: bytes / block,
            order: block_pages.ilog2(),
            unit_order: unit_pages.ilog2(),
        })
    }

    /// The number of blocks.
    #[must_use]
    pub const fn blocks(self) -> u64 {
        self.blocks
    }

    /// Pages of a block: 1 to [`MOST_PAGES`].
    #[must_use]
    pub const fn block_pages(self) -> u32 {
        1 << self.order
    }

    /// Pages of a unit: 1 to those of a block.
    #[must_use]
    pub const fn unit_pages(self) -> u32 {
        1 << self.unit_order
    }

    /// All units of a block.
    #[must_use]
    pub const fn all_units(self) -> Units {
        Units::run(0, 1 << (self.order - self.unit_order))
    }

    /// The place in its block of a page's unit.
    #[must_use]
    pub fn unit_of(self, page: PageIndex) -> u32 {
        let in_block = page.0 % u64::from(self.block_pages());
        u32::try_from(in_block >> self.unit_order).expect("a block has few units")
    }

    /// The units of some pages of one block.
    #[must_use]
    pub fn units_of(self, part: PageSpan) -> Units {
        let (first, last) = (self.unit_of(part.first), self.unit_of(PageIndex(part.first.0 + part.count.get() - 1)));
        Units::run(first, last + 1 - first)
    }

    /// The pages of some units of a block: a span per run of adjacent units, ascending.
    pub fn spans(self, block: BlockIndex, units: Units) -> impl Iterator<Item = PageSpan> {
        assert!(self.all_units().has(units), "units of a block");
        let start = self.span(block).first.0;
        units.runs().map(move |(first, count)| PageSpan {
            first: PageIndex(start + (u64::from(first) << self.unit_order)),
            count: NonZero::new(u64::from(count) << self.unit_order).expect("a run has units"),
        })
    }

    /// The number of pages of some units.
    #[must_use]
    pub const fn pages_of(self, units: Units) -> u64 {
        (units.count() as u64) << self.unit_order
    }

    /// The number of whole blocks in so many units.
    #[must_use]
    pub const fn blocks_of(self, units: usize) -> u64 {
        (units as u64) >> (self.order - self.unit_order)
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_bytes(self) -> Bytes {
        Bytes::new(FRAME_BYTES << self.order)
    }

    /// The block of a page; `None` if the page is beyond the range.
    #[must_use]
    pub fn block_of(self, page: PageIndex) -> Option<BlockIndex> {
        let block = page.0 >> self.order;
        (block < self.blocks).then_some(BlockIndex(block))
    }

    /// The pages of a block.
    #[must_use]
    pub fn span(self, block: BlockIndex) -> PageSpan {
        assert!(block.0 < self.blocks, "a block of the range");
        let count = NonZero::new(u64::from(self.block_pages())).expect("a block has pages");
        PageSpan { first: PageIndex(block.0 << self.order), count }
    }

    /// The blocks of a span, each with its pages of the span; none beyond the range.
    pub fn parts(self, span: PageSpan) -> impl Iterator<Item = (BlockIndex, PageSpan)> {
        let pages = u64::from(self.block_pages());
        let end = span.first.0.saturating_add(span.count.get()).min(self.blocks * pages);
        let blocks = span.first.0 / pages..end.div_ceil(pages);
        blocks.filter_map(move |block| {
            let (from, to) = (span.first.0.max(block * pages), end.min((block + 1) * pages));
            let count = NonZero::new(to.checked_sub(from)?)?;
            Some((BlockIndex(block), PageSpan { first: PageIndex(from), count }))
        })
    }

    /// The blocks that a span fills exactly, or `None` if it fills some in part, or reaches beyond the range.
    pub fn whole_blocks(self, span: PageSpan) -> Option<impl Iterator<Item = BlockIndex>> {
        let pages = u64::from(self.block_pages());
        let aligned = span.first.0.is_multiple_of(pages) && span.count.get().is_multiple_of(pages);
        let first = span.first.0 / pages;
        let end = first.checked_add(span.count.get() / pages)?;
        (aligned && end <= self.blocks).then(|| (first..end).map(BlockIndex))
    }
}

/// Some pages of a block, by their place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSet([u64; (MOST_PAGES / 64) as usize]);

impl PageSet {
    /// None.
    pub const NONE: Self = Self([0; (MOST_PAGES / 64) as usize]);

    /// Adds a page.
    pub fn insert(&mut self, page: u32) {
        self.0[page as usize / 64] |= 1 << (page % 64);
    }

    /// Whether a page is in it.
    #[must_use]
    pub fn contains(&self, page: u32) -> bool {
        self.0[page as usize / 64] >> (page % 64) & 1 == 1
    }

    /// The number of pages.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..MOST_PAGES).filter(|&page| self.contains(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    fn span(first: u64, count: u64) -> PageSpan {
        PageSpan { first: PageIndex(first), count: NonZero::new(count).unwrap() }
    }

    #[test]
    fn a_range_is_cut_into_whole_blocks_of_a_power_of_two() {
        let layout = Layout::new(Bytes::from_mib(4), 512, 16).unwrap();
        assert_eq!((layout.blocks(), layout.block_bytes()), (2, Bytes::from_mib(2)));
        assert_eq!(layout.span(BlockIndex(1)), span(512, 512));
        assert_eq!(layout.block_of(PageIndex(511)), Some(BlockIndex(0)));
        assert_eq!(layout.block_of(PageIndex(1024)), None);
        assert_eq!([31, 32, 65].map(|units| layout.blocks_of(units)), [0, 1, 2], "of 32 units each");
        let bad = [
            (4, 0, 1),
            (4, 3, 1),
            (4, 1024, 16),
            (0, 1, 1),
            (3, 512, 16),
            (4, 512, 0),
            (4, 512, 12),
            (4, 512, 4),
            (4, 4, 8),
        ];
        assert!(bad.iter().all(|&(mib, block, unit)| Layout::new(Bytes::from_mib(mib), block, unit).is_none()));
        assert!(Layout::new(Bytes::new(1 << 49), 512, 512).is_none());
    }

    #[test]
    fn a_span_has_bytes_of_whole_pages() {
        let three = span(5, 3);
        assert_eq!((three.offset(), three.end(), three.bytes()), (20_480, PageIndex(8), Bytes::new(12_288)));
    }

    #[test]
    fn only_whole_blocks_are_found_in_a_span() {
        let layout = Layout::new(Bytes::from_mib(1), 64, 16).unwrap();
        let blocks =
            |first, count| Some(layout.whole_blocks(span(first, count))?.map(|block| block.0).collect::<Vec<_>>());
        assert_eq!(blocks(64, 128), Some(vec![1, 2]));
        assert_eq!(blocks(0, 256), Some(vec![0, 1, 2, 3]));
        for (first, count) in [(1, 64), (64, 65), (192, 128), (u64::MAX - 63, 64)] {
            assert_eq!(blocks(first, count), None, "{first} {count}");
        }
    }

    proptest! {
        #[test]
        fn the_parts_of_a_span_are_its_pages_in_the_range(first in 0_u64..400, count in 1_u64..400) {
            let layout = Layout::new(Bytes::from_mib(1), 64, 16).unwrap();
            let mut pages = Vec::new();
            for (block, part) in layout.parts(span(first, count)) {
                let of_part = part.first.0..part.first.0 + part.count.get();
                prop_assert!(of_part.clone().all(|page| layout.block_of(PageIndex(page)) == Some(block)));
                let touched = of_part.clone().map(|page| Units::run(layout.unit_of(PageIndex(page)), 1));
                let touched = touched.fold(Units::NONE, |units, unit| units | unit);
                prop_assert_eq!(layout.units_of(part), touched);
                let spans: Vec<_> = layout.spans(block, touched).collect();
                prop_assert_eq!(spans.len(), 1, "pages that follow each other are of units that do");
                let (from, count) = (spans[0].first.0, spans[0].count.get());
                prop_assert!(from <= of_part.start && of_part.end <= from + count && count == layout.pages_of(touched));
                prop_assert!(of_part.start - from < 16 && from + count - of_part.end < 16);
                pages.extend(of_part);
            }
            prop_assert_eq!(pages, (first..(first + count).min(256)).collect::<Vec<_>>());
        }

        #[test]
        fn a_set_of_pages_is_a_set(pages in proptest::collection::btree_set(0_u32..512, 0..60)) {
            let mut set = PageSet::NONE;
            pages.iter().for_each(|&page| set.insert(page));
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), pages.clone());
            prop_assert_eq!(set.count() as usize, pages.len());
            prop_assert!((0..512).all(|page| set.contains(page) == pages.contains(&page)));
        }
    }
}
