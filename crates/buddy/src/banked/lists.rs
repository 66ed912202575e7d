//! The free blocks of one zone, on a list per order in each of several *groups*: the groups are pools of banks, or the
//! banks themselves.
//!
//! There is no list per migratetype. It would add nothing: a bank of programs has movable blocks only [Panwar15, 4.4],
//! and a bank of the kernel takes any page anyway.

use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange};

use crate::steps::{StepKind, step};
use crate::zone::links::{Head, Links};
use crate::zone::slots::{Slots, span};
use crate::zone::state::{Begins, State};
use crate::{End, Error, Footprint, FramePlace, Migratetype, Storage, Watermarks, Zone};

const ORDERS: u32 = BlockOrder::MAX.number() as u32 + 1;

/// The lists of a zone. Its owner passes only frames in the zone.
pub struct GroupLists<'a, S: Storage<'a>> {
    /// The zone as given to the constructor.
    pub zone: Zone,
    /// Its watermarks.
    pub watermarks: Watermarks,
    /// The numbers of its frames in the lists.
    pub slots: Slots,
    links: Links<'a, S>,
    states: S::Array<State>,
    /// Retired frames in each block of the largest order, so that a free block is searched for them only if there are
    /// any.
    retired_near: S::Array<u16>,
}

impl<'a, S: Storage<'a>> GroupLists<'a, S> {
    /// Returns the lists of so many groups, before [`GroupLists::begin`].
    pub fn new(storage: &S, zone: Zone, watermarks: Watermarks, groups: u32) -> Result<Self, Error> {
        let slots = Slots::of(zone);
        let links = Links::new(storage, slots.count, ORDERS * groups)?;
        let states = storage.filled(slots.count as usize, State::GONE)?;
        let retired_near = storage.filled((slots.count / span(BlockOrder::MAX)) as usize, 0)?;
        Ok(Self { zone, watermarks, slots, links, states, retired_near })
    }

    /// Makes all lists empty: no frame is free yet.
    pub fn begin(&mut self) {
        self.links.begin();
        self.states[self.slots.first as usize..self.slots.end as usize].fill(State::INSIDE);
    }

    /// Returns the memory of its structures.
    pub fn footprint(&self) -> Footprint {
        let states = Footprint::of_frames::<State>(self.states.len());
        let retired = Footprint::of_frames::<u16>(self.retired_near.len());
        Footprint::of_zones::<Self>(1) + self.links.footprint() + states + retired
    }

    /// Returns what is known of a slot.
    #[inline]
    pub fn state(&self, slot: u32) -> State {
        step(StepKind::Frame);
        self.states[slot as usize]
    }

    #[inline]
    fn set(&mut self, slot: u32, state: State) {
        step(StepKind::Frame);
        self.states[slot as usize] = state;
    }

    /// Returns the first of the smallest blocks of a group that are large enough.
    #[inline]
    pub fn first(&self, group: u32, order: BlockOrder) -> Option<u32> {
        let large_enough = BlockOrder::all().skip(order.index());
        large_enough.filter_map(|order| self.links.at(self.list(group, order), End::Front)).next()
    }

    /// Puts a block that is on no list on one.
    #[inline]
    pub fn push(&mut self, slot: u32, order: BlockOrder, group: u32, end: End) {
        // Any type will do: whose block it is follows from its bank.
        self.set(slot, State::free(Migratetype::Movable, order));
        self.links.push(self.list(group, order), slot, end);
    }

    /// Takes a block off its list, and returns its order.
    #[inline]
    pub fn pull(&mut self, slot: u32) -> BlockOrder {
        let Begins::Free(_, order) = self.state(slot).begins() else { panic!("no free block begins here") };
        self.links.remove(slot);
        self.set(slot, State::INSIDE);
        order
    }

    /// Moves all free blocks among these frames to an end of the lists of another group.
    pub fn move_blocks(&mut self, frames: FrameRange, to: u32, end: End) {
        let mut slot = self.slots.slot(frames.start());
        let last = self.slots.slot(frames.last());
        while slot <= last {
            slot += match self.state(slot).begins() {
                Begins::Free(_, order) => {
                    self.pull(slot);
                    self.push(slot, order, to, end);
                    span(order)
                }
                Begins::Held(order) => span(order),
                Begins::Nothing | Begins::Local(_) => 1,
            };
        }
    }

    /// Returns the first slot of the block that a frame lies in, and what begins there.
    pub fn beginning(&self, frame: Frame) -> Option<(u32, Begins)> {
        State::beginning(&self.states, self.slots.slot(frame))
    }

    /// Returns where a frame is.
    pub fn place(&self, frame: Frame) -> FramePlace {
        match self.beginning(frame) {
            Some((first, Begins::Free(_, order))) => FramePlace::Free(self.slots.block(first, order)),
            Some((_, Begins::Held(_))) => FramePlace::Held,
            Some((_, Begins::Nothing | Begins::Local(_))) | None => FramePlace::Retired,
        }
    }

    /// Records that a block was given out, for pages that can or cannot move.
    #[inline]
    pub fn hold(&mut self, slot: u32, order: BlockOrder, is_movable: bool) -> FrameBlock {
        let held = State::held(order);
        self.set(slot, if is_movable { held } else { held.unmovable() });
        self.slots.block(slot, order)
    }

    /// Ends the hold of a block, which is on no list then. Returns its slot, and whether its pages could move.
    #[inline]
    pub fn end_hold(&mut self, block: FrameBlock) -> (u32, bool) {
        let slot = self.slots.slot(block.first());
        let state = self.state(slot);
        assert!(state.is_held_block_of(block.order()), "the block {block} is given back but not held");
        self.set(slot, if state.is_retired() { State::GONE } else { State::INSIDE });
        (slot, !state.is_unmovable())
    }

    /// Marks a frame as retired.
    pub fn set_retired(&mut self, slot: u32) {
        self.set(slot, self.state(slot).retired());
        self.retired_near[(slot / span(BlockOrder::MAX)) as usize] += 1;
    }

    /// Whether no frame of a block is retired.
    pub fn is_good(&self, slot: u32, order: BlockOrder) -> bool {
        step(StepKind::Frame);
        let states = slot as usize..(slot + span(order)) as usize;
        self.retired_near[(slot / span(BlockOrder::MAX)) as usize] == 0
            || !self.states[states].iter().any(|state| {
                step(StepKind::Frame);
                state.is_retired()
            })
    }

    #[inline]
    fn list(&self, group: u32, order: BlockOrder) -> Head {
        self.links.head(group * ORDERS + u32::from(order.number()))
    }
}
