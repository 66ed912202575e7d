//! What lies where on the simulated machine, counted in frames.
//!
//! **Problem.** Banks, zones, blocks of 1 GiB and blocks of 2 MiB are counted thousands of times in a run. **Idea.**
//! Each block that is given out or back changes a count of its bank, its zone and its chunk of 2 MiB; everything else
//! is a sum of these. **Why this way.** No count asks the allocator, so all allocators are counted alike.

use rampart_buddy::{Migratetype, Zone};
use rampart_memory::{Bytes, FRAME_BYTES, Frame, FrameBlock, Node};

/// The frames of a chunk: 2 MiB.
const CHUNK: u64 = 512;

/// The chunks of 1 GiB.
const CHUNKS_OF_A_GIB: usize = 512;

/// Frames in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionUse {
    /// Of programs: they can move.
    pub movable: u64,
    /// Of the kernel.
    pub kernel: u64,
}

impl SectionUse {
    /// Whether nothing lies there.
    pub const fn is_empty(self) -> bool {
        self.movable == 0 && self.kernel == 0
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self { movable: self.movable + other.movable, kernel: self.kernel + other.kernel }
    }
}

/// A zone and its frames in use.
#[derive(Clone, Copy, Debug)]
struct ZoneUse {
    zone: Zone,
    used: u64,
}

/// The use of all frames.
#[derive(Clone, Debug)]
pub struct MemoryUses {
    chunks: Vec<SectionUse>,
    banks: Vec<SectionUse>,
    zones: Vec<ZoneUse>,
    /// The frames of a bank.
    bank: u64,
    used: u64,
}

/// Whether a block is given out or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseChange {
    /// Given out.
    Taken,
    /// Given back.
    Freed,
}

impl MemoryUses {
    /// Returns those of a machine that is empty.
    pub fn new(zones: &[Zone], memory: Bytes, bank: Bytes) -> Self {
        let count = |unit: u64| usize::try_from(memory.get() / FRAME_BYTES / unit).expect("a machine has few banks");
        let frames = bank.get() / FRAME_BYTES;
        Self {
            chunks: vec![SectionUse::default(); count(CHUNK)],
            banks: vec![SectionUse::default(); count(frames)],
            zones: zones.iter().map(|&zone| ZoneUse { zone, used: 0 }).collect(),
            bank: frames,
            used: 0,
        }
    }

    /// Counts a block.
    pub fn count(&mut self, block: FrameBlock, migratetype: Migratetype, change: UseChange) {
        let by = |to: &mut u64, frames: u64| match change {
            UseChange::Taken => *to += frames,
            UseChange::Freed => *to -= frames,
        };
        let of = |uses: &mut SectionUse, frames: u64| {
            by(if migratetype == Migratetype::Movable { &mut uses.movable } else { &mut uses.kernel }, frames);
        };
        let first = block.first().number();
        // A block is a chunk, a part of one, or several.
        for chunk in first / CHUNK..=(first + block.count() - 1) / CHUNK {
            of(&mut self.chunks[index(chunk)], block.count().min(CHUNK));
        }
        let bank = self.bank_of(block);
        of(&mut self.banks[bank], block.count());
        let zone = self.zone_place(block.first());
        by(&mut self.zones[zone].used, block.count());
        by(&mut self.used, block.count());
    }

    /// Returns the bank that a block lies in.
    pub const fn bank_of(&self, block: FrameBlock) -> usize {
        index(block.first().number() / self.bank)
    }

    fn zone_place(&self, frame: Frame) -> usize {
        let place = self.zones.iter().position(|of| frame <= of.zone.frames.last());
        place.expect("a frame lies in a zone")
    }

    /// Returns the node that a frame lies in.
    pub fn node_of(&self, frame: Frame) -> Node {
        self.zones[self.zone_place(frame)].zone.node
    }

    /// Returns the use of each bank.
    pub fn banks(&self) -> &[SectionUse] {
        &self.banks
    }

    /// Returns all frames in use.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns how many units of so many frames the free frames of each zone make up, with a share of the zone kept
    /// free, in per cent: the sum over all zones.
    pub fn units_free(&self, unit: u64, reserve_percent: u32) -> u64 {
        let of = |zone: &ZoneUse| {
            let frames = zone.zone.frames.count();
            (frames - zone.used).saturating_sub(frames * u64::from(reserve_percent) / 100) / unit
        };
        self.zones.iter().map(of).sum()
    }

    /// Returns the blocks of 1 GiB, counted from address 0 on, in which memory of the kernel lies.
    pub fn tainted_gib(&self) -> u64 {
        let gibs = self.chunks.chunks(CHUNKS_OF_A_GIB);
        gibs.filter(|gib| gib.iter().any(|chunk| chunk.kernel > 0)).count() as u64
    }

    /// Returns the free blocks of 2 MiB and of 4 MiB: aligned, and with nothing in them.
    pub fn free_blocks(&self) -> [u64; 2] {
        let count = |chunks: usize| {
            self.chunks.chunks_exact(chunks).filter(|block| block.iter().all(|chunk| chunk.is_empty())).count() as u64
        };
        [count(1), count(2)]
    }

    /// Returns the use of each section of so many bytes, a multiple of 2 MiB; the last may be smaller.
    pub fn sections(&self, section: Bytes) -> Vec<SectionUse> {
        let chunks = index(section.get() / FRAME_BYTES / CHUNK).max(1);
        let sum = |section: &[SectionUse]| section.iter().copied().fold(SectionUse::default(), SectionUse::plus);
        self.chunks.chunks(chunks).map(sum).collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "frames of a machine that is in memory")]
const fn index(number: u64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rampart_buddy::ZoneKind;
    use rampart_memory::{BlockOrder, Frame, FrameRange};
    use std::collections::BTreeMap;

    const FRAMES: u64 = 16_384;

    fn machine() -> MemoryUses {
        let zone = |kind, start, count| Zone {
            node: Node(u32::from(start > 0)),
            kind,
            frames: FrameRange::new(Frame::new(start).unwrap(), count).unwrap(),
        };
        let zones = [zone(ZoneKind::Dma32, 0, 6144), zone(ZoneKind::Normal, 6144, FRAMES - 6144)];
        MemoryUses::new(&zones, Bytes::from_mib(64), Bytes::from_mib(8))
    }

    fn block(first: u64, order: u8) -> FrameBlock {
        FrameBlock::new(Frame::new(first).unwrap(), BlockOrder::new(order).unwrap()).unwrap()
    }

    #[test]
    fn units_are_counted_zone_by_zone_beyond_the_reserve_of_each() {
        let mut uses = machine();
        // 24 and 40 MiB: with a tenth kept free, 21.6 and 36 MiB.
        assert_eq!([uses.units_free(2048, 0), uses.units_free(2048, 10), uses.units_free(4096, 10)], [8, 6, 3]);
        uses.count(block(0, 10), Migratetype::Movable, UseChange::Taken);
        uses.count(block(8192, 10), Migratetype::Movable, UseChange::Taken);
        // 20 and 36 MiB: together they would make up seven banks.
        assert_eq!(uses.units_free(2048, 0), 6);
        assert_eq!(uses.units_free(2048, 99), 0);
    }

    proptest! {
        /// Every count is that of a map with one entry a frame.
        #[test]
        fn every_count_is_that_of_a_map_of_frames(
            steps in proptest::collection::vec((0..FRAMES, 0_u8..=10, 0_usize..3, any::<bool>()), 1..60)
        ) {
            let mut uses = machine();
            let mut naive: BTreeMap<u64, Migratetype> = BTreeMap::new();
            let mut held: Vec<(FrameBlock, Migratetype)> = Vec::new();
            for (frame, order, kind, frees) in steps {
                let (taken, kind) = (block(frame >> order << order, order), Migratetype::ALL[kind]);
                if frees && !held.is_empty() {
                    let (gone, kind) = held.swap_remove(index(frame) % held.len());
                    uses.count(gone, kind, UseChange::Freed);
                    naive.retain(|frame, _| !gone.contains(Frame::new(*frame).unwrap()));
                } else if taken.frames().all(|frame| !naive.contains_key(&frame.number())) {
                    uses.count(taken, kind, UseChange::Taken);
                    naive.extend(taken.frames().map(|frame| (frame.number(), kind)));
                    held.push((taken, kind));
                }
            }
            let of = |range: std::ops::Range<u64>| {
                let movable = naive.range(range.clone()).filter(|(_, kind)| **kind == Migratetype::Movable).count() as u64;
                SectionUse { movable, kernel: naive.range(range).count() as u64 - movable }
            };
            let units = |unit: u64| (0..FRAMES / unit).map(move |number| number * unit..(number + 1) * unit);
            prop_assert!(units(2048).map(of).eq(uses.banks().iter().copied()));
            prop_assert!(units(4096).map(of).eq(uses.sections(Bytes::from_mib(16))));
            let free = [512, 1024].map(|unit| units(unit).filter(|range| of(range.clone()).is_empty()).count() as u64);
            prop_assert_eq!(uses.free_blocks(), free);
            prop_assert_eq!(uses.used(), naive.len() as u64);
            prop_assert_eq!(uses.tainted_gib(), u64::from(of(0..FRAMES).kernel > 0));
            let units_free = [0..6144, 6144..FRAMES].map(|zone| {
                let uses = of(zone.clone());
                (zone.end - zone.start - uses.movable - uses.kernel) / 2048
            });
            prop_assert_eq!(uses.units_free(2048, 0), units_free.iter().sum::<u64>());
        }
    }
}
