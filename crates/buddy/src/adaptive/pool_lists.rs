//! The free blocks of one zone, on lists by shelf and order.
//!
//! Each pool has a list per order and no more. A list per migratetype would add nothing: the user and the offline pool
//! have movable blocks only [Panwar15, 4.4], and the kernel's takes any page anyway.

use alloc::vec;
use alloc::vec::Vec;

use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange};

use super::parts::Shelf;
use crate::zone::links::{Head, Links};
use crate::zone::slots::{Slots, span};
use crate::zone::state::{Begins, State};
use crate::{End, FramePlace, Migratetype, Watermarks, Zone};

const LISTS: u32 = (BlockOrder::MAX.number() as u32 + 1) * Shelf::COUNT;

/// The lists of a zone. Its owner passes only frames in the zone.
pub struct PoolLists {
    /// The zone as given to the constructor.
    pub zone: Zone,
    /// Its watermarks.
    pub watermarks: Watermarks,
    /// The numbers of its frames in the lists.
    pub slots: Slots,
    links: Links,
    states: Vec<State>,
    /// Retired frames in each block of the largest order, so that a free block is searched for them only if there are
    /// any.
    retired_near: Vec<u16>,
    /// Frames on the lists of pools.
    free: u64,
}

impl PoolLists {
    /// Returns empty lists: no frame is free yet.
    pub fn new(zone: Zone, watermarks: Watermarks) -> Self {
        let slots = Slots::of(zone);
        let mut states = vec![State::GONE; slots.count as usize];
        states[slots.first as usize..slots.end as usize].fill(State::INSIDE);
        let retired_near = vec![0; (slots.count / span(BlockOrder::MAX)) as usize];
        Self { zone, watermarks, slots, links: Links::new(slots.count, LISTS), states, retired_near, free: 0 }
    }

    /// Returns the number of frames that requests can get.
    pub const fn free_frames(&self) -> u64 {
        self.free
    }

    /// Returns what is known of a slot.
    #[inline]
    pub fn state(&self, slot: u32) -> State {
        self.states[slot as usize]
    }

    /// Returns the first of the smallest blocks of a shelf that are large enough.
    #[inline]
    pub fn first(&self, shelf: Shelf, order: BlockOrder) -> Option<u32> {
        let large_enough = BlockOrder::all().skip(order.index());
        large_enough.filter_map(|order| self.links.at(self.list(shelf, order), End::Front)).next()
    }

    /// Puts a block that is on no list on one.
    #[inline]
    pub fn push(&mut self, slot: u32, order: BlockOrder, shelf: Shelf, end: End) {
        // Any type will do: whose block it is follows from its bank.
        self.states[slot as usize] = State::free(Migratetype::Movable, order);
        self.links.push(self.list(shelf, order), slot, end);
        if shelf != Shelf::Isolated {
            self.free += order.frames();
        }
    }

    /// Takes a block off its list, and returns its order.
    #[inline]
    pub fn pull(&mut self, slot: u32, shelf: Shelf) -> BlockOrder {
        let Begins::Free(_, order) = self.state(slot).begins() else { panic!("no free block begins here") };
        self.links.remove(slot);
        self.states[slot as usize] = State::INSIDE;
        if shelf != Shelf::Isolated {
            self.free -= order.frames();
        }
        order
    }

    /// Moves all free blocks among these frames from one shelf to an end of another.
    pub fn move_blocks(&mut self, frames: FrameRange, from: Shelf, to: Shelf, end: End) {
        let mut slot = self.slots.slot(frames.start());
        let last = self.slots.slot(frames.last());
        while slot <= last {
            slot += match self.state(slot).begins() {
                Begins::Free(_, order) => {
                    self.pull(slot, from);
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

    /// Records that a block was given out.
    pub fn hold(&mut self, slot: u32, order: BlockOrder) -> FrameBlock {
        self.states[slot as usize] = State::held(order);
        self.slots.block(slot, order)
    }

    /// Ends the hold of a block, which is on no list then.
    pub fn end_hold(&mut self, block: FrameBlock) -> u32 {
        let slot = self.slots.slot(block.first());
        let state = self.state(slot);
        assert!(state.not_retired() == State::held(block.order()), "the block {block} is given back but not held");
        self.states[slot as usize] = if state.is_retired() { State::GONE } else { State::INSIDE };
        slot
    }

    /// Marks a frame as retired.
    pub fn set_retired(&mut self, slot: u32) {
        self.states[slot as usize] = self.state(slot).retired();
        self.retired_near[(slot / span(BlockOrder::MAX)) as usize] += 1;
    }

    /// Whether no frame of a block is retired.
    pub fn is_good(&self, slot: u32, order: BlockOrder) -> bool {
        let states = slot as usize..(slot + span(order)) as usize;
        self.retired_near[(slot / span(BlockOrder::MAX)) as usize] == 0
            || !self.states[states].iter().any(|state| state.is_retired())
    }

    #[inline]
    fn list(&self, shelf: Shelf, order: BlockOrder) -> Head {
        self.links.head(u32::from(order.number()) * Shelf::COUNT + shelf as u32)
    }
}
