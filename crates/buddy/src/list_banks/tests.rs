//! Small machines of banks of 4 MiB, the size of the largest block.

use super::*;
use crate::Migratetype::{Movable, Reclaimable, Unmovable};
use crate::testing::{CPU, block, exhaust, frame, full_but, get, pools, urgent, zone};
use crate::{
    BankPool::{Kernel, Offline, User},
    BankPools, PageAllocator, ZoneIndex,
    ZoneKind::{Dma32, Normal},
};
use rampart_memory::FrameBlock;

const ZONE: ZoneIndex = ZoneIndex(0);
const BANK: BankSize = BankSize::of_frames(1024).unwrap();

/// Returns a machine of one zone of so many banks.
fn banks(count: u64) -> ListBanks<'static, HeapStorage> {
    ListBanks::new(&[zone(0, Normal, 0, count * 1024)], BANK).unwrap()
}

/// Frees these halves of banks.
fn free(banks: &ListBanks<'static, HeapStorage>, halves: &[u64]) {
    halves.iter().for_each(|half| banks.free(block(half * 512, 9), CPU));
}

/// Returns which halves of banks the next requests get.
fn halves<const N: usize>(banks: &ListBanks<'static, HeapStorage>, own: Migratetype) -> [u64; N] {
    [(); N].map(|()| get(banks, 9, own).first().number() / 512)
}

/// [Panwar15, figure 4.2].
#[test]
fn each_side_takes_free_banks_and_keeps_them() {
    let banks = banks(4);
    assert_eq!(pools(&banks), [Offline; 4]);
    assert_eq!([Movable, Unmovable, Reclaimable].map(|own| get(&banks, 9, own).first().number() / 512), [0, 2, 3]);
    assert_eq!(pools(&banks), [User, Kernel, Offline, Offline]);
    assert_eq!((halves(&banks, Unmovable), halves(&banks, Movable)), ([4], [1]));
    assert_eq!(pools(&banks), [User, Kernel, Kernel, Offline]);
}

#[test]
fn a_free_bank_goes_to_the_head_of_the_list_and_an_emptied_one_to_the_head_of_the_free_ones() {
    let banks = banks(4);
    assert_eq!(halves(&banks, Movable), [0, 1, 2, 3, 4, 5, 6, 7]);
    // The last bank came last; it is full and cached, so that the walk begins behind it.
    free(&banks, &[0, 2, 4]);
    assert_eq!(halves(&banks, Movable), [4, 2, 0]);
    free(&banks, &[2, 3, 0, 1]);
    assert_eq!(pools(&banks), [Offline, Offline, User, User]);
    assert_eq!(halves(&banks, Unmovable), [0, 1, 2]);
}

/// [Panwar15, 4.1.2], "Cache".
#[test]
fn the_bank_of_the_last_success_is_looked_at_first() {
    let banks = banks(3);
    assert_eq!(halves(&banks, Movable), [0, 1, 2, 3, 4, 5]);
    assert_eq!(banks.cache(), BankCache { hits: 3, misses: 3 }, "each bank was new once");
    free(&banks, &[0]);
    assert_eq!(halves(&banks, Movable), [0]);
    free(&banks, &[1, 3, 5]);
    assert_eq!(halves(&banks, Movable), [1, 5, 3], "then from the head");
    assert_eq!(banks.cache(), BankCache { hits: 4, misses: 6 });
}

#[test]
fn the_lists_have_a_cache_each_and_a_bank_that_left_its_list_is_not_used() {
    let banks = banks(4);
    let held = [get(&banks, 8, Movable), get(&banks, 8, Unmovable), get(&banks, 8, Movable), get(&banks, 8, Unmovable)];
    assert_eq!(banks.cache(), BankCache { hits: 2, misses: 2 });
    [0, 2].into_iter().for_each(|place| banks.free(held[place], CPU));
    assert_eq!((get(&banks, 8, Unmovable), get(&banks, 9, Unmovable)), (block(1024 + 512, 8), block(0, 9)));
    assert_eq!(pools(&banks), [Kernel, Kernel, Offline, Offline]);
    get(&banks, 8, Movable);
    assert!(banks.isolate(2));
    assert_eq!(get(&banks, 8, Movable), block(3 * 1024, 8), "an isolated bank is on no list");
}

#[test]
fn a_movable_page_goes_among_the_kernels_only_at_last_and_its_bank_is_not_cached() {
    let banks = banks(2);
    assert_eq!((halves(&banks, Unmovable), halves(&banks, Movable)), ([0], [2, 3, 1]));
    assert_eq!(pools(&banks), [Kernel, User]);
    free(&banks, &[1, 2]);
    assert_eq!(halves(&banks, Movable), [2]);
    assert_eq!(banks.cache(), BankCache { hits: 2, misses: 3 });
}

#[test]
fn the_kernel_takes_over_the_bank_of_programs_with_most_free_frames() {
    let banks = banks(4);
    full_but(&banks, &[(0, 6), (1024, 7), (2048, 7), (3072, 6), (3200, 6), (3328, 6)]);
    assert_eq!(
        get(&banks, 7, Unmovable),
        block(1024, 7),
        "bank 3 has more, but no such block; of the others the lowest"
    );
    assert_eq!(pools(&banks), [User, Kernel, User, User]);
    assert_eq!(get(&banks, 0, Reclaimable), block(3328, 0));
    assert_eq!((pools(&banks), banks.statistics().steals), (vec![User, Kernel, User, Kernel], 2));
    assert_eq!((get(&banks, 6, Unmovable), get(&banks, 6, Movable)), (block(3200, 6), block(2048, 6)));
    assert_eq!(banks.allocate(urgent(9, Unmovable)), None);
    assert_eq!(banks.statistics().steals, 2, "none is taken in vain");
}

#[test]
fn a_bank_stays_the_kernels_until_it_is_empty() {
    let banks = banks(1);
    let held = [get(&banks, 0, Movable), get(&banks, 0, Unmovable)];
    assert_eq!(pools(&banks), [Kernel]);
    banks.free(held[1], CPU);
    assert_eq!((pools(&banks), banks.isolate(0)), (vec![Kernel], false));
    banks.free(held[0], CPU);
    assert_eq!(pools(&banks), [Offline]);
}

/// [Panwar15, 4.1.2], "Optimal Selection".
#[test]
fn the_bank_with_most_free_frames_is_put_at_the_head_of_its_list() {
    let banks = banks(6);
    let kernels = [(); 4].map(|()| get(&banks, 9, Unmovable));
    assert_eq!(halves(&banks, Movable), [4, 5, 6, 7, 8, 9, 10, 11]);
    free(&banks, &[8, 6, 4]);
    banks.free(kernels[1], CPU);
    let quarters: [FrameBlock; 2] = [get(&banks, 8, Movable), get(&banks, 8, Movable)];
    assert_eq!(quarters.map(|held| held.first().number() / 512), [8, 8]);
    banks.put_best_first();
    assert_eq!(halves(&banks, Movable), [4], "of banks 2 and 3 the lower, though 3 came later");
    assert_eq!(halves(&banks, Unmovable), [1]);
    assert_eq!(halves(&banks, Movable), [6]);
}

#[test]
fn a_partial_bank_is_on_the_kernels_list_for_good() {
    let banks = ListBanks::new(&[zone(0, Dma32, 512, 1024), zone(0, Normal, 1536, 2000)], BANK).unwrap();
    assert_eq!(pools(&banks), [Kernel, Kernel, Kernel, Offline, Kernel]);
    assert!((0..5).all(|part| banks.part(part).is_partial == (part != 3)));
    let first = get(&banks, 0, Unmovable);
    assert_eq!(first, block(1536, 0), "the free bank is spared");
    let all = exhaust(&banks, 0, Movable);
    assert_eq!(all[0], block(2048, 0));
    assert_eq!(all.len(), 3023, "it serves movable pages too when all others are full");
    all.iter().chain([&first]).for_each(|&held| banks.free(held, CPU));
    assert_eq!(pools(&banks), [Kernel, Kernel, Kernel, Offline, Kernel]);
    assert!((0..5).all(|part| !banks.isolate(part)));
}

#[test]
fn a_bank_that_rejoins_is_used_again() {
    let banks = banks(2);
    let held = get(&banks, 9, Movable);
    assert!(banks.isolate(0) && !banks.isolate(1));
    assert_eq!((halves(&banks, Movable), banks.free_frames(ZONE)), ([2], 512));
    banks.rejoin(0);
    assert_eq!((banks.free_frames(ZONE), halves(&banks, Movable)), (1024, [3, 1]));
    assert!(banks.isolate(0));
    banks.free(held, CPU);
    banks.free(block(512, 9), CPU);
    assert_eq!((pools(&banks), halves(&banks, Movable)), (vec![Offline, User], [0]));
}

/// [Panwar15, 4.1.2]: O(n) to allocate; a free looks at no bank, as in 4.1.1.
#[test]
fn an_allocation_looks_at_each_bank_once_and_at_the_cached_one_twice() {
    let banks = banks(8);
    let looked_at = |order, own| {
        let before = banks.searches().looked_at;
        let held = banks.allocate(urgent(order, own));
        (held.is_some(), banks.searches().looked_at - before)
    };
    for bank in 0..8 {
        // The cached bank, the others on the list (and that one once more), and a free one.
        assert_eq!(looked_at(10, Movable), (true, if bank == 0 { 1 } else { 2 + bank }));
    }
    let before = banks.searches();
    banks.free(block(3 * 1024, 10), CPU);
    banks.free(block(5 * 1024, 10), CPU);
    assert_eq!(banks.searches(), before);
    assert_eq!(looked_at(0, Unmovable), (true, 1), "the free bank");
    assert_eq!(looked_at(0, Unmovable), (true, 1), "the cached bank");
    banks.retire(frame(3 * 1024));
    // Down to the low watermark, then to the last frame, each time: the cached bank, the kernel's, the free one, six of
    // programs.
    assert_eq!(looked_at(10, Unmovable), (false, 2 * (8 + 1)));
    assert_eq!(banks.searches().most, 8 + 1);
}

#[test]
fn the_hit_rate_is_that_of_the_time_between() {
    let before = BankCache { hits: 10, misses: 10 };
    let after = BankCache { hits: 13, misses: 11 };
    assert_eq!((after.hit_rate_since(before), after.hit_rate_since(after)), (Some(0.75), None));
}
