//! The reference model: a set of free frames, and the held blocks.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use rampart_buddy::{
    BankPart, BankPool, BankPools, BankSets, BankSize, Cpu, FramePlace, FullestBank, Migratetype, PageAllocator,
    Request, Zone, ZoneIndex,
};
use rampart_memory::{BlockOrder, Frame, FrameBlock, Node};

/// The next step; an index picks among the held blocks or the parts.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Allocate { request: Request, times: usize },
    Free { which: Index, times: usize, cpu: Cpu },
    Claim { first: u64, order: BlockOrder },
    Retire { number: u64 },
    Isolate { part: Index },
    Rejoin { part: Index },
}

fn order() -> impl Strategy<Value = BlockOrder> {
    prop_oneof![4 => Just(0), 2 => 1_u8..6, 2 => 6_u8..=10].prop_map(|number| BlockOrder::new(number).unwrap())
}

/// Returns steps on a machine of so many CPUs whose frames lie below `last`, each of at most `most` operations.
pub fn step(cpus: u32, last: u64, most: usize) -> impl Strategy<Value = Step> {
    let request = (order(), prop::sample::select(&Migratetype::ALL), 0..cpus, 0_u32..3).prop_map(
        |(order, migratetype, cpu, node)| Request { order, migratetype, cpu: Cpu(cpu), node: Node(node), urgent: true },
    );
    prop_oneof![
        6 => (request, 1..most).prop_map(|(request, times)| Step::Allocate { request, times }),
        6 => (any::<Index>(), 1..most, 0..cpus)
            .prop_map(|(which, times, cpu)| Step::Free { which, times, cpu: Cpu(cpu) }),
        2 => (0..last, order()).prop_map(|(first, order)| Step::Claim { first, order }),
        1 => (0..last).prop_map(|number| Step::Retire { number }),
        1 => any::<Index>().prop_map(|part| Step::Isolate { part }),
        1 => any::<Index>().prop_map(|part| Step::Rejoin { part }),
    ]
}

/// What the model knows: each free frame, each held block with whether it may lie in a bank of the programs.
pub struct Model<'a> {
    free: BTreeSet<Frame>,
    held: Vec<(FrameBlock, Migratetype)>,
    retired: BTreeSet<Frame>,
    isolated: BTreeSet<usize>,
    /// Blocks given, claimed, retired and given back, and requests refused.
    pub operations: u64,
    bank: BankSize,
    sets: BankSets<'a>,
}

impl<'a> Model<'a> {
    pub fn new(zones: &[Zone], bank: BankSize, sets: BankSets<'a>) -> Self {
        let frames = zones.iter().flat_map(|zone| zone.frames.start().number()..=zone.frames.last().number());
        Self {
            free: frames.map(|number| Frame::new(number).unwrap()).collect(),
            held: Vec::new(),
            retired: BTreeSet::new(),
            isolated: BTreeSet::new(),
            operations: 0,
            bank,
            sets,
        }
    }

    pub fn free_frames(&self) -> usize {
        self.free.len()
    }

    /// Returns the parts of the set of a part.
    fn company(&self, allocator: &FullestBank<'_>, part: usize) -> Vec<usize> {
        let set = |part: usize| self.sets.set_of(self.bank.bank_of(allocator.part(part).frames.start()));
        (0..allocator.parts()).filter(|&other| set(other) == set(part)).collect()
    }

    fn is_free(&self, block: FrameBlock) -> bool {
        block.frames().all(|frame| self.free.contains(&frame))
    }

    /// Whether any block of this order is free in a bank that is not isolated.
    fn has_block(&self, allocator: &FullestBank<'_>, order: BlockOrder) -> bool {
        let isolated = self.isolated.iter().flat_map(|&part| self.company(allocator, part));
        let isolated: Vec<_> = isolated.map(|part| allocator.part(part).frames).collect();
        let starts = self.free.iter().filter(|frame| frame.number().is_multiple_of(order.frames()));
        let mut blocks = starts.filter_map(|&first| FrameBlock::new(first, order));
        blocks.any(|block| self.is_free(block) && !isolated.iter().any(|frames| frames.contains(block.first())))
    }

    pub fn hold(&mut self, block: FrameBlock, migratetype: Migratetype) -> Result<(), TestCaseError> {
        for frame in block.frames() {
            prop_assert!(self.free.remove(&frame), "{} is given but not free", frame);
        }
        self.held.push((block, migratetype));
        Ok(())
    }

    /// Performs a step on both and compares the results.
    pub fn step(&mut self, allocator: &FullestBank<'_>, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Allocate { request, times } => {
                for _ in 0..times {
                    self.operations += 1;
                    let Some(block) = allocator.allocate(request) else {
                        prop_assert!(!self.has_block(allocator, request.order), "{:?} is refused", request);
                        break;
                    };
                    prop_assert_eq!(block.order(), request.order);
                    self.hold(block, request.migratetype)?;
                }
            }
            Step::Free { which, times, cpu } => {
                for _ in 0..times.min(self.held.len()) {
                    self.operations += 1;
                    let (block, _) = self.held.swap_remove(which.index(self.held.len()));
                    allocator.free(block, cpu);
                    self.free.extend(block.frames().filter(|frame| !self.retired.contains(frame)));
                }
            }
            Step::Claim { first, order } => {
                let first = Frame::new(first / order.frames() * order.frames()).unwrap();
                let block = FrameBlock::new(first, order).unwrap();
                self.operations += 1;
                let claimed = allocator.claim(block);
                prop_assert_eq!(claimed, self.is_free(block), "{}", block);
                if claimed {
                    self.hold(block, Migratetype::Movable)?;
                }
            }
            Step::Retire { number } => self.retire(allocator, Frame::new(number).unwrap())?,
            Step::Isolate { part } => {
                let part = part.index(allocator.parts());
                let pool = allocator.part(part).pool;
                let isolated = allocator.isolate(part);
                prop_assert_eq!(isolated, pool == BankPool::User && !self.isolated.contains(&part));
                if isolated {
                    self.isolated.insert(part);
                }
            }
            Step::Rejoin { part } => {
                let part = part.index(allocator.parts());
                allocator.rejoin(part);
                self.isolated.remove(&part);
            }
        }
        self.isolated.retain(|&part| allocator.part(part).pool == BankPool::User);
        Ok(())
    }

    fn retire(&mut self, allocator: &FullestBank<'_>, frame: Frame) -> Result<(), TestCaseError> {
        self.operations += 1;
        let held = self.held.iter().any(|(block, _)| block.contains(frame));
        match allocator.retire(frame) {
            FramePlace::Free(block) => prop_assert!(self.is_free(block) && block.contains(frame)),
            FramePlace::Held => prop_assert!(held && !self.retired.contains(&frame)),
            FramePlace::Retired => prop_assert!(self.retired.contains(&frame)),
            FramePlace::Absent => prop_assert!(!held && !self.free.contains(&frame)),
            FramePlace::Local => prop_assert!(false, "CPUs have no lists"),
        }
        if held || self.free.remove(&frame) {
            self.retired.insert(frame);
        }
        Ok(())
    }

    /// No overlap, no loss, pools of whole banks and sets, the kernel's blocks in its own banks only.
    pub fn check(&self, allocator: &FullestBank<'_>) -> Result<(), TestCaseError> {
        let zones = (0..).map(ZoneIndex).take_while(|&zone| allocator.zone(zone).is_some());
        let free: u64 = zones.map(|zone| allocator.free_frames(zone)).sum();
        prop_assert_eq!(free, self.free.len() as u64);
        let states: Vec<BankPart> = (0..allocator.parts()).map(|part| allocator.part(part)).collect();
        for (part, state) in states.iter().enumerate() {
            let free = self.free.range(state.frames.start()..=state.frames.last()).count() as u64;
            prop_assert_eq!(state.free, free);
            let used = state.frames.count() - free;
            prop_assert!(state.pool != BankPool::Offline || used == 0, "an offline bank holds a page");
            prop_assert!(!state.is_partial || state.pool == BankPool::Kernel);
            let company = self.company(allocator, part);
            let parts = || company.iter().map(|&other| states[other]);
            prop_assert!(parts().all(|other| other.pool == state.pool), "a set is in one pool");
            let stays = parts().any(|other| other.is_partial || other.zone != state.zone);
            prop_assert!(!stays || state.pool == BankPool::Kernel, "a set in two zones, or with a partial bank");
        }
        for (block, migratetype) in self.held.iter().filter(|(_, migratetype)| *migratetype != Migratetype::Movable) {
            let part = states.iter().find(|state| state.frames.contains(block.first())).unwrap();
            prop_assert_eq!(part.pool, BankPool::Kernel, "{} of {:?} lies among programs", block, migratetype);
        }
        Ok(())
    }
}
