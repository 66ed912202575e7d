//! Finding the live objects, and moving them on the way.

use std::cmp::Reverse;
use std::ops::Range;

use super::TraceCounts;
use crate::collection::Collection;
use crate::geometry::{ALIGN, BLOCK_BYTES, HeapBlock, MEMORY_LINE, ObjectRef, PAGE, narrow};
use crate::object::{CollectorWord, LiveMark, ObjectModel};
use crate::region::{CARD_BYTES, HeapRegion, LOST};
use crate::space::allocator::LocalAllocator;
use crate::space::blocks::{Evacuation, HeapBlockState};
use crate::space::lines::LineCensus;
use crate::space::lost::{LostData, LostObject};
use crate::space::{ImmixSpace, Source};

/// A collection under way.
pub(crate) struct Tracer<'a, M> {
    region: &'a HeapRegion,
    model: &'a M,
    space: &'a mut ImmixSpace,
    kind: Collection,
    mark: LiveMark,
    /// Live objects whose references are not followed yet.
    pending: Vec<ObjectRef>,
    /// Where objects are moved; `None` once there is no room.
    copies: Option<LocalAllocator>,
    counts: TraceCounts,
    /// Data is gone: each object is looked at before it is read.
    is_losing: bool,
}

/// Whether an object moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moving {
    Stays,
    IfRoom,
    /// It lies on a line that has failed.
    Must,
}

/// What is live, at the end of a collection.
pub struct Survivors<'a, M> {
    region: &'a HeapRegion,
    kind: Collection,
    mark: LiveMark,
    lost: LostData,
    model: std::marker::PhantomData<&'a M>,
}

impl<'a, M: ObjectModel> Tracer<'a, M> {
    /// Begins a collection.
    pub fn begin(region: &'a HeapRegion, model: &'a M, space: &'a mut ImmixSpace, kind: Collection) -> Self {
        if kind.is_of_all() {
            space.lines.begin_full_collection();
            space.starts.clear();
            choose_candidates(space, kind);
        }
        for &(block, _) in &space.vacating {
            space.blocks.get_mut(block).evacuation = Evacuation::FromFailedLines;
        }
        space.recyclable.retain(|block| space.blocks.get(block).evacuation == Evacuation::Stays);
        let (mark, copies) = (space.lines.live(), Some(LocalAllocator::default()));
        let is_losing = space.lost.is_pending();
        Self {
            region,
            model,
            space,
            kind,
            mark,
            pending: Vec::new(),
            copies,
            counts: TraceCounts::default(),
            is_losing,
        }
    }

    /// The new value of a reference.
    #[inline]
    pub fn trace_value(&mut self, value: u32) -> u32 {
        M::referent(value).map_or(value, |object| self.trace(object).offset())
    }

    /// Looks at the old objects in dirty cards, if only young ones are collected, and clears the cards. Returns how
    /// many there were.
    pub fn trace_dirty_cards(&mut self) -> u64 {
        let mut cards = Vec::new();
        for block in self.space.blocks.indices() {
            if matches!(self.space.blocks.get(block).state, HeapBlockState::Absent | HeapBlockState::Free) {
                continue;
            }
            self.region.take_dirty(block.start(), BLOCK_BYTES, &mut cards);
        }
        let in_blocks = cards.len();
        for (at, pages) in self.space.large.objects() {
            self.region.take_dirty(at, pages * PAGE, &mut cards);
        }
        if self.kind == Collection::Nursery {
            cards[..in_blocks].iter().for_each(|card| self.trace_card(*card));
            cards[in_blocks..].iter().for_each(|card| self.trace_large_card(*card));
        }
        cards.len() as u64
    }

    fn trace_card(&mut self, card: u32) {
        if !self.space.lines.may_have_old(card, CARD_BYTES) {
            return;
        }
        let end = card + CARD_BYTES;
        let before = self.space.starts.last_before(card);
        let reaches = |object: &ObjectRef| object.offset() + self.model.size(self.region, *object) > card;
        let objects: Vec<_> = before.into_iter().filter(reaches).chain(self.space.starts.within(card, end)).collect();
        objects.into_iter().for_each(|object| self.follow(object, card..end));
    }

    fn trace_large_card(&mut self, card: u32) {
        let object = self.space.large.object_at(card);
        // Young ones are looked at when they are marked.
        if let Some(object) = object.filter(|object| !self.word(*object).is_young()) {
            self.follow(object, card..card + CARD_BYTES);
        }
    }

    /// Follows references until nothing is left.
    pub fn trace_all(&mut self) {
        while let Some(object) = self.pending.pop() {
            self.follow(object, 0..u32::MAX);
        }
    }

    fn follow(&mut self, object: ObjectRef, within: Range<u32>) {
        let (region, model) = (self.region, self.model);
        model.visit_slots(region, object, within, &mut |slot| {
            let value = region.read(slot);
            let traced = self.trace_value(value);
            if traced != value {
                region.write(slot, traced);
            }
        });
    }

    /// Marks an object, or moves it; returns where it is.
    #[inline]
    fn trace(&mut self, object: ObjectRef) -> ObjectRef {
        if object.offset() >= LOST {
            return object;
        }
        if self.is_losing
            && let Some(lost) = self.lost(object)
        {
            return lost;
        }
        let word = self.word(object);
        if word.is_forwarded() {
            return forwarded_to::<M>(self.region, object);
        }
        if is_live(word, self.kind, self.mark) {
            return object;
        }
        if self.space.large.contains(object) {
            self.keep(object, word);
            return object;
        }
        let bytes = self.model.size(self.region, object);
        match self.may_move(object, word, bytes) {
            Moving::Stays => {}
            Moving::IfRoom => {
                if let Some(moved) = self.evacuate(object, word, bytes) {
                    return moved;
                }
            }
            Moving::Must => match self.evacuate(object, word, bytes) {
                Some(moved) => return moved,
                None => self.counts.replaced += self.space.replace_below(object, bytes),
            },
        }
        self.space.lines.mark(object.offset(), bytes);
        self.space.starts.insert(object);
        self.keep(object, word);
        object
    }

    /// What references to an object become if data of it is gone. Nothing is read that is gone.
    #[cold]
    fn lost(&mut self, object: ObjectRef) -> Option<ObjectRef> {
        if let Some(lost) = self.space.lost.number(object) {
            return Some(lost);
        }
        if self.space.lost.of_header(object) {
            return Some(self.space.lost.bury(object, None, None));
        }
        let word = self.word(object);
        if word.is_forwarded() || is_live(word, self.kind, self.mark) {
            return None;
        }
        let bytes = self.model.size(self.region, object);
        if !self.space.lost.any_in(object.offset(), bytes) {
            return None;
        }
        let header = std::array::from_fn(|word| self.region.read(object.offset() + 4 * narrow(word)));
        let is_there = bytes > ALIGN && !self.space.lost.any_in(object.offset() + ALIGN, 4);
        let first = is_there.then(|| self.region.read(object.offset() + ALIGN));
        Some(self.space.lost.bury(object, Some(header), first))
    }

    #[inline]
    fn keep(&mut self, object: ObjectRef, word: CollectorWord) {
        self.set_word(object, word.marked(self.mark));
        self.pending.push(object);
        self.counts.marked += 1;
    }

    #[inline]
    fn may_move(&self, object: ObjectRef, word: CollectorWord, bytes: u32) -> Moving {
        match (self.space.blocks.get(object.block()).evacuation, self.kind) {
            (Evacuation::FromFailedLines, _) if self.space.lines.any_failed(object.offset(), bytes) => Moving::Must,
            _ if word.is_pinned() => Moving::Stays,
            (_, Collection::Nursery) | (Evacuation::Opportunistic, _) => Moving::IfRoom,
            (Evacuation::Stays | Evacuation::FromFailedLines, _) => Moving::Stays,
        }
    }

    /// Moves an object if it is not pinned and there is room.
    #[inline]
    fn evacuate(&mut self, object: ObjectRef, word: CollectorWord, bytes: u32) -> Option<ObjectRef> {
        if word.is_pinned() {
            return None;
        }
        let source = match self.kind {
            Collection::Nursery => Source::Nursery,
            Collection::Full | Collection::Compacting => Source::Full,
        };
        let place = self.copies.as_mut()?.allocate(self.space, bytes, source);
        let Some(moved) = place.and_then(ObjectRef::new) else {
            self.copies = None;
            return None;
        };
        self.region.copy(object.offset(), moved.offset(), bytes);
        self.set_word(moved, word.marked(self.mark));
        self.space.lines.mark(moved.offset(), bytes);
        self.space.starts.insert(moved);
        self.set_word(object, word.forwarded());
        self.region.write(object.offset() + M::FORWARD_WORD, moved.offset());
        self.pending.push(moved);
        self.counts.moved += 1;
        self.counts.moved_bytes += u64::from(bytes);
        Some(moved)
    }

    /// What is live.
    pub fn survivors(&self) -> Survivors<'a, M> {
        let lost = if self.is_losing { self.space.lost.clone() } else { LostData::default() };
        Survivors { region: self.region, kind: self.kind, mark: self.mark, lost, model: std::marker::PhantomData }
    }

    /// Frees what is not live.
    pub fn end(self) -> TraceCounts {
        let survivors = self.survivors();
        let all = self.kind.is_of_all();
        self.space.sweep_large(all, |object| survivors.at(object) == Some(object));
        self.space.vacating.retain(|(_, due)| !all && *due == Collection::Full);
        self.space.sweep_blocks(all);
        self.space.lost.settle();
        self.counts
    }

    fn word(&self, object: ObjectRef) -> CollectorWord {
        CollectorWord::of::<M>(self.region, object)
    }

    fn set_word(&self, object: ObjectRef, word: CollectorWord) {
        word.write::<M>(self.region, object);
    }
}

/// Whether an object that was not moved is known to be live: found by this collection, or old where only young objects
/// are collected.
#[inline]
const fn is_live(word: CollectorWord, kind: Collection, mark: LiveMark) -> bool {
    match kind {
        Collection::Nursery => !word.is_young(),
        Collection::Full | Collection::Compacting => word.is_marked(mark),
    }
}

fn forwarded_to<M: ObjectModel>(region: &HeapRegion, object: ObjectRef) -> ObjectRef {
    ObjectRef::new(region.read(object.offset() + M::FORWARD_WORD)).expect("a moved object has a place")
}

impl<M: ObjectModel> Survivors<'_, M> {
    /// The objects that this collection has found to be lost, and those before.
    pub fn lost_objects(&self) -> &[LostObject] {
        self.lost.objects()
    }

    /// The memory.
    pub const fn region(&self) -> &HeapRegion {
        self.region
    }

    /// Where an object is now that was there before the collection; `None` if it is gone.
    pub fn at(&self, object: ObjectRef) -> Option<ObjectRef> {
        if object.offset() >= LOST {
            return Some(object);
        }
        if self.lost.is_pending() && (self.lost.number(object).is_some() || self.lost.of_header(object)) {
            return self.lost.number(object);
        }
        let word = CollectorWord::of::<M>(self.region, object);
        if word.is_forwarded() {
            return Some(forwarded_to::<M>(self.region, object));
        }
        is_live(word, self.kind, self.mark).then_some(object)
    }
}

/// Chooses the blocks whose objects move. A full collection takes those with most holes, as long as what is live in
/// them fits the free pages; a compacting one the sparsest, as long as it fits the holes of the others too, with a
/// fifth to spare, as not every hole is large enough.
fn choose_candidates(space: &mut ImmixSpace, kind: Collection) {
    let blocks = &space.blocks;
    let census = |block: &HeapBlock| blocks.get(*block).census;
    let is_recyclable = |block: &HeapBlock| blocks.get(*block).state == HeapBlockState::Recyclable;
    let mut fragmented: Vec<HeapBlock> = space.recyclable.iter().filter(is_recyclable).collect();
    let mut room = space.working_bytes() / u64::from(MEMORY_LINE);
    if kind == Collection::Compacting {
        fragmented.sort_by_key(|block| census(block).live);
        room = (room + fragmented.iter().map(|block| u64::from(census(block).free)).sum::<u64>()) / 5 * 4;
    } else {
        fragmented.retain(|block| census(block).holes > 1);
        fragmented.sort_by_key(|block| Reverse(census(block).holes));
    }
    for block in fragmented {
        let LineCensus { live, free, .. } = space.blocks.get(block).census;
        let own = if kind == Collection::Compacting { free } else { 0 };
        let Some(left) = room.checked_sub(u64::from(live + own)) else { break };
        room = left;
        space.blocks.get_mut(block).evacuation = Evacuation::Opportunistic;
    }
}
