//! What all markers of a collection know, and how it begins and ends.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::collection::Collection;
use crate::geometry::{BLOCK_BYTES, CAN_FAIL, HeapBlock, MEMORY_LINE, ObjectRef, PAGE};
use crate::object::{CollectorWord, LiveMark, ObjectModel};
use crate::region::{CARD_BYTES, HeapRegion, LOST};
use crate::space::blocks::{Evacuation, HeapBlockState};
use crate::space::lines::LineMarks;
use crate::space::lost::{LostData, LostObject};
use crate::space::starts::ObjectStarts;
use crate::space::{CompactionRoom, ImmixSpace};
use crate::sync::{AtomicUsize, Ordering};

/// How many old objects in dirty cards a marker takes at a time.
const CARDS_AT_ONCE: usize = if cfg!(shuttle) { 1 } else { 16 };

/// How many cards ahead the search for old objects prefetches.
const CARDS_AHEAD: usize = 8;

/// A collection under way.
pub(crate) struct Trace<'a, M> {
    pub region: &'a HeapRegion,
    pub model: &'a M,
    pub lines: Arc<LineMarks>,
    pub starts: Arc<ObjectStarts>,
    /// Of each block: which of its objects move.
    pub evacuation: Vec<Evacuation>,
    /// Where large objects begin.
    pub first_large: u32,
    /// Where no more objects are known to be small ones that are not lost.
    pub small_below: u32,
    pub kind: Collection,
    pub mark: LiveMark,
    /// Data is gone: each object is looked at before it is read.
    pub is_losing: bool,
    /// Old objects and the dirty cards to look at in them, if only young ones are collected. They are all found before
    /// the first object moves: what becomes old meanwhile is followed anyway, and maybe by another marker.
    old: Vec<(ObjectRef, u32)>,
    /// The first of these that no marker has taken.
    next_old: AtomicUsize,
    /// How many cards were dirty.
    pub dirty_cards: u64,
}

/// What is live, at the end of a collection.
pub struct Survivors<'a, M> {
    region: &'a HeapRegion,
    kind: Collection,
    mark: LiveMark,
    lost: LostData,
    model: &'a M,
}

impl<'a, M: ObjectModel> Trace<'a, M> {
    /// Begins a collection.
    pub fn begin(
        region: &'a HeapRegion,
        model: &'a M,
        space: &mut ImmixSpace,
        kind: Collection,
        room: CompactionRoom,
    ) -> Self {
        if kind == Collection::Compacting {
            assert!(!space.lost.is_pending(), "sizes of lost objects are not known");
            let live = live_bytes(region, model, space);
            space.begin_full_collection();
            choose_all_sparse(space, &live, room);
        } else if kind.is_of_all() {
            space.begin_full_collection();
            choose_candidates(space);
        }
        for &(block, _) in &space.vacating {
            space.blocks.get_mut(block).evacuation = Evacuation::FromFailedLines;
        }
        space.recyclable.retain(|block| space.blocks.get(block).evacuation == Evacuation::Stays);
        let mut trace = Self {
            region,
            model,
            lines: Arc::clone(&space.lines),
            starts: Arc::clone(&space.starts),
            evacuation: space.blocks.indices().map(|block| space.blocks.get(block).evacuation).collect(),
            first_large: space.large.first(),
            // Objects need one comparison for both.
            small_below: if space.lost.is_pending() { 0 } else { space.large.first() },
            kind,
            mark: space.lines.live(),
            is_losing: space.lost.is_pending(),
            old: Vec::new(),
            next_old: AtomicUsize::new(0),
            dirty_cards: 0,
        };
        trace.take_dirty_cards(space);
        trace
    }

    /// Finds the old objects in dirty cards, if only young ones are collected, and clears the cards.
    fn take_dirty_cards(&mut self, space: &ImmixSpace) {
        let mut cards = Vec::new();
        for block in space.blocks.indices() {
            if matches!(space.blocks.get(block).state, HeapBlockState::Absent | HeapBlockState::Free) {
                continue;
            }
            self.region.take_dirty(block.start(), BLOCK_BYTES, &mut cards);
        }
        let in_blocks = cards.len();
        for (at, pages) in space.large.objects() {
            self.region.take_dirty(at, pages * PAGE, &mut cards);
        }
        self.dirty_cards = cards.len() as u64;
        if self.kind == Collection::Nursery {
            let in_large = cards.split_off(in_blocks);
            cards.retain(|card| self.lines.may_have_old(*card, CARD_BYTES));
            self.find_old(&cards);
            // Young ones are looked at when they are marked.
            let is_old = |object: &ObjectRef| !CollectorWord::of::<M>(self.region, *object).is_young();
            let large = |card: u32| Some((space.large.object_at(card).filter(is_old)?, card));
            self.old.extend(in_large.into_iter().filter_map(large));
        }
    }

    /// Finds the old objects in cards of blocks.
    fn find_old(&mut self, cards: &[u32]) {
        for (number, card) in cards.iter().copied().enumerate() {
            if let Some(later) = cards.get(number + CARDS_AHEAD) {
                // The object that reaches into a card often begins just before it.
                self.region.prefetch(later - MEMORY_LINE);
                self.region.prefetch(*later);
            }
            let before = self.starts.last_before(card);
            let reaches = |object: &ObjectRef| object.offset() + self.model.size(self.region, *object) > card;
            let objects = before.into_iter().filter(reaches).chain(self.starts.within(card, card + CARD_BYTES));
            self.old.extend(objects.map(|object| (object, card)));
        }
    }

    /// The next old objects in dirty cards, for one marker.
    pub fn take_cards(&self) -> &[(ObjectRef, u32)] {
        let first = self.next_old.fetch_add(CARDS_AT_ONCE, Ordering::Relaxed).min(self.old.len());
        &self.old[first..(first + CARDS_AT_ONCE).min(self.old.len())]
    }

    /// Whether an object that was not moved is known to be live.
    #[inline]
    pub const fn is_live(&self, word: CollectorWord) -> bool {
        is_live(word, self.kind, self.mark)
    }

    /// The place of an object that was moved.
    #[inline]
    pub fn forwarded_to(&self, object: ObjectRef) -> ObjectRef {
        forwarded_to::<M>(self.region, object)
    }

    /// What is live.
    pub fn survivors(&self, space: &ImmixSpace) -> Survivors<'a, M> {
        let lost = if self.is_losing { space.lost.clone() } else { LostData::default() };
        Survivors { region: self.region, kind: self.kind, mark: self.mark, lost, model: self.model }
    }

    /// Frees what is not live.
    pub fn end(self, space: &mut ImmixSpace) {
        let survivors = self.survivors(space);
        let all = self.kind.is_of_all();
        // The tables are the space's alone again.
        drop(self);
        let is_losing = survivors.lost.is_pending();
        // Large objects do not move.
        space.sweep_large(all, |object| match is_losing {
            true => survivors.at(object) == Some(object),
            false => survivors.is_live(object),
        });
        space.vacating.retain(|(_, due)| !all && *due == Collection::Full);
        space.sweep_blocks(all);
        space.lost.settle();
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

    /// The objects' model.
    pub const fn model(&self) -> &M {
        self.model
    }

    /// Where an object is now that was there before the collection; `None` if it is gone.
    pub fn at(&self, object: ObjectRef) -> Option<ObjectRef> {
        if CAN_FAIL && object.offset() >= LOST {
            return Some(object);
        }
        if self.lost.is_pending() && (self.lost.number(object).is_some() || self.lost.of_header::<M>(object)) {
            return self.lost.number(object);
        }
        if CollectorWord::of::<M>(self.region, object).is_forwarded() {
            return Some(forwarded_to::<M>(self.region, object));
        }
        self.is_live(object).then_some(object)
    }

    /// Whether an object that is not lost is live where it is.
    fn is_live(&self, object: ObjectRef) -> bool {
        is_live(CollectorWord::of::<M>(self.region, object), self.kind, self.mark)
    }
}

/// Chooses the blocks with holes whose objects move, the sparsest first, as long as what is live in them fits the free
/// pages. If many pages are borrowed, it takes the blocks with most holes first: their pages are imperfect, and pay for
/// more, while objects on perfect pages would only move to others.
fn choose_candidates(space: &mut ImmixSpace) {
    let blocks = &space.blocks;
    let census = |block: &HeapBlock| blocks.get(*block).census;
    let is_recyclable = |block: &HeapBlock| blocks.get(*block).state == HeapBlockState::Recyclable;
    let mut chosen: Vec<HeapBlock> = space.recyclable.iter().filter(is_recyclable).collect();
    if space.pools.has_many_borrowed() {
        chosen.retain(|block| census(block).holes > 1);
        chosen.sort_by_key(|block| Reverse(census(block).holes));
    } else {
        chosen.sort_by_key(|block| census(block).live);
    }
    let mut room = space.working_bytes() / u64::from(MEMORY_LINE);
    for block in chosen {
        let Some(left) = room.checked_sub(u64::from(space.blocks.get(block).census.live)) else { break };
        room = left;
        space.blocks.get_mut(block).evacuation = Evacuation::Opportunistic;
    }
}

/// The bytes of the old objects in each block, where nothing is young.
fn live_bytes<M: ObjectModel>(region: &HeapRegion, model: &M, space: &ImmixSpace) -> Vec<u64> {
    let of_block = |block: HeapBlock| {
        if !matches!(space.blocks.get(block).state, HeapBlockState::Recyclable | HeapBlockState::Full) {
            return 0;
        }
        let objects = space.starts.within(block.start(), block.start() + BLOCK_BYTES);
        objects.map(|object| u64::from(model.size(region, object))).sum()
    };
    space.blocks.indices().map(of_block).collect()
}

/// Chooses the blocks whose objects move before memory is said to be out: those with the fewest bytes first. A line
/// with one small object in it is no hole, so a block without holes may be nearly empty. With room in lines, the
/// objects go to free pages and to the holes of the other blocks. With room in pages, they go to whole pages alone;
/// each object counts twice its bytes, as these may have to be borrowed. A fifth is spare, as not every hole or page
/// can be filled. Blocks that are nearly full stay.
fn choose_all_sparse(space: &mut ImmixSpace, live: &[u64], room: CompactionRoom) {
    let line = u64::from(MEMORY_LINE);
    let sparse = |block: HeapBlock| {
        let (census, live) = (space.blocks.get(block).census, live[block.number()]);
        let free = u64::from(census.free) * line;
        let is_sparse = (1..(u64::from(census.live) * line + free) / 8 * 7).contains(&live);
        let takes = match room {
            CompactionRoom::Lines => live + free,
            CompactionRoom::Pages => 2 * live,
        };
        is_sparse.then_some((live, takes, block))
    };
    let mut chosen: Vec<(u64, u64, HeapBlock)> = space.blocks.indices().filter_map(sparse).collect();
    chosen.sort_by_key(|(live, ..)| *live);
    let mut left = space.room(room) / 5 * 4;
    for (_, takes, block) in chosen {
        let Some(rest) = left.checked_sub(takes) else { break };
        left = rest;
        space.blocks.get_mut(block).evacuation = Evacuation::Opportunistic;
    }
}
