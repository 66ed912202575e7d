//! Lines that fail, are lost, or change with their page, while the heap is used [Gao13, 3.2.2] and 3.3.3.
//!
//! **Problem.** A failure is reported by its address. When the heap hears of it, its page may be elsewhere; and several
//! lines of one page may fail at once. **Idea.** The heap deals with failures in batches. If they are reported late, it
//! records which pages are taken from which addresses. **Why this way.** Nobody can hold up the hardware, and each
//! failure must find its page.

use std::collections::BTreeMap;

use super::immix_space::ImmixSpace;
use crate::collection::Collection;
use crate::geometry::{BLOCK_BYTES, BLOCK_PAGES, HeapBlock, MEMORY_LINE, ObjectRef, PAGE};
use crate::memory::HeapPageChange;
use crate::pools::HeapPage;
use crate::space::blocks::HeapBlockState;
use crate::wear::FailedLines;

/// What becomes of a line that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFailure {
    /// The heap does not use that memory, or it is a borrowed page.
    NotThere,
    /// It was left out already.
    Known,
    /// Nothing was in it: it is left out from now on.
    Free,
    /// A large object got another page in its place.
    Replaced,
    /// Objects may be in it. This collection moves them.
    InUse(HeapBlock, Collection),
    /// Its data is gone, and objects may have been in it. The next collection tells which.
    Lost,
}

impl ImmixSpace {
    /// From now on, records each page that is taken from its address.
    pub fn note_leaving(&mut self) {
        self.left.get_or_insert_default();
    }

    /// How many such records there are.
    pub fn leavings(&self) -> usize {
        self.left.as_ref().map_or(0, Vec::len)
    }

    /// Records no more.
    pub fn end_note_leaving(&mut self) {
        self.left = None;
    }

    /// Drops the oldest of them: all failures that came before are dealt with.
    pub fn forget_leavings(&mut self, count: usize) {
        self.left.iter_mut().for_each(|left| _ = left.drain(..count));
    }

    /// A perfect page in the place of one with objects that cannot move, of a free block if there is no other.
    fn replace(&mut self, at: u32, page: HeapPage) -> HeapPage {
        if let Some(left) = &mut self.left {
            left.push((at, page));
        }
        while !self.pools.has_perfect(1)
            && let Some(free) = self.free.pop()
        {
            self.unmap(free);
        }
        self.pools.replace(page)
    }

    /// Lines of 64 B have failed. Returns what becomes of what is in each. All that has failed of a large object's page
    /// is known before another page is there.
    pub fn fail_lines(&mut self, offsets: &[u32]) -> Vec<LineFailure> {
        self.tell_all(offsets, Self::fail_line)
    }

    /// The data of lines of 64 B is gone. Returns what becomes of what was in each.
    pub fn lose_lines(&mut self, offsets: &[u32]) -> Vec<LineFailure> {
        self.expect_losses(offsets);
        self.tell_all(offsets, Self::lose_line)
    }

    /// Announces that the data of these lines is gone, before [`Self::lose_lines`] is called for them: if a page of a
    /// large object is replaced in the meantime, these lines of it are not copied. Other lines are ignored.
    pub fn expect_losses(&mut self, offsets: &[u32]) {
        for offset in offsets.iter().filter(|offset| self.large.page_mut(**offset).is_some()) {
            self.lost.add_line(*offset);
        }
    }

    fn tell_all(&mut self, offsets: &[u32], tell: impl Fn(&mut Self, u32) -> LineFailure) -> Vec<LineFailure> {
        for offset in offsets {
            if let Some(page) = self.large.page_mut(*offset).copied() {
                self.pools.fail(page, self.unusable_with(*offset));
            }
        }
        let mut of_large: BTreeMap<u32, LineFailure> = BTreeMap::new();
        let tell_once = |offset: &u32| {
            let at = offset / PAGE * PAGE;
            let is_large = self.large.page_mut(*offset).is_some();
            let of_left = self.tell_left(*offset, &tell);
            let here = of_large.get(&at).copied().unwrap_or_else(|| tell(self, *offset));
            if is_large {
                of_large.insert(at, here);
            }
            match (here, of_left) {
                (_, Some(LineFailure::Lost)) => LineFailure::Lost,
                (LineFailure::NotThere, Some(of_left)) if !self.is_borrowed(*offset) => of_left,
                _ => here,
            }
        };
        offsets.iter().map(tell_once).collect()
    }

    /// A line has failed, maybe of a page that was at this offset before, and is in a pool or elsewhere now. Returns
    /// what becomes of what is in it there; `None` if there was no such page.
    fn tell_left(&mut self, offset: u32, tell: &impl Fn(&mut Self, u32) -> LineFailure) -> Option<LineFailure> {
        let at = offset / PAGE * PAGE;
        let left = self.left.iter().flatten().filter(|(place, _)| *place == at).map(|(_, page)| *page);
        let pages: Vec<HeapPage> = left.filter(|page| page.number().is_some()).collect();
        let tell_page = |page: HeapPage| match self.place_of(page) {
            Some(now) if now == at => None,
            Some(now) => Some(tell(self, now + offset % PAGE)),
            None => {
                let failed = self.pools.failed(page).union(self.unusable_with(offset));
                self.pools.set_failed(page, failed);
                Some(LineFailure::Free)
            }
        };
        let told: Vec<LineFailure> = pages.into_iter().filter_map(tell_page).collect();
        told.iter().copied().find(|told| *told == LineFailure::Lost).or_else(|| told.first().copied())
    }

    /// The lines of its page that become unusable if the line at an offset fails.
    fn unusable_with(&self, offset: u32) -> FailedLines {
        self.lines.widened(FailedLines::NONE.with(offset % PAGE / MEMORY_LINE))
    }

    /// Where a page is, if it is below addresses.
    fn place_of(&self, page: HeapPage) -> Option<u32> {
        let in_blocks = self.blocks.indices().flat_map(|block| {
            let pages = self.blocks.find(block).and_then(|block| block.pages).into_iter().flatten();
            (0..).zip(pages).map(move |(place, page)| (block.page_at(place), page))
        });
        let mut in_blocks = in_blocks.filter_map(|(at, there)| Some((at, there?)));
        let found = in_blocks.find_map(|(at, there)| (there == page).then_some(at));
        found.or_else(|| self.large.place_of(page))
    }

    /// A line of 64 B has failed, at an offset. Returns what becomes of what is in it.
    fn fail_line(&mut self, offset: u32) -> LineFailure {
        let (page, line) = ((offset / PAGE) as usize, offset % PAGE / MEMORY_LINE);
        self.memory.fail(offset / PAGE * PAGE, line);
        let failed = self.unusable_with(offset);
        if let Some(replaced) = self.large.page_mut(offset).copied() {
            self.pools.fail(replaced, failed);
            self.replace_large(offset / PAGE * PAGE, replaced);
            return LineFailure::Replaced;
        }
        let block = HeapBlock::at(offset);
        let Some(pages) = self.blocks.find(block).and_then(|block| block.pages) else { return LineFailure::NotThere };
        let Some(HeapPage::Own(token)) = pages[page % BLOCK_PAGES] else { return LineFailure::NotThere };
        self.pools.fail(HeapPage::Own(token), failed);
        let (was_live, state) = (self.lines.is_live(offset), self.blocks.get(block).state);
        if !self.lines.fail(offset) {
            return LineFailure::Known;
        }
        let due = match (was_live, state) {
            (true, _) => Collection::Full,
            (false, HeapBlockState::InUse) => Collection::Nursery,
            (false, _) => return LineFailure::Free,
        };
        self.vacating.push((block, due));
        LineFailure::InUse(block, due)
    }

    /// Puts a perfect page below a large object, in the place of one at an offset.
    fn replace_large(&mut self, at: u32, page: HeapPage) {
        let perfect = self.replace(at, page);
        *self.large.page_mut(at).expect("the object is still there") = perfect;
        self.memory.replace(at, perfect, self.lost.in_page(at));
    }

    /// The data of a line of 64 B is gone. Returns what becomes of what was in it.
    fn lose_line(&mut self, offset: u32) -> LineFailure {
        let block = HeapBlock::at(offset);
        // What is copied to another page is all but what is lost.
        if self.large.page_mut(offset).is_some() {
            self.lost.add_line(offset);
        }
        let failure = match self.fail_line(offset) {
            // Another page is there, with all but this line.
            LineFailure::Replaced => LineFailure::Lost,
            // Objects lie in borrowed pages, too.
            LineFailure::NotThere if self.fail_borrowed(offset) => LineFailure::Lost,
            LineFailure::Known if self.vacating.iter().any(|(vacating, _)| *vacating == block) => LineFailure::Lost,
            LineFailure::InUse(block, _) => {
                self.vacating.push((block, Collection::Full));
                LineFailure::Lost
            }
            other => other,
        };
        if failure == LineFailure::Lost {
            self.lost.add_line(offset);
        }
        failure
    }

    /// The failed lines of these pages have changed. Returns whether objects may be lost as a result.
    pub fn change_pages(&mut self, changes: &[HeapPageChange]) -> bool {
        // All are known before one of them could replace another.
        let note = |change: &HeapPageChange| {
            let new = change.failed.without(self.pools.failed(change.page)).without(change.lost);
            self.pools.set_failed(change.page, self.lines.widened(change.failed));
            new
        };
        let new: Vec<FailedLines> = changes.iter().map(note).collect();
        changes.iter().zip(new).fold(false, |is_lost, (change, new)| self.change_page(change, new) || is_lost)
    }

    /// A page has changed; `new` are the lines that have failed since and can still be read. Returns whether objects
    /// may be lost as a result.
    fn change_page(&mut self, change: &HeapPageChange, new: FailedLines) -> bool {
        let Some(at) = change.at else { return false };
        let offsets = |lines: FailedLines| lines.lines().map(|line| at + line * MEMORY_LINE).collect::<Vec<u32>>();
        if let Some(page) = self.large.page_mut(at).copied() {
            offsets(change.lost).into_iter().for_each(|line| self.lost.add_line(line));
            if !change.failed.is_perfect() {
                self.replace_large(at, page);
            }
            return !change.lost.is_perfect();
        }
        let block = HeapBlock::at(at);
        let mut is_lost = false;
        for line in offsets(change.lost) {
            is_lost |= self.lose_line(line) == LineFailure::Lost;
        }
        for line in offsets(new) {
            if self.fail_line(line) == LineFailure::NotThere {
                self.fail_borrowed(line);
            }
        }
        self.lines.set_page(block, (at / PAGE) as usize % BLOCK_PAGES, change.failed);
        is_lost
    }

    /// A line of a block has failed. Objects leave it if its page is borrowed: the pools know nothing of such a line.
    /// Returns whether it is.
    fn fail_borrowed(&mut self, offset: u32) -> bool {
        let is_borrowed = self.is_borrowed(offset);
        if is_borrowed {
            self.lines.fail(offset);
            self.vacating.push((HeapBlock::at(offset), Collection::Full));
        }
        is_borrowed
    }

    fn is_borrowed(&self, offset: u32) -> bool {
        let pages = self.blocks.find(HeapBlock::at(offset)).and_then(|block| block.pages);
        pages.is_some_and(|pages| pages[(offset / PAGE) as usize % BLOCK_PAGES] == Some(HeapPage::Borrowed))
    }

    /// Puts perfect pages below an object that lies on failed lines and cannot move.
    pub fn replace_below(&mut self, object: ObjectRef, bytes: u32) -> u64 {
        let block = object.block();
        let (first, last) = (object.offset() % BLOCK_BYTES / PAGE, (object.offset() % BLOCK_BYTES + bytes - 1) / PAGE);
        let mut replaced = 0;
        for page in first as usize..=last as usize {
            let at = block.page_at(page);
            let (start, end) = (object.offset().max(at), (object.offset() + bytes).min(at + PAGE));
            // A borrowed page has failed lines if data was lost in it.
            let has_failed = self.lines.any_failed(start, end - start);
            let pages = self.blocks.find(block).and_then(|block| block.pages);
            let Some(failed) = pages.and_then(|pages| pages[page]).filter(|_| has_failed) else { continue };
            let perfect = self.replace(at, failed);
            self.blocks.get_mut(block).pages.as_mut().expect("it has pages")[page] = Some(perfect);
            self.memory.replace(at, perfect, self.lost.in_page(at));
            self.lines.set_page(block, page, FailedLines::NONE);
            replaced += 1;
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{FailureGrain, LineSize};
    use crate::memory::SimulatedMemory;
    use crate::space::Source;
    use crate::space::immix_space::tests::{HALF, space};

    #[test]
    fn no_page_is_replaced_by_one_that_has_failed_at_the_same_time() {
        let mut space = space(4, 0);
        let at = space.take_large(PAGE, Source::Mutator).unwrap();
        let [page] = space.large.pages_of(ObjectRef::new(at).unwrap()).unwrap() else { panic!("one page") };
        let changed = |page, at| HeapPageChange { page, at, failed: HALF, lost: FailedLines::NONE };
        let mut changes = vec![changed(*page, Some(at))];
        changes.extend((0..4).map(HeapPage::own).filter(|other| other != page).map(|other| changed(other, None)));
        space.change_pages(&changes);
        let [page] = space.large.pages_of(ObjectRef::new(at).unwrap()).unwrap() else { panic!("one page") };
        assert_eq!(*page, HeapPage::Borrowed, "no other is perfect");
    }

    #[test]
    fn the_page_of_a_large_object_is_replaced_once_for_all_lines_that_fail_together() {
        let mut space = space(8, 0);
        let at = space.take_large(2 * PAGE, Source::Mutator).unwrap();
        let before = space.large.pages_of(ObjectRef::new(at).unwrap()).unwrap().to_vec();
        let lines = [at, at + 64, at, at + PAGE + 640];
        assert_eq!(space.fail_lines(&lines), [LineFailure::Replaced; 4]);
        let failed = before.iter().map(|page| space.pools.failed(*page).bits());
        assert_eq!(failed.collect::<Vec<_>>(), [0b11, 1 << 10]);
        assert_eq!(space.pools.capacity(), 8 * 4096 - 3 * 64, "the pages there now are whole");
        // Of lines whose data is gone, too.
        assert_eq!(space.lose_lines(&[at, at + 64]), [LineFailure::Lost; 2]);
        assert_eq!(space.pools.capacity(), 8 * 4096 - 5 * 64);
        assert_eq!((space.pools.demand().requested, space.lost.in_page(at).bits()), (2 + 2 + 1, 0b11));
    }

    #[test]
    fn all_lines_that_failed_before_an_object_came_are_found() {
        let mut space = space(16, 0);
        space.note_leaving();
        let dead = space.take_large(PAGE, Source::Mutator).unwrap();
        let page = space.large.pages_of(ObjectRef::new(dead).unwrap()).unwrap()[0];
        space.sweep_large(true, |_| false);
        // Another object is at the same address, on another page.
        let mut other = [HeapPage::Borrowed];
        assert!(space.pools.take_perfect(&mut other) && other == [page]);
        assert_eq!(space.take_large(PAGE, Source::Mutator), Some(dead));
        space.pools.give_back(page);
        space.fail_lines(&[dead, dead + 64]);
        assert_eq!(space.pools.failed(page).bits(), 0b11);
        // A page that was replaced before the heap heard of its next line.
        let mut space = crate::space::immix_space::tests::space(16, 0);
        space.note_leaving();
        let large = space.take_large(PAGE, Source::Mutator).unwrap();
        let page = space.large.pages_of(ObjectRef::new(large).unwrap()).unwrap()[0];
        space.fail_lines(&[large]);
        space.lose_lines(&[large + 64]);
        assert_eq!(space.pools.failed(page).bits(), 0b11);
    }

    #[test]
    fn a_block_to_which_a_page_has_gone_is_left_once_a_line_of_the_page_fails() {
        let mut space = space(8, 0);
        space.note_leaving();
        let dead = space.take_large(8 * PAGE, Source::Mutator).unwrap();
        space.sweep_large(true, |_| false);
        let block = space.new_block(Source::Mutator).unwrap();
        assert_eq!(space.fail_lines(&[dead]), [LineFailure::InUse(block, Collection::Nursery)]);
        assert_eq!(space.vacating, [(block, Collection::Nursery)]);
        assert_eq!(space.lose_lines(&[dead + PAGE]), [LineFailure::Lost]);
        assert!(space.lost.is_pending());
    }

    #[test]
    fn objects_leave_a_borrowed_page_of_which_lines_have_failed() {
        let mut space = space(0, 20);
        let mut local = crate::LocalAllocator::default();
        // It fits no hole of half a page, and lies on borrowed pages.
        let at = local.allocate(&mut space, 3000, Source::Mutator).unwrap();
        let change = HeapPageChange {
            page: HeapPage::Borrowed,
            at: Some(at / PAGE * PAGE),
            failed: FailedLines::NONE.with(3),
            lost: FailedLines::NONE,
        };
        assert!(!space.change_pages(&[change]));
        assert_eq!(space.vacating, [(HeapBlock::at(at), Collection::Full)]);
    }

    #[test]
    fn a_line_that_failed_before_its_page_left_is_found_where_the_page_is_now() {
        let mut space = space(16, 0);
        space.note_leaving();
        let dead = space.take_large(2 * PAGE, Source::Mutator).unwrap();
        let block = space.new_block(Source::Mutator).unwrap();
        space.sweep_large(true, |_| false);
        space.sweep_blocks(true);
        let failed =
            |space: &ImmixSpace| (0..16).map(|page| space.pools.failed(HeapPage::own(page)).count()).sum::<u32>();
        assert_eq!((space.fail_lines(&[dead + 64]), failed(&space)), (vec![LineFailure::Free], 1));
        // A free block gives its pages to a large object.
        let now = space.take_large(15 * PAGE, Source::Mutator).unwrap();
        assert_eq!(space.leavings(), 2 + 8);
        for (line, count) in [(block.start(), 2), (block.page_at(7) + 4032, 3)] {
            assert_eq!(space.fail_lines(&[line]), [LineFailure::Replaced]);
            assert_eq!(failed(&space), count);
        }
        let pages = space.large.pages_of(ObjectRef::new(now).unwrap()).unwrap();
        assert!(pages.iter().all(|page| space.pools.failed(*page).is_perfect()), "it lies on none of them");
        assert_eq!(space.leavings(), 2 + 8 + 2);
        space.forget_leavings(10);
        let there = block.start() + 64;
        assert_eq!((space.fail_lines(&[there]), failed(&space)), (vec![LineFailure::NotThere], 3));
    }

    #[test]
    fn a_page_is_replaced_by_a_perfect_one_of_a_free_block() {
        let mut space = space(16, 0);
        let at = space.take_large(3 * PAGE, Source::Mutator).unwrap();
        space.new_block(Source::Mutator).unwrap();
        let more = space.take_large(5 * PAGE, Source::Mutator).unwrap();
        space.sweep_blocks(true);
        assert_eq!((space.free.len(), space.pools.available()), (1, 0));
        assert_eq!([at, more].map(|at| space.fail_line(at)), [LineFailure::Replaced; 2]);
        assert_eq!((space.pools.borrowed(), space.free_pages()), (0, 8), "the pages that have failed, and six others");
    }

    #[test]
    fn only_the_pages_below_the_part_of_an_object_that_lies_on_failed_lines_are_replaced() {
        let mut space = space(8, 0);
        let block = space.new_block(Source::Mutator).unwrap();
        let object = ObjectRef::new(block.page_at(1) - 1024).unwrap();
        // Lines before the object, in it, and behind it.
        for line in [block.page_at(0), block.page_at(1) + 64, block.page_at(2) - 64] {
            space.fail_line(line);
        }
        assert_eq!(space.replace_below(object, 2048), 1);
        let failed = [0, 1].map(|page| space.lines.any_failed(block.page_at(page), PAGE));
        assert_eq!(failed, [true, false]);
    }

    #[test]
    fn what_fails_later_takes_a_whole_line_of_the_heap_too() {
        let memory = Box::new(SimulatedMemory::new(vec![FailedLines::NONE; 16]));
        let mut space = ImmixSpace::new(memory, LineSize::L256, FailureGrain::HeapLine, 0, 1 << 24, 16);
        let block = space.new_block(Source::Mutator).unwrap();
        space.fail_line(block.start() + 64);
        assert_eq!(space.pools.capacity(), 16 * 4096 - 256);
        let page = HeapPage::own(15);
        let failed = FailedLines::from_bits(1);
        space.change_pages(&[HeapPageChange { page, at: None, failed, lost: FailedLines::NONE }]);
        assert_eq!(space.pools.capacity(), 16 * 4096 - 512);
    }
}
