//! One zone: its free lists, and the allocation and free of its blocks.
//!
//! **Problem.** A zone has millions of frames, and every allocation or free must take nanoseconds, wherever the frame
//! is on its list. **Idea.** A frame has a *slot*, its distance from the zone's first frame rounded down to the largest
//! block. So the slot of a block's buddy differs in one bit, and flat arrays by slot hold all data: a byte of
//! [`State`], two links, a mark. **Why this way.** A frame takes seventeen bytes with an eight-byte mark, so simulating
//! a machine of 64 GiB takes 270 MiB.
//!
//! The parts: [`slots`] numbers the frames, [`lists`] stores the lists, `global` finds, splits and merges blocks,
//! `steal` takes blocks of other migratetypes, `local` has the lists of the CPUs, `retire` removes bad frames.

mod global;
pub mod links;
mod lists;
mod local;
mod retire;
pub mod slots;
pub mod state;
mod steal;

use rampart_memory::{BlockOrder, Frame, FrameBlock};

pub use local::{LOCAL_BATCH, LOCAL_HIGH};

use crate::{
    AllocatorStatistics, Cpu, End, Error, Footprint, FramePlace, ListName, Mark, Migratetype, Storage, Watermarks,
    Zone, ZoneIndex,
};
use lists::Lists;
use slots::{Slots, span};
use state::{Begins, State};

/// The order of a pageblock, the unit that has one migratetype: 2 MiB as on x86-64.
pub const PAGEBLOCK: BlockOrder = BlockOrder::new(9).expect("9 is an order");

/// The allocator of one zone. Its owner passes only blocks in the zone.
pub struct ZoneAllocator<'a, M: Mark, S: Storage<'a>> {
    index: ZoneIndex,
    zone: Zone,
    slots: Slots,
    lists: Lists<'a, M, S>,
    /// The migratetype of each pageblock.
    pageblocks: S::Array<Migratetype>,
    /// Retired frames in each block of the largest order, so that a free block is searched for them only if there are
    /// any.
    retired_near: S::Array<u16>,
    /// Frames on the lists of each CPU; empty if the CPUs have no lists.
    local: S::Array<u32>,
    watermarks: Watermarks,
    statistics: AllocatorStatistics,
}

impl<'a, M: Mark, S: Storage<'a>> ZoneAllocator<'a, M, S> {
    /// Returns a zone before [`ZoneAllocator::begin`].
    pub fn new(
        storage: &S,
        (index, zone): (ZoneIndex, Zone),
        cpus: u32,
        watermarks: Watermarks,
        mark: M,
    ) -> Result<Self, Error> {
        let slots = Slots::of(zone);
        Ok(Self {
            index,
            zone,
            slots,
            lists: Lists::new(storage, slots.count, cpus, mark)?,
            pageblocks: storage.filled((slots.count / span(PAGEBLOCK)) as usize, Migratetype::Movable)?,
            retired_near: storage.filled((slots.count / span(BlockOrder::MAX)) as usize, 0)?,
            local: storage.filled(cpus as usize, 0)?,
            watermarks,
            statistics: AllocatorStatistics::default(),
        })
    }

    /// Makes all frames free and movable, with the same mark; the lowest are allocated first.
    pub fn begin(&mut self, mark: M) {
        self.lists.begin();
        (self.slots.first..self.slots.end).for_each(|slot| self.lists.set(slot, State::INSIDE));
        for (slot, order) in self.slots.fewest_blocks() {
            self.lists.insert(slot, order, Migratetype::Movable, mark, End::Back);
        }
    }

    pub const fn zone(&self) -> Zone {
        self.zone
    }

    pub const fn watermarks(&self) -> Watermarks {
        self.watermarks
    }

    pub const fn statistics(&self) -> AllocatorStatistics {
        self.statistics
    }

    /// Returns the memory of its structures.
    pub fn footprint(&self) -> Footprint {
        let pageblocks = Footprint::of_frames::<Migratetype>(self.pageblocks.len());
        let retired = Footprint::of_frames::<u16>(self.retired_near.len());
        let cpus = Footprint::of_cpus::<u32>(self.local.len());
        Footprint::of_zones::<Self>(1) + self.lists.footprint() + pageblocks + retired + cpus
    }

    pub const fn lists(&self) -> &Lists<'a, M, S> {
        &self.lists
    }

    pub fn local_frames(&self, cpu: Cpu) -> u64 {
        if self.local.is_empty() { 0 } else { u64::from(self.local[cpu.0 as usize]) }
    }

    /// Whether programs get blocks of this order from the lists of the CPUs, and free them there.
    #[inline]
    fn is_local(&self, order: BlockOrder) -> bool {
        order == BlockOrder::ZERO && !self.local.is_empty()
    }

    pub fn marks_mut(&mut self) -> &mut [M] {
        self.lists.marks_mut()
    }

    /// Returns the blocks of a list, from an end on.
    pub fn blocks(
        &self,
        order: BlockOrder,
        migratetype: Migratetype,
        end: End,
    ) -> impl Iterator<Item = (FrameBlock, M)> {
        self.lists.from(order, migratetype, end).map(move |slot| (self.block(slot, order), self.lists.mark(slot)))
    }

    /// Takes exactly this block if it is free.
    pub fn claim(&mut self, block: FrameBlock) -> Option<M> {
        let slot = self.slot(block.first());
        if !self.lists.state(slot).is_free_block_of(block.order()) {
            return None;
        }
        let (order, _, mark) = self.lists.remove(slot);
        self.lists.set(slot, State::held(order));
        Some(mark)
    }

    /// Takes exactly this block out of the free block that it lies in.
    pub fn carve(&mut self, block: FrameBlock) -> Option<M> {
        let wanted = self.slot(block.first());
        let (mut slot, Begins::Free(migratetype, mut order)) = self.beginning(wanted)? else { return None };
        if order < block.order() {
            return None;
        }
        let (.., mark) = self.lists.remove(slot);
        while order > block.order() {
            order = order.below().expect("it is above another order");
            let upper = slot + span(order);
            let (kept, rest) = if wanted < upper { (slot, upper) } else { (upper, slot) };
            self.lists.insert(rest, order, migratetype, mark, End::Front);
            self.statistics.splits += 1;
            slot = kept;
        }
        self.lists.set(slot, State::held(order));
        Some(mark)
    }

    /// Gives a held block back to the global lists.
    pub fn put(&mut self, block: FrameBlock, mark: M, end: End) {
        let slot = self.end_hold(block);
        self.give_good(slot, block.order(), mark, end);
    }

    /// Frees a held block of a program.
    pub fn free(&mut self, block: FrameBlock, cpu: Cpu, mark: M, end: End) {
        let slot = self.end_hold(block);
        self.statistics.freed += 1;
        if !self.is_local(block.order()) {
            self.give_good(slot, block.order(), mark, end);
        } else if !self.lists.state(slot).is_retired() {
            self.free_local(slot, cpu, mark, end);
        }
    }

    /// Splits a held block into held frames.
    pub fn split(&mut self, block: FrameBlock) {
        let first = self.end_hold(block);
        for slot in first..first + span(block.order()) {
            let retired = self.lists.state(slot).is_retired();
            let held = State::held(BlockOrder::ZERO);
            self.lists.set(slot, if retired { held.retired() } else { held });
        }
    }

    /// Returns where a frame is.
    pub fn place(&self, frame: Frame) -> FramePlace {
        let slot = self.slot(frame);
        match self.beginning(slot) {
            Some((first, Begins::Free(_, order))) => FramePlace::Free(self.block(first, order)),
            Some((_, Begins::Held(_))) => FramePlace::Held,
            Some((_, Begins::Local(_))) => FramePlace::Local,
            Some((_, Begins::Nothing)) | None => FramePlace::Retired,
        }
    }

    fn beginning(&self, slot: u32) -> Option<(u32, Begins)> {
        State::beginning(self.lists.states(), slot)
    }

    /// Records that a block was given out.
    fn hold(&mut self, slot: u32, order: BlockOrder) -> FrameBlock {
        self.lists.set(slot, State::held(order));
        self.block(slot, order)
    }

    fn end_hold(&mut self, block: FrameBlock) -> u32 {
        let slot = self.slot(block.first());
        let state = self.lists.state(slot);
        assert!(state.is_held_block_of(block.order()), "the block {block} is given back but not held");
        self.lists.set(slot, if state.is_retired() { State::GONE } else { State::INSIDE });
        slot
    }

    const fn list(&self, order: BlockOrder, migratetype: Migratetype) -> ListName {
        ListName { zone: self.index, order, migratetype }
    }

    fn migratetype(&self, slot: u32) -> Migratetype {
        self.pageblocks[(slot / span(PAGEBLOCK)) as usize]
    }

    fn slot(&self, frame: Frame) -> u32 {
        self.slots.slot(frame)
    }

    fn block(&self, slot: u32, order: BlockOrder) -> FrameBlock {
        self.slots.block(slot, order)
    }
}
