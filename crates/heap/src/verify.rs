//! Whether a heap is sound: a check of every object that can be reached, and of its lines.

use std::collections::BTreeMap;

use crate::geometry::{BLOCK_BYTES, MEMORY_LINE, ObjectRef, PAGE};
use crate::heap::ManagedHeap;
use crate::object::{CollectorWord, ObjectModel};
use crate::pools::HeapPage;
use crate::region::LOST;
use crate::space::blocks::HeapBlockState;

/// What is wrong with a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Violation {
    /// the object at {0:#x} lies where no memory is
    NotThere(u32),
    /// the object at {0:#x} crosses the end of a block
    CrossesBlocks(u32),
    /// the object at {0:#x} lies on a failed line
    OnFailedLine(u32),
    /// the objects at {0:#x} and {1:#x} overlap
    Overlap(u32, u32),
    /// the object at {0:#x} was moved, and a reference to it remains
    Moved(u32),
    /// the slot at {0:#x} of an old object refers to a young one, and its card is clean
    CleanCard(u32),
    /// the old object at {0:#x} has lines that are not marked
    NotMarked(u32),
}

/// What a sound heap holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveObjects {
    /// How many objects can be reached.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl<M: ObjectModel> ManagedHeap<M> {
    /// Checks every object that can be reached from these references. Slow: for tests.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn verify(&self, roots: impl IntoIterator<Item = u32>) -> Result<LiveObjects, Violation> {
        let mut pending: Vec<ObjectRef> = roots.into_iter().filter_map(M::referent).collect();
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        while let Some(object) = pending.pop() {
            if object.offset() >= LOST || seen.contains_key(&object.offset()) {
                continue;
            }
            let bytes = self.verify_object(object)?;
            seen.insert(object.offset(), bytes);
            let (mut forgotten, is_old) = (None, !self.word_of(object).is_young());
            self.model().visit_slots(self.region(), object, 0..u32::MAX, &mut |slot| {
                let Some(referent) = M::referent(self.region().read(slot)) else { return };
                if is_old
                    && referent.offset() < LOST
                    && self.word_of(referent).is_young()
                    && !self.region().is_dirty(slot)
                {
                    forgotten = Some(slot);
                }
                pending.push(referent);
            });
            if let Some(slot) = forgotten {
                return Err(Violation::CleanCard(slot));
            }
        }
        let mut ends = (0, 0);
        for (&at, &bytes) in &seen {
            if u64::from(at) < ends.1 {
                return Err(Violation::Overlap(ends.0, at));
            }
            ends = (at, u64::from(at) + u64::from(bytes));
        }
        let bytes = seen.values().map(|bytes| u64::from(*bytes)).sum();
        Ok(LiveObjects { objects: seen.len() as u64, bytes })
    }

    fn verify_object(&self, object: ObjectRef) -> Result<u32, Violation> {
        let (at, space) = (object.offset(), self.space());
        if self.word_of(object).is_forwarded() {
            return Err(Violation::Moved(at));
        }
        let bytes = self.model().size(self.region(), object);
        if space.large.contains(object) {
            let pages = space.large.pages_of(object).ok_or(Violation::NotThere(at))?;
            let is_perfect = pages.iter().all(|page| space.pools.failed(*page).is_perfect());
            return match (is_perfect, u64::from(bytes) <= pages.len() as u64 * u64::from(PAGE)) {
                (false, _) => Err(Violation::OnFailedLine(at)),
                (true, false) => Err(Violation::NotThere(at)),
                (true, true) => Ok(bytes),
            };
        }
        if space.blocks.get(object.block()).state == HeapBlockState::Absent {
            return Err(Violation::NotThere(at));
        }
        if at % BLOCK_BYTES + bytes > BLOCK_BYTES {
            return Err(Violation::CrossesBlocks(at));
        }
        if space.lines.any_failed(at, bytes) {
            return Err(Violation::OnFailedLine(at));
        }
        if !self.word_of(object).is_young() && !space.lines.all_live(at, bytes) {
            return Err(Violation::NotMarked(at));
        }
        Ok(bytes)
    }

    fn word_of(&self, object: ObjectRef) -> CollectorWord {
        CollectorWord::of::<M>(self.region(), object)
    }

    /// The failed lines of 64 B that lie in blocks, by their offsets, and the numbers of the pages that are there now.
    pub fn failed_lines(&self) -> impl Iterator<Item = (u32, u32)> {
        let space = self.space();
        let of_page = move |start: u32, page: HeapPage| {
            let lines = space.pools.failed(page).lines();
            page.number()
                .into_iter()
                .flat_map(move |number| lines.clone().map(move |line| (start + MEMORY_LINE * line, number)))
        };
        space.blocks.indices().flat_map(move |block| {
            let pages = space.blocks.get(block).pages.iter().flatten().enumerate();
            pages.flat_map(move |(number, page)| {
                page.map(|page| of_page(block.page_at(number), page)).into_iter().flatten()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wear::FailedLines;
    use crate::{Collection, HeapSettings, LocalAllocator, NativeModel, Shape};

    struct Program {
        heap: ManagedHeap<NativeModel>,
        local: LocalAllocator,
    }

    impl Program {
        fn new() -> Self {
            let heap = ManagedHeap::new(NativeModel, HeapSettings::default(), vec![FailedLines::NONE; 64]).unwrap();
            Self { heap, local: LocalAllocator::default() }
        }

        /// An object with a reference.
        fn object(&mut self, bytes: u32) -> u32 {
            let shape = Shape::new(1, bytes).unwrap();
            let at = self.heap.allocate(&mut self.local, shape.size()).unwrap();
            NativeModel::initialize(self.heap.region(), at, shape).offset()
        }

        /// What it is after a collection of young objects.
        fn aged(&mut self, object: u32) -> u32 {
            let mut root = [object];
            self.heap.collect(Collection::Nursery, &mut [&mut self.local], &mut root, &mut |_| {});
            root[0]
        }

        /// A header somewhere, as if an object of so many bytes without references were there.
        fn pretend(&self, at: u32, bytes: u32) {
            self.heap.region().write(at, 0);
            self.heap.region().write(at + 4, bytes);
        }

        fn violation(&self, roots: &[u32]) -> Option<Violation> {
            self.heap.verify(roots.iter().copied()).err()
        }
    }

    #[test]
    fn an_object_is_in_a_block_or_on_the_pages_of_a_large_one() {
        let mut program = Program::new();
        let (small, large) = (program.object(100), program.object(20_000));
        assert_eq!(program.violation(&[small, large]), None);
        let (absent, behind) = (small + 8 * BLOCK_BYTES, large + 5 * PAGE);
        assert!(behind < LOST);
        assert_eq!(program.violation(&[absent]), Some(Violation::NotThere(absent)));
        assert_eq!(program.violation(&[behind]), Some(Violation::NotThere(behind)));
        program.pretend(large, 5 * PAGE);
        assert_eq!(program.violation(&[large]), None, "it fills its pages");
        program.pretend(large, 5 * PAGE + 16);
        assert_eq!(program.violation(&[large]), Some(Violation::NotThere(large)));
    }

    #[test]
    fn objects_end_in_their_blocks_and_do_not_overlap() {
        let mut program = Program::new();
        let first = program.object(1000);
        let start = first / BLOCK_BYTES * BLOCK_BYTES;
        program.pretend(start, BLOCK_BYTES);
        assert_eq!(program.violation(&[start]), None, "it fills its block");
        program.pretend(start + 16, BLOCK_BYTES);
        assert_eq!(program.violation(&[start + 16]), Some(Violation::CrossesBlocks(start + 16)));
        program.pretend(start, 64);
        program.pretend(start + 64, 32);
        let both = program.heap.verify([start, start + 64, start]).unwrap();
        assert_eq!(both, LiveObjects { objects: 2, bytes: 96 });
        program.pretend(start, 80);
        assert_eq!(program.violation(&[start, start + 64]), Some(Violation::Overlap(start, start + 64)));
    }

    #[test]
    fn no_object_lies_on_a_failed_line_or_on_lines_that_are_not_marked() {
        let mut program = Program::new();
        let young = program.object(600);
        let old = program.aged(young);
        assert_eq!(program.violation(&[old]), None);
        let lines = std::sync::Arc::clone(&program.heap.space().lines);
        lines.clear(crate::HeapBlock::at(old));
        assert_eq!(program.violation(&[old]), Some(Violation::NotMarked(old)));
        lines.mark(old, 256);
        assert_eq!(program.violation(&[old]), Some(Violation::NotMarked(old)), "all of its lines count");
        lines.mark(old, 608);
        drop(lines);
        assert_eq!(program.violation(&[old]), None);
        let young = program.object(600);
        assert_eq!(program.violation(&[young]), None, "those of young objects are marked by the next collection");
        program.heap.fail_line(old + 599, &mut [&mut program.local]);
        assert_eq!(program.violation(&[old]), Some(Violation::OnFailedLine(old)));
    }

    #[test]
    fn an_old_object_refers_to_young_ones_in_dirty_cards_only_and_nobody_to_what_has_moved() {
        let mut program = Program::new();
        let first = program.object(100);
        let old = program.aged(first);
        assert_ne!(first, old);
        assert_eq!(program.violation(&[first]), Some(Violation::Moved(first)));
        let (young, other) = (program.object(100), program.object(100));
        let [slot, of_young] = [old, young].map(|object| NativeModel::slot(ObjectRef::new(object).unwrap(), 0));
        program.heap.region().write(of_young, other);
        assert_eq!(program.violation(&[young]), None, "a young object may refer to another");
        program.heap.region().write(slot, young);
        assert_eq!(program.violation(&[old]), Some(Violation::CleanCard(slot)));
        program.heap.region().mark_card(slot);
        assert_eq!(program.heap.verify([old]).unwrap().objects, 3);
        let oldest = program.aged(old);
        assert_eq!(program.heap.verify([oldest]).unwrap().objects, 3, "old ones refer to old ones");
    }
}
