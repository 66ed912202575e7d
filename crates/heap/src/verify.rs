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
