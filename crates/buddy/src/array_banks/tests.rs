//! Small machines of banks of 4 MiB, the size of the largest block.

use super::*;
use crate::Migratetype::{Movable, Reclaimable, Unmovable};
use crate::testing::{CPU, block, exhaust, frame, full_but, get, pools, urgent, zone};
use crate::{
    BankPool::{Kernel, Offline, User},
    BankPools, FramePlace, PageAllocator, ZoneIndex,
    ZoneKind::{Dma32, Normal},
};

const ZONE: ZoneIndex = ZoneIndex(0);
const BANK: BankSize = BankSize::of_frames(1024).unwrap();

/// Returns a machine of one zone of so many banks.
fn banks(count: u64) -> ArrayBanks<'static, HeapStorage> {
    ArrayBanks::new(&[zone(0, Normal, 0, count * 1024)], BANK).unwrap()
}

/// [Panwar15, figure 4.1].
#[test]
fn the_kernel_goes_up_the_array_and_programs_go_down() {
    let array = banks(4);
    assert_eq!(pools(&array), [Offline; 4]);
    assert_eq!([Unmovable, Reclaimable, Movable].map(|own| get(&array, 10, own).first().number() / 1024), [0, 1, 3]);
    assert_eq!(pools(&array), [Kernel, Kernel, Offline, User]);
}

#[test]
fn an_empty_bank_is_used_only_if_none_before_it_has_room() {
    let array = banks(3);
    let held = exhaust(&array, 9, Movable);
    // Half of the highest bank, and all of the lowest.
    [0, 4, 5].into_iter().for_each(|place| array.free(held[place], CPU));
    assert_eq!(pools(&array), [Offline, User, User]);
    assert_eq!([(); 3].map(|()| get(&array, 9, Movable)), [held[0], block(0, 9), block(512, 9)]);
}

#[test]
fn a_bank_is_the_kernels_as_long_as_a_page_of_it_cannot_move() {
    let array = banks(2);
    full_but(&array, &[(512, 8), (1024, 8)]);
    let kernels = [get(&array, 0, Unmovable), get(&array, 3, Reclaimable)];
    assert_eq!((kernels[0], pools(&array)), (block(512, 0), vec![Kernel, User]));
    assert!(!array.isolate(0), "not all of it can move");
    array.free(kernels[0], CPU);
    assert_eq!(pools(&array), [Kernel, User]);
    array.free(kernels[1], CPU);
    assert_eq!(pools(&array), [User, User]);
    assert_eq!(array.statistics().steals, 0);
}

#[test]
fn a_movable_page_in_a_bank_of_the_kernel_changes_nothing() {
    let array = banks(1);
    let kernels = get(&array, 0, Unmovable);
    let movable = get(&array, 0, Movable);
    assert_eq!(pools(&array), [Kernel]);
    array.free(kernels, CPU);
    assert_eq!(pools(&array), [User]);
    array.free(movable, CPU);
    assert_eq!(pools(&array), [Offline]);
}

#[test]
fn an_isolated_bank_gets_no_page_and_goes_offline_with_its_last() {
    let array = banks(2);
    let held = [get(&array, 9, Movable), get(&array, 0, Movable)];
    assert!(array.isolate(1) && array.isolate(1) && !array.isolate(0), "once more changes nothing");
    assert_eq!((array.part(1).pool, array.free_frames(ZONE)), (User, 1024));
    assert_eq!(get(&array, 0, Movable), block(0, 0));
    array.free(held[1], CPU);
    assert_eq!((array.place(frame(1536)), array.free_frames(ZONE)), (FramePlace::Free(block(1536, 9)), 1023));
    array.free(held[0], CPU);
    assert_eq!((pools(&array), array.free_frames(ZONE)), (vec![User, Offline], 2047));
    assert!(array.isolate(0));
    array.rejoin(0);
    assert_eq!(get(&array, 9, Movable), block(1024, 9));
}

/// [Panwar15, 4.1.2]: "we do not consider this bank for page migration and always use it for allocation in both the
/// zones".
#[test]
fn a_bank_in_two_zones_serves_both_and_is_never_emptied() {
    let array = ArrayBanks::new(&[zone(0, Dma32, 0, 1536), zone(0, Normal, 1536, 2048)], BANK).unwrap();
    assert_eq!(pools(&array), [Offline, Kernel, Kernel, Offline, Kernel]);
    let all: Vec<u64> = exhaust(&array, 9, Movable).iter().map(|held| held.first().number() / 512).collect();
    // Down to the low watermark of the upper zone, then of the lower one, then to the last frame; order 9 leaves none.
    assert_eq!(all.len(), 7);
    assert!(all.contains(&2) && all.contains(&3), "both parts are used");
    assert_eq!(pools(&array), [User, Kernel, Kernel, User, Kernel]);
    assert!((0..5).all(|part| array.isolate(part) == (part == 0 || part == 3)));
    all.iter().for_each(|&half| array.free(block(half * 512, 9), CPU));
    assert_eq!(pools(&array), [Offline, Kernel, Kernel, Offline, Kernel]);
}

/// [Panwar15, 4.1.1]: O(n) to allocate, O(1) to free.
#[test]
fn an_allocation_looks_at_the_banks_up_to_the_first_with_room_and_a_free_at_none() {
    let banks = banks(8);
    let looked_at = |order, own| {
        let before = banks.searches().looked_at;
        let held = banks.allocate(urgent(order, own));
        (held, banks.searches().looked_at - before)
    };
    for bank in 0..8 {
        assert_eq!(looked_at(10, Movable), (Some(block((7 - bank) * 1024, 10)), bank + 1));
    }
    banks.free(block(5 * 1024, 10), CPU);
    assert_eq!(looked_at(0, Unmovable), (Some(block(5 * 1024, 0)), 6));
    let before = banks.searches();
    banks.free(block(5 * 1024, 0), CPU);
    assert_eq!(banks.searches(), before);
    banks.claim(block(5 * 1024, 10));
    // Once down to the low watermark, and once to the last frame: each with no more than n banks.
    assert_eq!(looked_at(0, Movable), (None, 0), "no frame is free at all");
    for bank in [0, 7] {
        banks.free(block(bank * 1024, 10), CPU);
        banks.retire(frame(bank * 1024));
    }
    assert_eq!(looked_at(10, Movable), (None, 8 + 8));
    assert_eq!(banks.searches().most, 8);
}
