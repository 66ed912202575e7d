//! All memory of a heap that objects can lie in.

use std::sync::Arc;

use super::blocks::{BlockRecord, BlockRecords, Evacuation, HeapBlockState};
use super::free_lines::FreeLines;
use super::large::LargeObjects;
use super::lines::LineMarks;
use super::lost::LostData;
use super::ranges::{BumpRange, PerfectPages};
use super::recyclable::RecyclableBlocks;
use super::starts::ObjectStarts;
use crate::collection::Collection;
use crate::geometry::{
    BLOCK_BYTES, BLOCK_PAGES, CAN_FAIL, FailureGrain, HeapBlock, LineSize, MEMORY_LINE, ObjectRef, PAGE, narrow,
};
use crate::memory::{HeapMemory, RefusalCounts};
use crate::pools::{BlockPages, HeapPage, PagePools};
use crate::region::CARD_BYTES;
use crate::wear::FailedLines;

/// Who allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The program. It leaves the collector room.
    Mutator,
    /// A collection, which moves objects. It leaves a block for the next.
    Collector,
    /// A compacting collection: it cannot begin without a block.
    Compaction,
}

/// Where a compacting collection moves objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionRoom {
    /// To all lines that are free.
    Lines,
    /// To pages that are free as a whole. Two may have to pay for one that is borrowed, so they take half of their
    /// bytes.
    Pages,
}

/// Blocks, large objects, and the pages below them.
#[derive(Debug)]
pub(crate) struct ImmixSpace {
    /// Shared with the markers of a collection, as the next table.
    pub lines: Arc<LineMarks>,
    pub starts: Arc<ObjectStarts>,
    pub blocks: BlockRecords,
    pub large: LargeObjects,
    pub pools: PagePools,
    /// How often pages could not be mapped.
    pub refused: RefusalCounts,
    /// What lies below the addresses.
    pub memory: Box<dyn HeapMemory>,
    /// Blocks in which nothing is live, with their pages.
    pub free: Vec<HeapBlock>,
    /// Blocks with holes.
    pub recyclable: RecyclableBlocks,
    /// Blocks that were allocated in since the last collection.
    pub in_use: Vec<HeapBlock>,
    /// The pages that only a collection may take.
    pub headroom: usize,
    /// Whether the program got no memory for an object since the last collection.
    pub has_refused: bool,
    /// The pages of the largest of the large objects for which the program got no memory since then.
    pub refused_pages: usize,
    /// Of the headroom, what the program may take: what it does when memory is out needs memory, too.
    reserve: usize,
    /// Blocks with objects on lines that have failed since, and which collection moves them.
    pub vacating: Vec<(HeapBlock, Collection)>,
    /// What is lost.
    pub lost: LostData,
    /// Pages that were taken from their addresses, with these addresses, the oldest first. `None` if the heap deals
    /// with failures at once.
    pub(super) left: Option<Vec<(u32, HeapPage)>>,
}

impl ImmixSpace {
    /// All pages of a memory, for objects that are aligned to `align`.
    pub fn new(
        memory: Box<dyn HeapMemory>,
        line: LineSize,
        grain: FailureGrain,
        headroom: usize,
        end: u64,
        align: u32,
    ) -> Self {
        let failed: Vec<FailedLines> = memory.map_failures();
        // The first block is never used, and some have few pages.
        let blocks = failed.len().div_ceil(BLOCK_PAGES) * 5 / 4 + 1;
        let first_large = narrow(blocks) * BLOCK_BYTES;
        let lines = LineMarks::new(blocks, line, grain);
        let failed = failed.into_iter().map(|page| lines.widened(page)).collect();
        Self {
            lines: Arc::new(lines),
            starts: Arc::new(ObjectStarts::new(blocks, align)),
            blocks: BlockRecords::new(blocks),
            large: LargeObjects::new(first_large, end),
            pools: PagePools::new(failed),
            refused: RefusalCounts::default(),
            memory,
            free: Vec::new(),
            recyclable: RecyclableBlocks::default(),
            in_use: Vec::new(),
            headroom,
            has_refused: false,
            refused_pages: 0,
            reserve: 0,
            vacating: Vec::new(),
            lost: LostData::default(),
            left: None,
        }
    }

    /// The next block to allocate small objects in: one with holes if there is one.
    pub(super) fn next_block(&mut self, source: Source) -> Option<HeapBlock> {
        let Some(block) = self.recyclable.pop() else { return self.new_block(source) };
        self.use_block(block);
        Some(block)
    }

    /// A block with a hole of so many lines, as far as is known.
    pub(super) fn block_with(&mut self, lines: usize) -> Option<HeapBlock> {
        let block = self.recyclable.pop_with(lines)?;
        self.use_block(block);
        Some(block)
    }

    /// As [`RecyclableBlocks::search_with`].
    pub(super) fn block_searched(&mut self, lines: usize) -> Option<HeapBlock> {
        let block = self.recyclable.search_with(lines)?;
        self.use_block(block);
        Some(block)
    }

    /// A block in which nothing is live.
    pub(super) fn new_block(&mut self, source: Source) -> Option<HeapBlock> {
        if !self.may_take(BLOCK_PAGES, source) {
            return None;
        }
        while let Some(free) = self.free.pop() {
            if !self.pools.owes() || !self.has_perfect_page(free) {
                self.use_block(free);
                return Some(free);
            }
            // Its perfect pages first pay for what is borrowed.
            self.unmap(free);
        }
        self.pools.take_block().and_then(|pages| self.map(pages))
    }

    fn has_perfect_page(&self, block: HeapBlock) -> bool {
        let pages = self.blocks.get(block).pages.iter().flatten().flatten();
        pages.into_iter().any(|page| self.pools.failed(*page).is_perfect())
    }

    /// Takes back a block that was just given as a new one, and in which nothing is: its pages are free again.
    pub(super) fn put_back(&mut self, block: HeapBlock) {
        let newest = self.in_use.pop();
        assert_eq!(newest, Some(block), "the block was just given");
        self.unmap(block);
    }

    /// Whether objects that fit no hole may get perfect pages. Where no line has failed, each block in which nothing is
    /// live has a hole for any object, and blocks of few pages would be no gain; but when memory is nearly out, what is
    /// left may be less than a block.
    pub(super) fn has_use_for_perfect_pages(&self, source: Source) -> bool {
        CAN_FAIL && (self.pools.has_failed() || self.reserve > 0 || source == Source::Compaction)
    }

    /// Extends the block in `before` with perfect pages until `bytes` fit behind what is `left` of it. If they do not
    /// fit the block, starts another. Returns the block and its free range.
    pub(super) fn more_perfect_pages(
        &mut self,
        before: Option<PerfectPages>,
        left: BumpRange,
        bytes: u32,
        source: Source,
    ) -> Option<(PerfectPages, BumpRange)> {
        let missing = (bytes - left.left()).div_ceil(PAGE) as usize;
        let before = before.filter(|before| before.count + missing <= BLOCK_PAGES);
        let more = if before.is_some() { missing } else { bytes.div_ceil(PAGE) as usize };
        // First, as a block without pages would stay there until the next collection.
        let mut taken = [HeapPage::Borrowed; BLOCK_PAGES];
        let taken = &mut taken[..more];
        if !self.reach_perfect(more, source) || !self.pools.take_perfect(taken) {
            return None;
        }
        let place = match before {
            Some(PerfectPages { block, count }) => Some((block, count, left.cursor)),
            None => self.map([None; BLOCK_PAGES]).map(|block| (block, 0, block.start())),
        };
        let Some((block, count, cursor)) = place else {
            self.pools.give_back_all(taken.iter().copied());
            return None;
        };
        if let Err(refused) = self.memory.map_imperfect(block.page_at(count), taken) {
            self.refused.add(refused);
            self.pools.give_back_all(taken.iter().copied());
            return None;
        }
        let end = count + more;
        let pages = self.blocks.get_mut(block).pages.as_mut().expect("a block in use has pages");
        pages[count..end].iter_mut().zip(taken).for_each(|(place, page)| *place = Some(*page));
        (count..end).for_each(|page| self.lines.set_page(block, page, FailedLines::NONE));
        Some((PerfectPages { block, count: end }, BumpRange { cursor, limit: block.page_at(end) }))
    }

    /// Pages for a large object, and its place.
    pub fn take_large(&mut self, bytes: u32, source: Source) -> Option<u32> {
        let taken = self.put_large(bytes, source);
        if taken.is_none() && source == Source::Mutator {
            self.refused_pages = self.refused_pages.max(bytes.div_ceil(PAGE) as usize);
        }
        self.note_refusal(taken, source)
    }

    fn put_large(&mut self, bytes: u32, source: Source) -> Option<u32> {
        let count = bytes.div_ceil(PAGE);
        if !self.reach_perfect(count as usize, source) {
            return None;
        }
        let (at, pages) = self.large.put(count)?;
        if self.pools.take_perfect(pages) {
            let Err(refused) = self.memory.map_imperfect(at, pages) else { return Some(at) };
            self.refused.add(refused);
            self.pools.give_back_all(pages.iter().copied());
        }
        self.large.take_back(at);
        None
    }

    /// Frees the pages of free blocks until there are `count` perfect ones or no such block is left: pages are borrowed
    /// only when there are no others. Returns whether the headroom allows taking them, and does not check whether the
    /// missing ones can be borrowed.
    #[inline]
    fn reach_perfect(&mut self, count: usize, source: Source) -> bool {
        if !self.may_take(count, source) {
            return false;
        }
        while !self.pools.has_perfect(count)
            && let Some(free) = self.free.pop()
        {
            self.unmap(free);
        }
        // What is withheld for borrowed pages must not be the collector's headroom.
        !CAN_FAIL || self.pools.has_perfect(count) || self.may_take(self.pools.taken_by(count), source)
    }

    /// Notes whether the program got nothing.
    pub(super) fn note_refusal(&mut self, taken: Option<u32>, source: Source) -> Option<u32> {
        self.has_refused |= taken.is_none() && source == Source::Mutator;
        taken
    }

    /// Whether the program would get so many perfect pages, borrowed ones with them.
    pub fn has_pages_for(&self, count: usize) -> bool {
        if count == 0 {
            return true;
        }
        let pages = self.free.iter().filter_map(|block| self.blocks.get(*block).pages).flatten().flatten();
        let in_blocks = pages.filter(|page| self.pools.failed(*page) == FailedLines::NONE).count().min(count);
        self.may_take(in_blocks + self.pools.taken_by(count - in_blocks), Source::Mutator)
    }

    fn may_take(&self, pages: usize, source: Source) -> bool {
        let left = match source {
            Source::Mutator => self.headroom.saturating_sub(self.reserve),
            Source::Collector if self.headroom >= 2 * BLOCK_PAGES => BLOCK_PAGES,
            Source::Collector | Source::Compaction => 0,
        };
        self.free_pages() >= pages + left
    }

    /// Memory is out: the program may take a block of the headroom, or half of a small one.
    pub fn open_reserve(&mut self) {
        self.reserve = BLOCK_PAGES.min(self.headroom / 2);
    }

    /// Ends a collection: the reserve is closed if there is enough without it.
    pub fn close_reserve(&mut self) {
        if self.free_pages() >= self.headroom {
            self.reserve = 0;
        }
    }

    /// What only a collection may take, in bytes.
    pub const fn headroom_bytes(&self) -> u64 {
        self.headroom as u64 * PAGE as u64
    }

    /// The pages in which nothing is live.
    pub fn free_pages(&self) -> usize {
        self.pools.available() + self.free.len() * BLOCK_PAGES
    }

    pub(super) fn use_block(&mut self, block: HeapBlock) {
        self.blocks.get_mut(block).state = HeapBlockState::InUse;
        self.in_use.push(block);
    }

    /// Lets others allocate in the lines of a block that are still free.
    pub(super) fn share(&mut self, block: HeapBlock, free: &FreeLines) {
        let longest = free.holes().map(|hole| hole.len()).max();
        if let Some(longest) = longest {
            self.blocks.get_mut(block).census.free = free.count();
            self.recyclable.push(block, narrow(longest));
        }
    }

    pub(super) fn unmap(&mut self, block: HeapBlock) {
        self.memory.unmap(block.start(), BLOCK_PAGES);
        let pages = self.blocks.unmap(block);
        if let Some(left) = &mut self.left {
            let places = (block.start()..).step_by(PAGE as usize).zip(pages);
            left.extend(places.filter_map(|(at, page)| Some((at, page?))));
        }
        self.pools.give_back_all(pages.into_iter().flatten());
    }

    /// Behind all memory that objects lie in.
    pub fn end(&self) -> u32 {
        self.large.end()
    }

    /// Ends a collection: frees the large objects that did not survive, of all or of the young ones.
    pub fn sweep_large(&mut self, all: bool, survives: impl Fn(ObjectRef) -> bool) {
        let Self { large, memory, left, pools, .. } = self;
        large.sweep(all, survives, |at, pages| {
            memory.unmap(at, pages.len());
            if let Some(left) = left {
                left.extend((at..).step_by(PAGE as usize).zip(pages.iter().copied()));
            }
            pools.give_back_all(pages.iter().copied());
        });
    }

    fn map(&mut self, pages: BlockPages) -> Option<HeapBlock> {
        let Some(block) = self.blocks.map(pages) else {
            self.pools.give_back_all(pages.into_iter().flatten());
            return None;
        };
        let below: Vec<HeapPage> = pages.into_iter().flatten().collect();
        if let Err(refused) = self.memory.map_imperfect(block.start(), &below) {
            self.refused.add(refused);
            self.blocks.unmap(block);
            self.pools.give_back_all(below);
            return None;
        }
        self.lines.clear(block);
        if below.len() == BLOCK_PAGES && !self.pools.has_failed() {
            self.lines.set_perfect_pages(block);
        } else {
            let failed = pages.map(|page| page.map_or(FailedLines::ALL, |page| self.pools.failed(page)));
            self.lines.set_pages(block, failed);
        }
        self.in_use.push(block);
        Some(block)
    }

    /// The marks of lines, while no collection is under way.
    fn lines_mut(&mut self) -> &mut LineMarks {
        Arc::get_mut(&mut self.lines).expect("no marker has the table")
    }

    /// A full collection begins.
    pub fn begin_full_collection(&mut self) {
        self.lines_mut().begin_full_collection();
        Arc::get_mut(&mut self.starts).expect("no marker has the table").clear();
    }

    /// Ends a collection: finds out what is free in the blocks that were allocated in, or in all of them.
    pub fn sweep_blocks(&mut self, all: bool) {
        let young = std::mem::take(&mut self.in_use);
        if all {
            self.recyclable.clear();
            self.free.clear();
            for block in self.blocks.indices() {
                self.sweep_block(block);
            }
        } else {
            // A block that was shared is on both lists.
            self.recyclable.retain(|block| self.blocks.get(block).state == HeapBlockState::Recyclable);
            for block in young {
                if self.blocks.get(block).state == HeapBlockState::InUse {
                    self.sweep_block(block);
                }
            }
        }
    }

    fn sweep_block(&mut self, block: HeapBlock) {
        if self.blocks.get(block).state == HeapBlockState::Absent {
            return;
        }
        let census = self.lines_mut().sweep(block);
        if census.live == 0 {
            return self.free_block(block, census);
        }
        let state = if census.holes == 0 { HeapBlockState::Full } else { HeapBlockState::Recyclable };
        if state == HeapBlockState::Recyclable {
            self.recyclable.push(block, census.longest);
        }
        let swept = self.blocks.get_mut(block);
        *swept = BlockRecord { state, pages: swept.pages.take(), census, evacuation: Evacuation::Stays };
    }

    /// Nothing is live in a block. It keeps its pages, unless some are borrowed or missing.
    fn free_block(&mut self, block: HeapBlock, census: super::lines::LineCensus) {
        let freed = self.blocks.get_mut(block);
        let pages = freed.pages.expect("only a block with pages is freed");
        if !pages.iter().all(|page| matches!(page, Some(HeapPage::Own(_)))) {
            return self.unmap(block);
        }
        *freed = BlockRecord { state: HeapBlockState::Free, pages: Some(pages), census, evacuation: Evacuation::Stays };
        self.free.push(block);
    }

    /// The bytes that can be allocated: what works of free pages, and the holes of blocks that nobody allocates in.
    pub fn free_bytes(&self) -> u64 {
        let in_blocks: u64 = self.recyclable.iter().map(|block| self.free_lines(block)).sum();
        in_blocks * u64::from(MEMORY_LINE) + self.working_bytes()
    }

    /// What works of the pages in which nothing is live, in bytes.
    pub fn working_bytes(&self) -> u64 {
        let in_blocks: u64 = self.free.iter().map(|block| self.free_lines(*block)).sum();
        in_blocks * u64::from(MEMORY_LINE) + self.pools.working_bytes()
    }

    /// The bytes of all that is free, or of whole pages.
    pub fn room(&self, room: CompactionRoom) -> u64 {
        match room {
            CompactionRoom::Lines => self.free_bytes(),
            CompactionRoom::Pages => self.free_pages() as u64 * u64::from(PAGE),
        }
    }

    fn free_lines(&self, block: HeapBlock) -> u64 {
        self.blocks.get(block).census.free.into()
    }

    /// The bytes of the cards of what objects can lie in.
    pub fn card_bytes(&self) -> u64 {
        let large = self.large.pages() as u64 * u64::from(PAGE);
        (u64::from(self.large.first()) + large) / u64::from(CARD_BYTES)
    }

    /// The bytes of all tables.
    pub fn metadata_bytes(&self) -> u64 {
        let lists = self.in_use.capacity() * size_of::<HeapBlock>();
        self.lines.metadata_bytes()
            + self.starts.metadata_bytes()
            + self.blocks.metadata_bytes()
            + self.large.metadata_bytes()
            + self.pools.metadata_bytes()
            + self.recyclable.metadata_bytes()
            + lists as u64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::memory::SimulatedMemory;
    use crate::memory::tests::RefusingMemory;
    use crate::space::allocator::LocalAllocator;

    pub const HALF: FailedLines = FailedLines::from_bits(u64::MAX >> 32);

    /// A space of which so many pages are perfect, and of so many others half works.
    pub fn space(perfect: usize, imperfect: usize) -> ImmixSpace {
        let failed = [vec![FailedLines::NONE; perfect], vec![HALF; imperfect]].concat();
        ImmixSpace::new(Box::new(SimulatedMemory::new(failed)), LineSize::L64, FailureGrain::MemoryLine, 0, 1 << 24, 16)
    }

    #[test]
    fn a_free_block_of_imperfect_pages_is_used_again_although_pages_are_borrowed() {
        let mut space = space(12, 20);
        // Two pages are borrowed, for four of the heap's own.
        space.take_large(14 * PAGE, Source::Mutator).unwrap();
        assert_eq!((space.pools.borrowed(), space.pools.available()), (2, 16));
        let block = space.new_block(Source::Mutator).unwrap();
        space.sweep_blocks(true);
        assert_eq!((&space.free[..], space.pools.available()), (&[block][..], 8));
        assert_eq!(space.new_block(Source::Mutator), Some(block));
        assert_eq!((space.free.len(), space.pools.available()), (0, 8));
    }

    #[test]
    fn the_perfect_pages_of_a_free_block_first_pay_for_borrowed_ones() {
        let mut space = space(16, 8);
        let [imperfect, perfect] = std::array::from_fn(|_| space.new_block(Source::Mutator).unwrap());
        space.unmap(imperfect);
        space.take_large(10 * PAGE, Source::Mutator).unwrap();
        space.sweep_blocks(true);
        assert_eq!((&space.free[..], space.pools.available(), space.pools.owes()), (&[perfect][..], 4, true));
        let block = space.new_block(Source::Mutator).unwrap();
        let pages = space.blocks.get(block).pages.unwrap();
        assert!(pages.into_iter().flatten().all(|page| !space.pools.failed(page).is_perfect()));
        assert_eq!((space.pools.borrowed(), space.pools.owes(), space.pools.available()), (2, false, 6));
    }

    #[test]
    fn the_last_pages_serve_objects_that_fit_no_hole_where_lines_have_failed_and_in_compaction() {
        for (imperfect, source, is_served) in
            [(0, Source::Mutator, false), (1, Source::Mutator, true), (0, Source::Compaction, true)]
        {
            let (mut space, mut local) = (space(12, imperfect), LocalAllocator::default());
            assert!(local.allocate(&mut space, 6 * PAGE, source).is_some(), "it fits a block");
            let served = local.allocate(&mut space, 3 * PAGE, source);
            assert_eq!(served.is_some(), is_served, "four pages are left, which are no block");
        }
    }

    #[test]
    fn compaction_uses_no_block_of_which_objects_would_fill_less_than_half() {
        // Of each page, the first 40 lines are a hole, and behind it each second line works.
        let failed = FailedLines::from_bits(0x5555_5555_5555_5555 << 40);
        for (lines, source, borrowed) in
            [(25, Source::Compaction, 1), (33, Source::Compaction, 0), (25, Source::Mutator, 0)]
        {
            let memory = Box::new(SimulatedMemory::new(vec![failed; 24]));
            let mut space = ImmixSpace::new(memory, LineSize::L64, FailureGrain::MemoryLine, 0, 1 << 24, 16);
            let mut local = LocalAllocator::default();
            assert!(local.allocate(&mut space, lines * MEMORY_LINE, source).is_some());
            assert_eq!(space.pools.borrowed(), borrowed, "{lines} lines, {source:?}");
            // Smaller objects use such a block.
            assert!(local.allocate(&mut space, 320, source).is_some());
            assert_eq!(space.pools.available(), 24 - 8 - 2 * borrowed, "{lines} lines, {source:?}");
        }
    }

    #[test]
    fn borrowing_leaves_the_collector_its_headroom() {
        let failed = vec![HALF; 400];
        for (count, is_served) in [(187, true), (188, false)] {
            let memory = Box::new(SimulatedMemory::new(failed.clone()));
            let mut space = ImmixSpace::new(memory, LineSize::L64, FailureGrain::MemoryLine, 25, 1 << 24, 16);
            assert_eq!(space.take_large(count * PAGE, Source::Mutator).is_some(), is_served, "{count}");
            assert_eq!(space.pools.available(), if is_served { 26 } else { 400 });
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_taken_back_with_its_pages() {
        let failed = [vec![FailedLines::NONE; 6], vec![HALF; 10]].concat();
        let memory = Box::new(RefusingMemory(SimulatedMemory::new(failed)));
        let mut space = ImmixSpace::new(memory, LineSize::L64, FailureGrain::MemoryLine, 0, 1 << 24, 16);
        let before = (space.pools.available(), space.large.pages(), space.large.end());
        // More than there are perfect pages, so some are borrowed.
        assert_eq!(space.take_large(8 * PAGE, Source::Mutator), None);
        assert_eq!(space.new_block(Source::Mutator), None);
        assert_eq!(LocalAllocator::default().allocate(&mut space, 3000, Source::Mutator), None);
        assert_eq!((space.pools.available(), space.large.pages(), space.large.end()), before);
        assert_eq!((space.pools.borrowed(), space.refused.mappings > 2), (0, true));
        space.sweep_large(true, |_| false);
    }

    #[test]
    fn a_page_of_which_no_line_of_the_heap_works_is_of_no_use() {
        // One line of 64 B in each 256 B.
        let failed = vec![FailedLines::from_bits(0x1111_1111_1111_1111); 16];
        for (grain, available) in [(FailureGrain::MemoryLine, 16), (FailureGrain::HeapLine, 0)] {
            let memory = Box::new(SimulatedMemory::new(failed.clone()));
            let space = ImmixSpace::new(memory, LineSize::L256, grain, 0, 1 << 24, 16);
            assert_eq!((space.pools.available(), space.pools.capacity()), (available, available as u64 * 3072));
        }
    }

    #[test]
    fn a_free_block_is_used_again_before_others_get_pages() {
        for imperfect in [0, 24] {
            let mut space = space(24, imperfect);
            let block = space.new_block(Source::Mutator).unwrap();
            space.sweep_blocks(true);
            let left = space.pools.available();
            assert_eq!((left, space.free_pages()), (16 + imperfect, 24 + imperfect));
            assert_eq!(space.new_block(Source::Mutator), Some(block));
            assert_eq!((space.free.len(), space.pools.available()), (0, left), "{imperfect}");
        }
    }

    #[test]
    fn tables_are_counted_with_what_each_block_page_and_object_takes() {
        let of = |line, align| {
            let memory = SimulatedMemory::new(vec![FailedLines::NONE; 1024]);
            ImmixSpace::new(Box::new(memory), line, FailureGrain::MemoryLine, 0, 1 << 24, align)
        };
        // A quarter more than 1024 pages fill, and the first, which is never used.
        let blocks = 161;
        // Marks of lines of 64 B instead of 256 B, and bits for each 8 B instead of 16 B.
        let mut space = of(LineSize::L256, 16);
        let expected = space.metadata_bytes();
        assert_eq!(of(LineSize::L64, 16).metadata_bytes(), expected + blocks * (512 - 128));
        assert_eq!(of(LineSize::L256, 8).metadata_bytes(), expected + blocks * 256);
        // Behind these: failed lines with a flag for each block; a set of failed lines and a number for each page.
        assert!((blocks * (128 + 72 + 256) + 1024 * 12..expected).contains(&(expected - 8)));
        assert_eq!(space.card_bytes(), blocks * 128);
        // A large object is on two lists and has pages, with room for some more, and cards.
        for objects in 1..3 {
            space.take_large(3 * PAGE, Source::Mutator).unwrap();
            let least = expected + objects * (2 * 8 + 4 + 3 * 8);
            assert!((least..=least + 3 * 4 + 5 * 8).contains(&space.metadata_bytes()));
            assert_eq!(space.card_bytes(), blocks * 128 + objects * 3 * 16);
        }
        let before = space.metadata_bytes();
        let block = space.new_block(Source::Mutator).unwrap();
        let in_use = space.metadata_bytes();
        assert!(in_use >= before + 4, "a block is on the list of those in use");
        space.recyclable.push(block, 1);
        assert!(space.metadata_bytes() >= in_use + 4, "and on that of those with holes");
    }
}
