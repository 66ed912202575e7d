//! Tests on small machines.

use std::collections::BTreeSet;

use rampart_memory::{FrameBlock, Node};

use super::*;
use crate::Migratetype::{self, Movable, Unmovable};
use crate::testing::{block, frame, request, urgent, zone};
use crate::{BankPool, ZoneKind::Dma, ZoneKind::Normal};

const BANK: BankSize = BankSize::of_frames(2048).unwrap();
const CPUS: u32 = 2;

/// Runs a test on a machine of these zones.
fn on(zones: &[Zone], test: impl FnOnce(&FullestBank<'_>)) {
    on_machine(zones, CPUS, (BANK, &BankSets::plain()), test);
}

fn on_machine<T>(
    zones: &[Zone],
    cpus: u32,
    (bank, sets): (BankSize, &BankSets<'_>),
    test: impl FnOnce(&FullestBank<'_>) -> T,
) -> T {
    let mut slices = FullestSlices::of(zones, cpus, bank);
    let mut vacant = slices.vacant_zones();
    let memory = slices.lend(&mut vacant);
    test(&FullestBank::new(zones, cpus, bank, sets, memory).unwrap())
}

/// Runs a test on a machine of one zone of whole banks.
fn on_banks(banks: u64, test: impl FnOnce(&FullestBank<'_>)) {
    on(&[zone(0, Normal, 0, banks * BANK.frames())], test);
}

fn pools(allocator: &FullestBank<'_>) -> Vec<BankPool> {
    let pools: Vec<BankPool> = (0..allocator.parts()).map(|part| allocator.part(part).pool).collect();
    assert!(pools.iter().enumerate().all(|(part, pool)| allocator.pool(part) == *pool));
    pools
}

fn take(allocator: &FullestBank<'_>, number: u8, migratetype: Migratetype, count: usize) -> Vec<FrameBlock> {
    (0..count).map(|_| allocator.allocate(urgent(number, migratetype)).expect("there is enough")).collect()
}

fn free(allocator: &FullestBank<'_>, blocks: impl IntoIterator<Item = FrameBlock>) {
    blocks.into_iter().for_each(|block| allocator.free(block, Cpu(0)));
}

#[test]
fn the_kernel_fills_banks_from_below_and_programs_from_above() {
    on_banks(4, |allocator| {
        assert_eq!(pools(allocator), [BankPool::Offline; 4]);
        assert_eq!(allocator.allocate(urgent(0, Unmovable)), Some(block(0, 0)));
        assert_eq!(allocator.allocate(urgent(0, Movable)), Some(block(3 * 2048, 0)));
        assert_eq!(pools(allocator), [BankPool::Kernel, BankPool::Offline, BankPool::Offline, BankPool::User]);
    });
}

#[test]
fn a_bank_whose_last_page_is_freed_goes_offline() {
    on_banks(2, |allocator| {
        for number in 0..=10 {
            let held = take(allocator, number, Movable, 2);
            assert_eq!(pools(allocator)[1], BankPool::User);
            free(allocator, held);
            // The chunk that the CPU has for itself becomes whole when something looks for it.
            assert!(allocator.claim(block(2048, 10)) && allocator.claim(block(3072, 10)), "order {number}");
            free(allocator, [block(2048, 10), block(3072, 10)]);
            assert_eq!(pools(allocator), [BankPool::Offline; 2], "order {number}");
        }
    });
}

#[test]
fn the_fullest_bank_gets_the_next_page() {
    on_banks(3, |allocator| {
        let held = take(allocator, 9, Movable, 12);
        assert_eq!(pools(allocator), [BankPool::User; 3]);
        // One free chunk in the second bank, three in the first, two in the last.
        let gone = |block: &&FrameBlock| [4, 0, 1, 2, 8, 9].contains(&(block.first().number() / 512));
        free(allocator, held.iter().filter(gone).copied());
        let next: Vec<u64> = take(allocator, 9, Movable, 6).iter().map(|block| block.first().number() / 2048).collect();
        assert_eq!(next, [1, 2, 2, 0, 0, 0]);
    });
}

#[test]
fn a_cpu_takes_back_the_chunk_that_it_freed_last_if_no_bank_is_fuller() {
    let chunks = 65_536 / 512;
    let zones = [zone(0, Normal, 0, 3 * 65_536)];
    on_machine(&zones, CPUS, (BankSize::of_frames(65_536).unwrap(), &BankSets::plain()), |allocator| {
        take(allocator, 9, Movable, 3 * 128);
        let free = |chunk: u64, cpu| allocator.free(block(chunk * 512, 9), Cpu(cpu));
        let next = || allocator.allocate(urgent(9, Movable)).unwrap().first().number() / 512;
        // Each bank has a free chunk. This CPU took its last chunk from the first bank, and freed one in the last bank.
        [0, chunks].into_iter().for_each(|chunk| free(chunk, 1));
        free(2 * chunks + 5, 0);
        assert_eq!(next(), 2 * chunks + 5);
        // The last bank is much emptier than the others.
        (2 * chunks..2 * chunks + 40).for_each(|chunk| free(chunk, 0));
        assert_eq!([next(), next()], [0, chunks]);
    });
}

/// A bank of 256 MiB has four groups, so two CPUs never change the same one, but fill the same bank.
#[test]
fn two_cpus_fill_one_bank_and_change_different_groups_of_it() {
    let zones = [zone(0, Normal, 0, 2 * 65_536)];
    let bank = BankSize::of_frames(65_536).unwrap();
    for (number, times) in [(9, 30), (0, 30 * 512)] {
        on_machine(&zones, CPUS, (bank, &BankSets::plain()), |allocator| {
            let mut groups = [BTreeSet::new(), BTreeSet::new()];
            for _ in 0..times {
                for (cpu, groups) in (0..).zip(&mut groups) {
                    let asked = Request { cpu: Cpu(cpu), ..request(number, Movable) };
                    groups.insert(allocator.allocate(asked).unwrap().first().number() / (32 * 512));
                }
            }
            assert!(groups[0].is_disjoint(&groups[1]), "{groups:?}");
            assert_eq!(pools(allocator), [BankPool::Offline, BankPool::User]);
        });
    }
}

#[test]
fn the_kernel_takes_offline_banks_first_then_the_emptiest_bank_of_the_programs_as_a_whole() {
    on_banks(3, |allocator| {
        let held = take(allocator, 9, Movable, 8);
        assert_eq!(pools(allocator), [BankPool::Offline, BankPool::User, BankPool::User]);
        let gone = |block: &&FrameBlock| [4, 8, 9, 10].contains(&(block.first().number() / 512));
        free(allocator, held.iter().filter(gone).copied());
        take(allocator, 9, Unmovable, 4);
        assert_eq!(pools(allocator), [BankPool::Kernel, BankPool::User, BankPool::User]);
        assert_eq!(allocator.allocate(urgent(0, Unmovable)), Some(block(8 * 512, 0)));
        assert_eq!(pools(allocator), [BankPool::Kernel, BankPool::User, BankPool::Kernel]);
        assert_eq!(allocator.statistics().steals, 1);
    });
}

#[test]
fn a_steal_ends_the_programs_reservations_in_the_bank() {
    on_banks(1, |allocator| {
        take(allocator, 0, Movable, 1);
        take(allocator, 0, Unmovable, 1);
        assert_eq!(pools(allocator), [BankPool::Kernel]);
        // The chunk of the programs was left, so the kernel goes on in it.
        assert_eq!(allocator.allocate(urgent(0, Unmovable)), Some(block(2, 0)));
    });
}

#[test]
fn a_bank_that_goes_offline_ends_all_reservations_in_it() {
    on_banks(1, |allocator| {
        let on = |cpu, migratetype| Request { cpu: Cpu(cpu), ..urgent(0, migratetype) };
        let page = allocator.allocate(on(0, Unmovable)).unwrap();
        allocator.free(page, Cpu(1));
        assert_eq!(pools(allocator), [BankPool::Offline]);
        // The same bank is now the programs', and the kernel's CPU has no chunk in it any more.
        allocator.allocate(on(1, Movable)).unwrap();
        allocator.allocate(on(0, Unmovable)).unwrap();
        assert_eq!(pools(allocator), [BankPool::Kernel]);
    });
}

#[test]
fn programs_fall_back_to_the_kernels_banks() {
    on_banks(2, |allocator| {
        take(allocator, 0, Unmovable, 1);
        take(allocator, 10, Movable, 2);
        assert_eq!(pools(allocator), [BankPool::Kernel, BankPool::User]);
        let block = allocator.allocate(urgent(10, Movable)).expect("the kernel's bank has a free half");
        assert_eq!((block.first().number(), pools(allocator)[0]), (1024, BankPool::Kernel));
    });
}

#[test]
fn an_isolated_bank_gets_no_page_and_goes_offline_when_it_is_empty() {
    on_banks(2, |allocator| {
        let held = take(allocator, 0, Movable, 3);
        assert!(allocator.isolate(1) && !allocator.isolate(1) && !allocator.isolate(0));
        assert_eq!(allocator.allocate(urgent(0, Movable)).unwrap().first(), frame(0), "not beside the others");
        take(allocator, 0, Movable, 2047);
        assert_eq!(allocator.allocate(urgent(0, Movable)), None);
        assert_eq!(allocator.allocate(urgent(9, Unmovable)), None);
        free(allocator, held[1..].iter().copied());
        assert_eq!(allocator.allocate(urgent(0, Movable)), None, "a free does not end the isolation");
        free(allocator, held[..1].iter().copied());
        assert_eq!(pools(allocator), [BankPool::User, BankPool::Offline]);
        assert!(allocator.allocate(urgent(10, Movable)).is_some());
    });
}

#[test]
fn a_bank_that_rejoins_is_used_again() {
    on_banks(1, |allocator| {
        take(allocator, 0, Movable, 1);
        assert!(allocator.isolate(0));
        assert_eq!(allocator.allocate(urgent(3, Movable)), None);
        allocator.rejoin(0);
        assert!(allocator.allocate(urgent(3, Movable)).is_some());
    });
}

#[test]
fn a_part_of_a_bank_is_the_kernels_for_good() {
    let zones = [zone(0, Dma, 0, 1024), zone(0, Normal, 1024, 2048 + 1024)];
    on(&zones, |allocator| {
        assert_eq!(pools(allocator), [BankPool::Kernel, BankPool::Kernel, BankPool::Offline]);
        assert!(allocator.part(0).is_partial && allocator.part(1).is_partial && !allocator.part(2).is_partial);
        assert_eq!(allocator.part(1).frames.start(), frame(1024));
        free(allocator, take(allocator, 0, Unmovable, 2000));
        assert_eq!(pools(allocator)[..2], [BankPool::Kernel; 2]);
        assert!(!allocator.isolate(1), "it is never emptied");
    });
}

#[test]
fn the_reserve_is_for_urgent_requests() {
    on_banks(8, |allocator| {
        let min = allocator.watermarks(ZoneIndex(0)).min;
        while allocator.allocate(request(0, Movable)).is_some() {
            assert!(allocator.free_frames(ZoneIndex(0)) >= min);
        }
        assert_eq!(allocator.free_frames(ZoneIndex(0)), min);
        assert_eq!(allocator.statistics().refused, 1);
        take(allocator, 0, Unmovable, usize::try_from(min).unwrap());
        assert_eq!(allocator.free_frames(ZoneIndex(0)), 0);
    });
}

#[test]
fn a_request_tries_its_node_then_the_others() {
    let zones = [zone(0, Dma, 0, 2048), zone(0, Normal, 2048, 2048), zone(1, Normal, 65_536, 2048)];
    on(&zones, |allocator| {
        let nodes = |node| {
            let request = Request { node: Node(node), ..urgent(10, Movable) };
            let all: Vec<FrameBlock> = std::iter::from_fn(|| allocator.allocate(request)).collect();
            free(allocator, all.iter().copied());
            all.iter().map(|block| block.first().number()).collect::<Vec<_>>()
        };
        // Once down to the low watermark, then to the last frame.
        assert_eq!(nodes(0), [2048, 0, 65_536, 3072, 1024, 66_560]);
        assert_eq!(nodes(1), [65_536, 2048, 0, 66_560, 3072, 1024]);
        assert_eq!(nodes(7), nodes(0), "a node without memory");
    });
}

#[test]
fn programs_take_memory_of_another_node_before_room_of_the_kernel() {
    let zones = [zone(0, Normal, 0, 4096), zone(1, Normal, 65_536, 4096)];
    on(&zones, |allocator| {
        take(allocator, 0, Unmovable, 1);
        let held: Vec<FrameBlock> = std::iter::from_fn(|| allocator.allocate(urgent(10, Movable))).collect();
        let nodes: Vec<bool> = held.iter().map(|block| block.first().number() >= 65_536).collect();
        assert_eq!(nodes[..3], [false, false, true]);
        assert!(held.contains(&block(1024, 10)) && held.len() == 7, "they take it at last: {held:?}");
    });
}

#[test]
fn a_bank_in_use_in_another_zone_of_the_node_comes_before_an_offline_one() {
    let zones = [zone(0, Dma, 0, 4096), zone(0, Normal, 4096, 4096), zone(1, Normal, 65_536, 4096)];
    for migratetype in [Movable, Unmovable] {
        on(&zones, |allocator| {
            take(allocator, 0, migratetype, 1);
            let held = take(allocator, 10, migratetype, 4);
            let (low, high): (Vec<FrameBlock>, _) = held.into_iter().partition(|block| block.first().number() < 4096);
            assert!(low.len() == 1 && high.len() == 3, "one bank of the lower zone is in use: {low:?}");
            let bank = |block: &FrameBlock| block.first().number() / BANK.frames();
            let whole = high.iter().map(bank).find(|of| high.iter().filter(|block| bank(block) == *of).count() == 2);
            free(allocator, high.into_iter().filter(|block| Some(bank(block)) == whole));
            let next = allocator.allocate(urgent(10, migratetype)).unwrap();
            assert_eq!(bank(&next), bank(&low[0]), "{migratetype:?}");
        });
    }
}

#[test]
fn the_kernels_memory_stays_on_its_node_while_programs_have_a_bank_there() {
    let zones = [zone(0, Normal, 0, 4096), zone(1, Normal, 65_536, 4096)];
    on(&zones, |allocator| {
        take(allocator, 9, Movable, 5);
        allocator.allocate(Request { node: Node(1), ..urgent(0, Unmovable) }).unwrap();
        let steals = allocator.statistics().steals;
        let block = allocator.allocate(urgent(0, Unmovable)).unwrap();
        assert!(block.first().number() < 4096 && allocator.statistics().steals == steals + 1, "{block}");
    });
}

/// Gives programs all of two nodes, and then takes back node 1 and so many frames of each bank of node 0.
fn free_a_node_and_a_little(allocator: &FullestBank<'_>, little: u64) {
    let held = take(allocator, 0, Movable, 8192);
    let gone = |block: &FrameBlock| block.first().number() >= 65_536 || block.first().number() % 2048 < little;
    free(allocator, held.into_iter().filter(gone));
}

#[test]
fn the_kernel_takes_an_almost_full_bank_of_programs_only_if_no_other_node_has_room() {
    let zones = [zone(0, Normal, 0, 4096), zone(1, Normal, 65_536, 4096)];
    let node = |block: &FrameBlock| u32::from(block.first().number() >= 65_536);
    on(&zones, |allocator| {
        free_a_node_and_a_little(allocator, 112);
        let room = 4096 - u32::try_from(allocator.watermarks(ZoneIndex(1)).low).unwrap();
        let taken = take(allocator, 0, Unmovable, room as usize);
        assert_eq!((taken.iter().map(node).sum::<u32>(), allocator.statistics().steals), (room, 0));
        let next = take(allocator, 0, Unmovable, 1);
        assert_eq!((node(&next[0]), allocator.statistics().steals), (0, 1), "node 1 is at its low watermark");
    });
    on(&zones, |allocator| {
        free_a_node_and_a_little(allocator, 128);
        let next = take(allocator, 0, Unmovable, 1);
        assert_eq!((node(&next[0]), allocator.statistics().steals), (0, 1), "a sixteenth of the bank is free");
    });
}

#[test]
fn the_usual_allocations_and_frees_of_each_node_stay_there() {
    let zones = [zone(0, Normal, 0, 1 << 18), zone(1, Normal, 1 << 18, 1 << 18)];
    on(&zones, |allocator| {
        for number in 0..2000 {
            let request = Request { node: Node(number % 2), ..request(0, Movable) };
            let block = allocator.allocate(request).unwrap();
            assert_eq!(block.first().number() >> 18, u64::from(number % 2));
            if number % 4 < 2 {
                allocator.free(block, Cpu(0));
            }
        }
        let used = [0, 1].map(|zone| (1 << 18) - allocator.free_frames(ZoneIndex(zone)));
        assert_eq!(used, [500, 500]);
    });
}

#[test]
fn all_frames_of_a_bank_are_counted_by_samples_and_its_place_on_the_lists_follows() {
    for bank in [2048_u64, 1 << 15] {
        let size = BankSize::of_frames(bank).unwrap();
        on_machine(&[zone(0, Normal, 0, bank)], CPUS, (size, &BankSets::plain()), |allocator| {
            let held = take(allocator, 0, Movable, usize::try_from(bank).unwrap());
            let zone = &allocator.zones[0];
            assert_eq!((zone.sampled_free(0), zone.fullness(0)), (0, 0));
            // No chunk becomes free as a whole.
            let (gone, last): (Vec<_>, _) = held.into_iter().partition(|block| block.first().number() % 512 >= 128);
            free(allocator, gone);
            let listed = zone.part(0).bucket.load(Relaxed);
            assert_eq!((zone.sampled_free(0), zone.fullness(0)), (bank.cast_signed() * 3 / 4, 12));
            assert!(listed.abs_diff(12) < pools::FAR, "{listed}");
            free(allocator, last);
            assert_eq!(zone.sampled_free(0), bank.cast_signed());
        });
    }
}

#[test]
fn a_larger_block_of_the_kernel_opens_no_bank_while_the_emptiest_of_its_own_has_room() {
    on_banks(22, |allocator| {
        let full = 18 * BANK.frames();
        take(allocator, 0, Unmovable, 19 * 2048);
        // Every second frame in half of the words of more banks than a search looks at, and most of one more.
        let gone = (1..full).step_by(2).filter(|frame| frame / 64 % 2 == 0).chain(full..full + 3 * 512);
        free(allocator, gone.map(|number| block(number, 0)));
        let before = pools(allocator);
        assert_eq!(take(allocator, 1, Unmovable, 1), [block(full, 1)]);
        assert_eq!(pools(allocator), before);
    });
}

#[test]
fn a_frame_that_is_freed_twice_is_a_bug_and_changes_no_other() {
    on_banks(1, |allocator| {
        let held = take(allocator, 0, Movable, 3);
        free(allocator, [held[0]]);
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| free(allocator, [held[0]])));
        let message = again.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(*message, "a block is given back but not held");
        let is_held = |block: &FrameBlock| allocator.place(block.first()) == FramePlace::Held;
        assert_eq!(held.iter().map(is_held).collect::<Vec<_>>(), [false, true, true]);
    });
}

#[test]
fn a_cpu_adds_what_it_counts_to_the_count_of_the_zone() {
    on_banks(4, |allocator| {
        let (zone, most) = (&allocator.zones[0], 64);
        let is_folded = || zone.cpu(Cpu(0)).uncounted().abs() < most;
        let held: Vec<_> =
            (0..1000).flat_map(|_| take(allocator, 0, Movable, 1)).inspect(|_| assert!(is_folded())).collect();
        for block in held {
            free(allocator, [block]);
            assert!(is_folded());
        }
    });
}

#[test]
#[should_panic(expected = "given back but not held")]
fn a_frame_of_a_whole_free_chunk_is_not_held() {
    on_banks(1, |allocator| free(allocator, [block(700, 0)]));
}

#[test]
fn too_little_memory_is_refused() {
    let zones = [zone(0, Normal, 0, 4096)];
    let mut slices = FullestSlices::of(&zones, CPUS, BANK);
    let mut vacant = slices.vacant_zones();
    let lent = slices.lend(&mut vacant);
    let memory = FullestMemory { parts: &lent.parts[1..], ..lent };
    assert_eq!(FullestBank::new(&zones, CPUS, BANK, &BankSets::plain(), memory).err(), Some(Error::TooLittleMemory));
}

#[test]
fn two_threads_share_it_and_nothing_is_lost() {
    on_banks(4, |allocator| {
        std::thread::scope(|scope| {
            for cpu in 0..CPUS {
                scope.spawn(move || churn(allocator, Cpu(cpu)));
            }
        });
        assert_eq!(allocator.free_frames(ZoneIndex(0)), 4 * BANK.frames());
        let free = (0..4).map(|part| allocator.zones[0].sampled_free(part));
        assert!(free.eq([BANK.frames().cast_signed(); 4]), "each sampled frame was counted as often as it was freed");
        assert!((0..8).all(|number| allocator.claim(block(number * 1024, 10))), "every frame is free again");
    });
}

/// Allocates and frees blocks of all orders on one CPU.
fn churn(allocator: &FullestBank<'_>, cpu: Cpu) {
    let mut held = Vec::new();
    let mut state = u64::from(cpu.0) + 1;
    for _ in 0..60_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = state >> 33;
        if draw % 5 < 2 && !held.is_empty() {
            let place = usize::try_from(draw >> 8).unwrap() % held.len();
            allocator.free(held.swap_remove(place), cpu);
            continue;
        }
        let number = [0, 0, 0, 0, 1, 3, 6, 9, 10][usize::try_from(draw >> 4).unwrap() % 9];
        let migratetype = if draw & 8 == 0 { Movable } else { Unmovable };
        match allocator.allocate(Request { cpu, ..urgent(number, migratetype) }) {
            Some(block) => held.push(block),
            None => held.drain(held.len() / 2..).for_each(|block| allocator.free(block, cpu)),
        }
    }
    held.into_iter().for_each(|block| allocator.free(block, cpu));
}
