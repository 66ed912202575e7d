//! How much memory an allocator's own structures take.
//!
//! **Problem.** Lists of free blocks for each bank make the structures of a zone grow with its banks, and those are on
//! the path of every allocation [Panwar15, 4.1.3]. **Idea.** Count what the structures of an allocator really have:
//! what there is for each zone and bank, as in Linux' `struct zone`, apart from what there is for each frame, as in its
//! `struct page`. **Why this way.** [Panwar15, table 4.2] counts the former only, so the figures compare.

use core::iter::Sum;
use core::ops::Add;

use rampart_memory::Bytes;

/// The memory that an allocator's own structures take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// What it keeps of zones and banks, the heads of their free lists included.
    pub zones: Bytes,
    /// The heads of the free lists in `zones`.
    pub heads: Bytes,
    /// What it keeps for each CPU.
    pub cpus: Bytes,
    /// What it keeps of each frame, or of each block of frames.
    pub frames: Bytes,
}

impl Footprint {
    /// Returns that of so many `T` that are kept of zones or banks.
    pub(crate) const fn of_zones<T>(count: usize) -> Self {
        Self { zones: bytes::<T>(count), heads: Bytes::ZERO, cpus: Bytes::ZERO, frames: Bytes::ZERO }
    }

    /// Returns that of so many `T` that are heads of free lists.
    pub(crate) const fn of_heads<T>(count: usize) -> Self {
        Self { heads: bytes::<T>(count), ..Self::of_zones::<T>(count) }
    }

    /// Returns that of so many `T` that are kept of CPUs.
    pub(crate) const fn of_cpus<T>(count: usize) -> Self {
        Self { cpus: bytes::<T>(count), ..Self::of_zones::<T>(0) }
    }

    /// Returns that of so many `T` that are kept of frames.
    pub(crate) const fn of_frames<T>(count: usize) -> Self {
        Self { frames: bytes::<T>(count), ..Self::of_zones::<T>(0) }
    }
}

const fn bytes<T>(count: usize) -> Bytes {
    Bytes::new((count * size_of::<T>()) as u64)
}

impl Add for Footprint {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let sum = |one: Bytes, other: Bytes| Bytes::new(one.get() + other.get());
        Self {
            zones: sum(self.zones, other.zones),
            heads: sum(self.heads, other.heads),
            cpus: sum(self.cpus, other.cpus),
            frames: sum(self.frames, other.frames),
        }
    }
}

impl Sum for Footprint {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::zone;
    use crate::{
        AdaptiveBuddy, ArrayBanks, BankSets, BankSize, Buddy, FullestBank, FullestSlices, ListBanks, StealRule,
        ZoneKind::Normal,
    };

    const FRAMES: u64 = 16 * 1024;
    const ORDERS: u64 = 11;
    const HEAD: u64 = 8;

    /// Returns what one zone takes, as (zones, heads), and what each bank of it takes: both from machines of as many
    /// frames with 8 and with 16 banks.
    fn zone_and_bank(of: impl Fn(BankSize) -> Footprint) -> [(u64, u64); 2] {
        let [few, many] = [8, 16].map(|banks| of(BankSize::of_frames(FRAMES / banks).unwrap()));
        assert_eq!((few.frames, few.cpus), (many.frames, many.cpus));
        let bank = |of: fn(Footprint) -> Bytes| (of(many).get() - of(few).get()) / 8;
        let (zones, heads) = (bank(|of| of.zones), bank(|of| of.heads));
        [(few.zones.get() - 8 * zones, few.heads.get() - 8 * heads), (zones, heads)]
    }

    /// [Panwar15, 4.1.3 and 4.2].
    #[test]
    fn the_array_and_the_lists_keep_free_lists_for_each_bank_and_adaptive_buddy_for_each_pool() {
        let zones = [zone(0, Normal, 0, FRAMES)];
        let array = zone_and_bank(|bank| ArrayBanks::new(&zones, bank).unwrap().footprint());
        let lists = zone_and_bank(|bank| ListBanks::new(&zones, bank).unwrap().footprint());
        let [plain, steal] = [BankSets::plain(), BankSets::two_way_of_128()].map(|sets| {
            zone_and_bank(|bank| AdaptiveBuddy::new(&zones, bank, &sets, StealRule::MostFree).unwrap().footprint())
        });
        assert_eq!((array[0].1, array[1].1), (0, ORDERS * HEAD));
        assert_eq!((lists[0].1, lists[1].1), (0, ORDERS * HEAD));
        assert_eq!(lists[1].0, array[1].0 + HEAD, "a bank is on a list besides");
        assert_eq!((plain[0].1, plain[1].1), (4 * ORDERS * HEAD, 0), "three pools, and isolated banks");
        assert_eq!(plain[1].0 + ORDERS * HEAD, array[1].0);
        assert!(steal[1].0 <= plain[1].0, "interleaved banks have one set");
    }

    #[test]
    fn a_buddy_system_keeps_lists_by_migratetype_and_nothing_of_banks() {
        let zones = [zone(0, Normal, 0, FRAMES)];
        let of = |cpus| Buddy::new(&zones, cpus, ()).unwrap().footprint();
        assert_eq!(of(1).heads.get(), 3 * ORDERS * HEAD);
        assert_eq!((of(3).zones, of(3).frames), (of(1).zones, of(1).frames));
        assert_eq!(of(3).cpus.get(), 3 * of(1).cpus.get());
        // Links, a state, and the pageblocks and large blocks.
        assert_eq!(of(1).frames.get(), FRAMES * 9 + FRAMES / 512 + FRAMES / 1024 * 2);
    }

    #[test]
    fn fullest_bank_has_no_lists_of_blocks() {
        let zones = [zone(0, Normal, 0, FRAMES)];
        let [zone, bank] = zone_and_bank(|bank| {
            let mut slices = FullestSlices::of(&zones, 2, bank);
            let mut vacant = slices.vacant_zones();
            FullestBank::new(&zones, 2, bank, &BankSets::plain(), slices.lend(&mut vacant)).unwrap().footprint()
        });
        assert_eq!((zone.1, bank.1), (0, 0));
        assert!(bank.0 >= 8);
    }
}
