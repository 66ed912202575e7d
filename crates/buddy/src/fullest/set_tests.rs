//! Sets of interleaved banks, which change their pools together [Panwar15, 4.4].

use rampart_memory::FrameBlock;

use super::*;
use crate::Migratetype::{self, Movable, Unmovable};
use crate::testing::{block, urgent, zone};
use crate::{BankPool, BankPool::Kernel, BankPool::Offline, ZoneKind::Dma, ZoneKind::Normal};

const FRAMES: u64 = 1024;

/// Runs a test on a machine with these sets of banks of two chunks.
fn on(zones: &[Zone], sets: &[&[u64]], test: impl FnOnce(&FullestBank<'_>)) {
    let bank = BankSize::of_frames(FRAMES).unwrap();
    let mut memory = [(0, 0); 16];
    let sets = BankSets::interleaved(sets.iter().map(|set| set.iter().copied()), &mut memory).unwrap();
    let mut slices = FullestSlices::of(zones, 2, bank);
    let mut vacant = slices.vacant_zones();
    let memory = slices.lend(&mut vacant);
    test(&FullestBank::new(zones, 2, bank, &sets, memory).unwrap());
}

fn pools(allocator: &FullestBank<'_>) -> Vec<BankPool> {
    (0..allocator.parts()).map(|part| allocator.pool(part)).collect()
}

fn take(allocator: &FullestBank<'_>, number: u8, migratetype: Migratetype, count: usize) -> Vec<FrameBlock> {
    (0..count).map(|_| allocator.allocate(urgent(number, migratetype)).expect("there is enough")).collect()
}

fn banks(blocks: &[FrameBlock]) -> Vec<u64> {
    blocks.iter().map(|block| block.first().number() / FRAMES).collect()
}

#[test]
fn the_banks_of_a_set_come_online_and_go_offline_together() {
    on(&[zone(0, Normal, 0, 4 * FRAMES)], &[&[0, 2], &[1, 3]], |allocator| {
        let [kernel, user] = [Unmovable, Movable].map(|migratetype| take(allocator, 10, migratetype, 1)[0]);
        assert_eq!(pools(allocator), [Kernel, BankPool::User, Kernel, BankPool::User]);
        let others = take(allocator, 10, Movable, 1);
        assert_eq!(banks(&[user, others[0], kernel]), [1, 3, 0], "a set is filled before another is opened");
        allocator.free(others[0], Cpu(0));
        assert_eq!(pools(allocator)[1], BankPool::User, "the other bank holds a page");
        allocator.free(user, Cpu(0));
        allocator.free(kernel, Cpu(0));
        assert_eq!(pools(allocator), [Offline; 4]);
    });
}

#[test]
fn the_kernel_takes_a_whole_set_and_each_of_its_banks_counts_as_a_steal() {
    on(&[zone(0, Normal, 0, 4 * FRAMES)], &[&[0, 2], &[1, 3]], |allocator| {
        take(allocator, 9, Movable, 7);
        assert_eq!(pools(allocator), [BankPool::User; 4]);
        take(allocator, 0, Unmovable, 1);
        assert_eq!(pools(allocator).iter().filter(|pool| **pool == Kernel).count(), 2);
        assert_eq!(allocator.statistics().steals, 2);
    });
}

/// The set with more free frames is the emptier one, however they lie.
#[test]
fn the_fullest_set_gets_the_next_page() {
    on(&[zone(0, Normal, 0, 6 * FRAMES)], &[&[0, 1, 2], &[3, 4, 5]], |allocator| {
        let held = take(allocator, 9, Movable, 12);
        let number = |chunk: u64| held.iter().find(|held| held.first().number() == chunk * 512).copied().unwrap();
        // One chunk of each bank of the first set; both of one bank of the second.
        [0, 2, 4, 6, 7].into_iter().for_each(|chunk| allocator.free(number(chunk), Cpu(0)));
        assert_eq!(banks(&take(allocator, 9, Movable, 5)), [3, 3, 0, 1, 2]);
    });
}

#[test]
fn a_set_is_isolated_as_long_as_any_of_its_banks_is() {
    on(&[zone(0, Normal, 0, 2 * FRAMES)], &[&[0, 1]], |allocator| {
        let held = take(allocator, 0, Movable, 1);
        assert!(allocator.isolate(0) && allocator.isolate(1) && !allocator.isolate(0));
        allocator.rejoin(0);
        assert_eq!(allocator.allocate(urgent(0, Movable)), None);
        allocator.rejoin(1);
        assert!(allocator.allocate(urgent(0, Movable)).is_some_and(|page| page != held[0]));
    });
}

#[test]
fn isolation_ends_when_the_set_goes_offline() {
    on(&[zone(0, Normal, 0, 2 * FRAMES)], &[&[0, 1]], |allocator| {
        let held = take(allocator, 9, Movable, 1);
        assert!(allocator.isolate(1));
        allocator.free(held[0], Cpu(0));
        assert_eq!(pools(allocator), [Offline; 2]);
        take(allocator, 9, Movable, 1);
        assert!(allocator.isolate(1), "it is isolated no longer");
    });
}

/// As a bank in two zones: it serves both, and no bank of it goes offline [Panwar15, 4.1.2].
#[test]
fn a_set_with_a_partial_bank_or_in_two_zones_is_the_kernels_for_good() {
    let zones = [zone(0, Dma, 0, 4 * FRAMES), zone(0, Normal, 4 * FRAMES, 3 * FRAMES + 8)];
    on(&zones, &[&[0, 1], &[2, 4], &[5, 7]], |allocator| {
        let before = pools(allocator);
        assert_eq!(before, [Offline, Offline, Kernel, Offline, Kernel, Kernel, Offline, Kernel]);
        let held: Vec<FrameBlock> = std::iter::from_fn(|| allocator.allocate(urgent(3, Movable))).collect();
        assert_eq!(held.len() as u64 * 8, 7 * FRAMES + 8, "all of it is used");
        held.into_iter().for_each(|block| allocator.free(block, Cpu(0)));
        assert!([2, 4, 5].into_iter().all(|part| !allocator.isolate(part)));
        assert!(allocator.claim(block(2 * FRAMES, 10)) && allocator.claim(block(5 * FRAMES, 10)));
        [2, 5].into_iter().for_each(|bank| allocator.free(block(bank * FRAMES, 10), Cpu(0)));
        assert_eq!(pools(allocator), before);
    });
}
