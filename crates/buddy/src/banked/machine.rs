//! A whole machine of banks: what every policy does alike.

use core::ops::Range;

use rampart_memory::{BlockOrder, FrameBlock, Node};

use super::BankPolicy;
use super::memory::BankMemory;
use super::parts::Shelf;
use crate::{BankSets, BankSize, Error, Migratetype, Request, Storage, Watermarks, Zone};

/// The allocator, for one owner.
pub struct BankMachine<'a, P, S: Storage<'a>> {
    pub(super) memory: BankMemory<'a, S>,
    pub(super) policy: P,
}

impl<'a, P: BankPolicy<'a, S>, S: Storage<'a>> BankMachine<'a, P, S> {
    /// Returns a machine whose frames are all free.
    pub fn new(storage: &S, zones: &[Zone], bank: BankSize, sets: BankSets<'_>, mut policy: P) -> Result<Self, Error> {
        let memory = BankMemory::new(storage, zones, bank, sets, P::GROUPING)?;
        policy.begin(&memory);
        Ok(Self { memory, policy })
    }

    /// Allocates a block: in each zone down to the low watermark, then in each down to min, or to the last frame if the
    /// request is urgent.
    pub fn allocate(&mut self, request: &Request) -> Option<FrameBlock> {
        let floor = |marks: Watermarks| if request.urgent { 0 } else { marks.min };
        let block = self.first(request, |marks| marks.low).or_else(|| self.first(request, floor));
        self.memory.statistics.allocated += u64::from(block.is_some());
        self.memory.statistics.refused += u64::from(block.is_none());
        block
    }

    /// Allocates a block if its zone keeps `floor` frames free. Memory stays on its node as long as that has room: in
    /// the banks in use of all its zones, then in offline ones. Programs take room of the kernel only if no node has
    /// other memory for them; else they would push it into more banks. The kernel takes banks of programs before it
    /// leaves its node.
    fn first(&mut self, request: &Request, floor: impl Fn(Watermarks) -> u64) -> Option<FrameBlock> {
        let is_program = request.migratetype == Migratetype::Movable;
        let all = self.memory.zones.len();
        let mut begin = 0;
        while begin < all {
            let end = self.end_of_node(request.node, begin);
            // Each way is named where it is used, so that the usual one is compiled into its caller.
            let found = self
                .first_in(begin..end, request, &floor, P::find)
                .or_else(|| self.first_in(begin..end, request, &floor, P::find_offline))
                .or_else(|| if is_program { None } else { self.first_among_others(begin..end, request, &floor) });
            if found.is_some() {
                return found;
            }
            begin = end;
        }
        if is_program { self.first_among_others(0..all, request, &floor) } else { None }
    }

    #[cold]
    fn first_among_others(
        &mut self,
        places: Range<usize>,
        request: &Request,
        floor: &impl Fn(Watermarks) -> u64,
    ) -> Option<FrameBlock> {
        self.first_in(places, request, floor, P::find_among_others)
    }

    /// Returns the end of a node's zones in the zonelist of a request, given where they begin.
    fn end_of_node(&self, requested: Node, begin: usize) -> usize {
        let zones = &self.memory.map.zonelist(requested)[begin..];
        let node = |zone: usize| self.memory.zones[zone].zone.node;
        begin + zones.iter().take_while(|&&zone| node(zone) == node(zones[0])).count()
    }

    /// Allocates from the zones at these places of the request's zonelist, from the first in which a block is found.
    #[inline]
    fn first_in(
        &mut self,
        places: Range<usize>,
        request: &Request,
        floor: &impl Fn(Watermarks) -> u64,
        mut find: impl FnMut(&mut P, &mut BankMemory<'a, S>, usize, BlockOrder, Migratetype) -> Option<u32>,
    ) -> Option<FrameBlock> {
        let Request { order, migratetype, node, .. } = *request;
        let Self { memory, policy } = self;
        places.into_iter().find_map(|place| {
            let zone = memory.map.zonelist(node)[place];
            let spare = memory.parts.free_frames(zone).checked_sub(floor(memory.zones[zone].watermarks))?;
            let slot = if spare < order.frames() { None } else { find(policy, memory, zone, order, migratetype) }?;
            Some(memory.carve(memory.part_at(zone, slot), slot, slot, order, migratetype))
        })
    }

    /// Takes exactly these frames if all are free. As a bank with a held page is not offline, its set joins the user
    /// pool: who asks for frames by their number gives them back soon.
    pub fn claim(&mut self, block: FrameBlock) -> bool {
        let Self { memory, policy } = self;
        let Some((part, slot)) = memory.free_block_with(block) else { return false };
        if memory.parts.shelf_of(part) == Shelf::Offline {
            let set = memory.parts.set_of(part);
            policy.shelve(memory, set, Shelf::User);
        }
        let wanted = memory.slot_of(part, block.first());
        memory.carve(part, slot, wanted, block.order(), Migratetype::Movable);
        true
    }

    /// Frees a held block.
    pub fn free(&mut self, block: FrameBlock) {
        let Self { memory, policy } = self;
        let part = memory.free(block);
        let set = memory.parts.set_of(part);
        policy.freed(memory, set);
    }

    /// Isolates a part and with it its set, if that is in the user pool.
    pub fn isolate(&mut self, part: usize) -> bool {
        let Self { memory, policy } = self;
        let set = memory.parts.set_of(part);
        match memory.parts.shelf(set) {
            Shelf::Kernel | Shelf::Offline => return false,
            Shelf::User => policy.shelve(memory, set, Shelf::Isolated),
            Shelf::Isolated => {}
        }
        memory.parts.set_isolated(part, true);
        true
    }

    /// Ends the isolation of a part, and that of its set if no other part of it is isolated.
    pub fn rejoin(&mut self, part: usize) {
        let Self { memory, policy } = self;
        let set = memory.parts.set_of(part);
        memory.parts.set_isolated(part, false);
        if memory.parts.shelf(set) == Shelf::Isolated && !memory.parts.any_isolated(set) {
            policy.shelve(memory, set, Shelf::User);
        }
    }
}
