//! Marking live objects, and moving them on the way.

use std::ops::Range;

use super::TraceCounts;
use super::access::{Claim, MarkerAccess};
use super::slot_queue::SlotQueue;
use super::trace::Trace;
use crate::collection::Collection;
use crate::geometry::{CAN_FAIL, ObjectRef};
use crate::object::{CollectorWord, ObjectModel};
use crate::region::{CARD_BYTES, LOST};
use crate::space::allocator::LocalAllocator;
use crate::space::blocks::Evacuation;
use crate::space::lines::LineMarks;
use crate::space::starts::ObjectStarts;
use crate::space::{ImmixSpace, Source};

/// How many cards ahead a marker prefetches.
const AHEAD: usize = 4;

/// A thread that marks, alone or among others.
pub(crate) struct Marker<'t, 'a, M, A> {
    pub trace: &'t Trace<'a, M>,
    lines: &'t LineMarks,
    starts: &'t ObjectStarts,
    access: A,
    queue: SlotQueue,
    /// What it found.
    pub findings: MarkerFindings,
}

/// What a marker has found.
pub(crate) struct MarkerFindings {
    /// Live objects whose references are not followed yet.
    pub pending: Vec<ObjectRef>,
    /// Where objects are moved.
    copies: LocalAllocator,
    /// There was no room for an object of this size.
    no_room_from: u32,
    /// Objects on failed lines that could not move, and their sizes: the pages below are replaced at the end.
    pub stuck: Vec<(ObjectRef, u32)>,
    pub counts: TraceCounts,
}

/// Whether an object moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moving {
    Stays,
    IfRoom,
    /// It lies on a line that has failed.
    Must,
}

impl Default for MarkerFindings {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            copies: LocalAllocator::default(),
            no_room_from: u32::MAX,
            stuck: Vec::new(),
            counts: TraceCounts::default(),
        }
    }
}

impl<'t, 'a, M: ObjectModel, A: MarkerAccess> Marker<'t, 'a, M, A> {
    /// A marker that goes on from there.
    pub fn new(trace: &'t Trace<'a, M>, access: A, findings: MarkerFindings) -> Self {
        Self { trace, lines: &trace.lines, starts: &trace.starts, access, queue: SlotQueue::default(), findings }
    }

    /// The new value of a reference.
    #[inline]
    pub fn trace_value(&mut self, value: u32) -> u32 {
        M::referent(value).map_or(value, |object| self.trace(object).offset())
    }

    /// Looks at the next old objects in dirty cards; whether there were any.
    pub fn trace_cards(&mut self) -> bool {
        let (region, cards) = (self.trace.region, self.trace.take_cards());
        for (number, (object, card)) in cards.iter().enumerate() {
            if let Some((later, its_card)) = cards.get(number + AHEAD) {
                region.prefetch(later.offset());
                region.prefetch(*its_card);
            }
            self.follow(*object, *card..card + CARD_BYTES);
        }
        !cards.is_empty()
    }

    /// Follows the references of an object, but for the last few, which wait for [`Self::trace_next`].
    #[inline]
    pub fn follow(&mut self, object: ObjectRef, within: Range<u32>) {
        let (region, model) = (self.trace.region, self.trace.model);
        model.visit_slots(region, object, within, &mut |slot| {
            let referent = M::referent(region.read(slot));
            let Some(referent) = referent.filter(|referent| !self.is_known_live(*referent)) else { return };
            region.prefetch(referent.offset());
            if let Some(oldest) = self.queue.push(slot) {
                self.trace_slot(oldest);
            }
        });
    }

    /// Whether an object in a block is known to be live, and to stay where it is. A table says so that fits into a
    /// cache: the object itself is not read.
    #[inline]
    fn is_known_live(&self, object: ObjectRef) -> bool {
        object.offset() < self.trace.small_below && self.starts.contains(object)
    }

    /// Traces a slot that waits; whether there was one.
    #[inline]
    pub fn trace_next(&mut self) -> bool {
        let Some(slot) = self.queue.pop() else { return false };
        self.trace_slot(slot);
        true
    }

    #[inline]
    fn trace_slot(&mut self, slot: u32) {
        let region = self.trace.region;
        let value = region.read(slot);
        let traced = self.trace_value(value);
        if traced != value {
            region.write(slot, traced);
        }
    }

    /// Marks an object, or moves it; returns where it is.
    #[inline]
    fn trace(&mut self, object: ObjectRef) -> ObjectRef {
        let is_small = object.offset() < self.trace.small_below;
        if CAN_FAIL
            && !is_small
            && let Some(lost) = self.lost(object)
        {
            return lost;
        }
        let word = match A::claim::<M>(self.trace.region, object, |word| self.trace.is_live(word)) {
            Claim::Won(word) => word,
            Claim::Found(word) if word.is_forwarded() => return self.trace.forwarded_to(object),
            Claim::Found(_) => return object,
        };
        if !is_small && object.offset() >= self.trace.first_large {
            self.keep(object, word);
            return object;
        }
        let bytes = self.trace.model.size(self.trace.region, object);
        self.findings.counts.live_bytes += u64::from(bytes);
        let moving = self.may_move(object, word, bytes);
        if moving != Moving::Stays
            && let Some(moved) = self.evacuate(object, word, bytes)
        {
            return moved;
        }
        if moving == Moving::Must {
            self.findings.stuck.push((object, bytes));
        } else {
            self.lines.mark(object.offset(), bytes);
        }
        A::insert_start(self.starts, object);
        self.keep(object, word);
        object
    }

    /// What references to an object become if data of it is gone. Nothing is read that is gone.
    fn lost(&mut self, object: ObjectRef) -> Option<ObjectRef> {
        let trace = self.trace;
        if object.offset() >= LOST {
            return Some(object);
        }
        if !trace.is_losing {
            return None;
        }
        self.access.with_space(|space| {
            let lost = &mut space.lost;
            if let Some(lost) = lost.number(object) {
                return Some(lost);
            }
            if lost.of_header::<M>(object) {
                return Some(lost.bury(object, None, None));
            }
            let word = CollectorWord::of::<M>(trace.region, object);
            if word.is_forwarded() || trace.is_live(word) {
                return None;
            }
            let bytes = trace.model.size(trace.region, object);
            if !lost.any_in(object.offset(), bytes) {
                return None;
            }
            let read = |number: u32| trace.region.read(object.offset() + 4 * number);
            let is_there = |words: u32| bytes >= 4 * words && !lost.any_in(object.offset(), 4 * words);
            let header = is_there(4).then(|| [0, 1, 2, 3].map(read));
            let first = is_there(5).then(|| read(4));
            Some(lost.bury(object, header, first))
        })
    }

    #[inline]
    fn keep(&mut self, object: ObjectRef, word: CollectorWord) {
        A::publish::<M>(self.trace.region, object, word.marked(self.trace.mark));
        self.findings.pending.push(object);
        self.findings.counts.marked += 1;
    }

    #[inline]
    fn may_move(&self, object: ObjectRef, word: CollectorWord, bytes: u32) -> Moving {
        match (self.trace.evacuation[object.block().number()], self.trace.kind) {
            (Evacuation::FromFailedLines, _) if CAN_FAIL && self.lines.any_failed(object.offset(), bytes) => {
                Moving::Must
            }
            _ if word.is_pinned() => Moving::Stays,
            (_, Collection::Nursery) | (Evacuation::Opportunistic, _) => Moving::IfRoom,
            (Evacuation::Stays | Evacuation::FromFailedLines, _) => Moving::Stays,
        }
    }

    /// Moves an object if it is not pinned and there is room.
    #[inline]
    fn evacuate(&mut self, object: ObjectRef, word: CollectorWord, bytes: u32) -> Option<ObjectRef> {
        if word.is_pinned() || bytes >= self.findings.no_room_from {
            return None;
        }
        let source = match self.trace.kind {
            Collection::Nursery | Collection::Full => Source::Collector,
            Collection::Compacting => Source::Compaction,
        };
        let copies = &mut self.findings.copies;
        let place = match copies.bump.take(bytes) {
            None => self.access.with_space(|space| copies.allocate(space, bytes, source)),
            at => at,
        };
        let Some(moved) = place.and_then(ObjectRef::new) else {
            self.findings.no_room_from = bytes;
            return None;
        };
        let region = self.trace.region;
        region.copy(object.offset(), moved.offset(), bytes);
        word.marked(self.trace.mark).write::<M>(region, moved);
        self.lines.mark(moved.offset(), bytes);
        A::insert_start(self.starts, moved);
        region.write(object.offset() + M::FORWARD_WORD, moved.offset());
        A::publish::<M>(region, object, word.forwarded());
        self.findings.pending.push(moved);
        self.findings.counts.moved += 1;
        self.findings.counts.moved_bytes += u64::from(bytes);
        Some(moved)
    }
}

impl MarkerFindings {
    /// What the marker did, and how large its stack has become: a stack does not shrink.
    pub fn totals(&self) -> TraceCounts {
        TraceCounts { stack_bytes: (self.pending.capacity() * size_of::<ObjectRef>()) as u64, ..self.counts }
    }

    /// Puts perfect pages below the objects on failed lines that could not move, once no marker runs.
    pub fn replace_below_stuck(&mut self, space: &mut ImmixSpace) {
        for (object, bytes) in std::mem::take(&mut self.stuck) {
            self.counts.replaced += space.replace_below(object, bytes);
            space.lines.mark(object.offset(), bytes);
        }
    }
}
