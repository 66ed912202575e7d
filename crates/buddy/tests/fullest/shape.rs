//! Machines on which the allocator is compared with the model.

use proptest::prelude::*;
use rampart_buddy::{
    BankSets, BankSize, Cpu, FullestBank, FullestSlices, Migratetype, PageAllocator, Request, Zone, ZoneKind,
};
use rampart_memory::{BlockOrder, Frame, FrameRange, Node};

use crate::model::{Model, Step, step};

/// A machine.
#[derive(Clone, Debug)]
pub struct Shape {
    zones: Vec<Zone>,
    cpus: u32,
    bank: u64,
    sets: &'static [&'static [u64]],
    /// Frames that stay free before the first step; the others are held, each a block of its own.
    spare: Option<usize>,
}

fn zone(node: u32, kind: ZoneKind, start: u64, count: u64) -> Zone {
    Zone { node: Node(node), kind, frames: FrameRange::new(Frame::new(start).unwrap(), count).unwrap() }
}

impl Shape {
    /// All shapes; the last one has more memory than all others together.
    pub const ALL: [fn() -> Self; 9] = [
        Self::two_nodes,
        Self::smallest_banks,
        Self::larger_banks,
        Self::one_bank,
        Self::one_cpu,
        Self::eight_cpus,
        Self::nearly_full,
        Self::interleaved,
        Self::largest_banks,
    ];

    fn of(zones: &[Zone]) -> Self {
        Self { zones: zones.to_vec(), cpus: 2, bank: 2048, sets: &[], spare: None }
    }

    fn of_frames(frames: u64) -> Self {
        Self::of(&[zone(0, ZoneKind::Normal, 0, frames)])
    }

    pub fn two_nodes() -> Self {
        Self::of(&[
            zone(0, ZoneKind::Dma, 3, 1500),
            zone(0, ZoneKind::Normal, 2048, 6144),
            zone(1, ZoneKind::Normal, 8192, 3000),
        ])
    }

    pub fn smallest_banks() -> Self {
        Self { bank: 1024, ..Self::of_frames(6 * 1024) }
    }

    pub fn larger_banks() -> Self {
        let zones = [zone(0, ZoneKind::Dma, 1000, 3000), zone(0, ZoneKind::Normal, 4096, 3 * 4096)];
        Self { bank: 4096, ..Self::of(&zones) }
    }

    pub fn largest_banks() -> Self {
        Self { bank: 65_536, ..Self::of_frames(2 * 65_536) }
    }

    pub fn one_bank() -> Self {
        Self { bank: 1024, ..Self::of_frames(1024) }
    }

    pub fn one_cpu() -> Self {
        Self { cpus: 1, ..Self::of_frames(3 * 2048) }
    }

    pub fn eight_cpus() -> Self {
        Self { cpus: 8, ..Self::of_frames(4 * 2048) }
    }

    pub fn nearly_full() -> Self {
        Self { spare: Some(8), ..Self::eight_cpus() }
    }

    /// Pairs as in [Panwar15, table 4.1], three banks together, a pair in two zones, one with the end of the memory.
    pub fn interleaved() -> Self {
        let zones = [zone(0, ZoneKind::Dma, 0, 8 * 1024), zone(0, ZoneKind::Normal, 8 * 1024, 2 * 1024 + 600)];
        Self { bank: 1024, sets: &[&[0, 2], &[1, 3], &[4, 6, 7], &[5, 8], &[9, 10]], ..Self::of(&zones) }
    }

    pub fn step(&self) -> impl Strategy<Value = Step> + use<> {
        let last = self.zones.iter().map(|zone| zone.frames.last().number()).max().unwrap() + 100;
        step(self.cpus, last, if self.spare.is_some() { 40 } else { 700 })
    }

    /// Performs the steps on such a machine and on its model, compares them after each, and returns how many operations
    /// these were.
    pub fn perform(&self, steps: impl IntoIterator<Item = Step>) -> Result<u64, TestCaseError> {
        let bank = BankSize::of_frames(self.bank).expect("a size of banks");
        let mut memory = [(0, 0); 16];
        let sets = self.sets.iter().map(|banks| banks.iter().copied());
        let sets = BankSets::interleaved(sets, &mut memory).expect("sets");
        let mut slices = FullestSlices::of(&self.zones, self.cpus, bank);
        let mut vacant = slices.vacant_zones();
        let memory = slices.lend(&mut vacant);
        let allocator = FullestBank::new(&self.zones, self.cpus, bank, &sets, memory).expect("a machine");
        let mut model = Model::new(&self.zones, bank, sets);
        let (order, migratetype) = (BlockOrder::ZERO, Migratetype::Movable);
        let page = Request { order, migratetype, cpu: Cpu(0), node: Node(0), urgent: true };
        while self.spare.is_some_and(|spare| model.free_frames() > spare) {
            model.hold(allocator.allocate(page).expect("frames are free"), migratetype)?;
        }
        steps.into_iter().try_for_each(|step| {
            model.step(&allocator, step)?;
            model.check(&allocator)
        })?;
        Ok(model.operations)
    }
}
