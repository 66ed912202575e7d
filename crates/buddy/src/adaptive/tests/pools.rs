//! Which pool a request gets a block of, and when a bank changes its pool.

use super::*;

#[test]
fn programs_and_the_kernel_get_banks_of_their_own() {
    let adaptive = banks(4);
    assert_eq!(pools(&adaptive), [Offline; 4]);
    assert_eq!(get(&adaptive, 0, Movable), block(0, 0));
    assert_eq!(get(&adaptive, 0, Unmovable), block(1024, 0));
    assert_eq!(get(&adaptive, 0, Reclaimable), block(1025, 0), "it is not movable either");
    assert_eq!(get(&adaptive, 9, Movable), block(512, 9), "the rest of the first bank came along");
    assert_eq!(pools(&adaptive), [User, Kernel, Offline, Offline]);
    assert_eq!([0, 1, 2].map(|part| adaptive.part(part).free), [511, 1022, 1024]);
}

#[test]
fn movable_pages_lie_among_the_kernel_s_only_when_no_other_pool_has_room() {
    let adaptive = banks(2);
    get(&adaptive, 5, Unmovable);
    let last = exhaust(&adaptive, 9, Movable);
    assert_eq!(last, [block(1024, 9), block(1536, 9), block(512, 9)]);
    assert_eq!(pools(&adaptive), [Kernel, User]);
}

#[test]
fn the_kernel_steals_the_bank_with_most_free_frames_and_its_movable_pages_stay() {
    let adaptive = banks(3);
    full_but(&adaptive, &[(0, 7), (1024, 8), (2048, 7), (2304, 6)]);
    assert_eq!(get(&adaptive, 4, Unmovable), block(1024, 4));
    assert_eq!(pools(&adaptive), [User, Kernel, User]);
    assert_eq!(adaptive.place(frame(1280)), FramePlace::Held, "the movable page is where it was");
    assert_eq!(get(&adaptive, 4, Reclaimable), block(1040, 4), "the rest of the bank came along");
    assert_eq!(adaptive.statistics().steals, 1);
    assert_eq!(get(&adaptive, 7, Movable), block(2048, 7), "programs go on with their own");
}

#[test]
fn of_banks_with_as_many_free_frames_the_lowest_is_stolen() {
    let adaptive = banks(3);
    full_but(&adaptive, &[(512, 8), (1024, 8), (2048, 8)]);
    assert_eq!(get(&adaptive, 0, Unmovable), block(512, 0));
}

#[test]
fn a_bank_without_a_large_enough_block_is_not_stolen_however_much_is_free_in_it() {
    let adaptive = banks(2);
    full_but(&adaptive, &[(0, 6), (128, 6), (256, 6), (384, 6), (1024, 7)]);
    assert_eq!(get(&adaptive, 7, Unmovable), block(1024, 7));
    assert_eq!(pools(&adaptive), [User, Kernel]);
    assert_eq!(adaptive.allocate(urgent(7, Unmovable)), None, "no bank has another");
    assert_eq!(pools(&adaptive), [User, Kernel], "and none is stolen in vain");
}

#[test]
fn the_last_free_frame_of_a_bank_changes_its_pool_too() {
    let adaptive = banks(3);
    full_but(&adaptive, &[(2047, 0)]);
    assert_eq!(get(&adaptive, 0, Unmovable), block(2047, 0));
    assert_eq!(pools(&adaptive), [User, Kernel, User]);
}

#[test]
fn an_arbitrary_bank_may_be_the_wrong_one() {
    let sets = BankSets::plain();
    let adaptive = AdaptiveBuddy::new(&[zone(0, Normal, 0, 3072)], BANK, &sets, StealRule::Lowest).unwrap();
    full_but(&adaptive, &[(128, 4), (1024, 5), (2048, 8)]);
    assert_eq!(get(&adaptive, 5, Unmovable), block(1024, 5), "it is the lowest with a large enough block");
    assert_eq!(pools(&adaptive), [User, Kernel, User]);
}

#[test]
fn a_bank_goes_offline_with_its_last_page_from_either_pool() {
    let adaptive = banks(3);
    for own in [Movable, Unmovable] {
        let held = [get(&adaptive, 0, own), get(&adaptive, 0, own)];
        adaptive.free(held[0], CPU);
        assert_ne!(pools(&adaptive), [Offline; 3], "a page is left");
        adaptive.free(held[1], CPU);
        assert_eq!(pools(&adaptive), [Offline; 3]);
        assert_eq!(adaptive.place(frame(0)), FramePlace::Free(block(0, 10)));
    }
}

#[test]
fn the_bank_that_went_offline_last_comes_back_first() {
    let adaptive = banks(3);
    let held = exhaust(&adaptive, 10, Movable);
    for taken in [held[0], held[2], held[1]] {
        adaptive.free(taken, CPU);
    }
    assert_eq!(exhaust(&adaptive, 10, Movable), [held[1], held[2], held[0]]);
}

#[test]
fn a_part_of_a_bank_is_the_kernel_s_for_good() {
    let zones = [zone(0, Dma32, 512, 1024), zone(0, Normal, 1536, 2000)];
    let adaptive = AdaptiveBuddy::new(&zones, BANK, &BankSets::plain(), StealRule::MostFree).unwrap();
    let parts: Vec<_> = (0..adaptive.parts()).map(|part| adaptive.part(part)).collect();
    let seen: Vec<_> = parts.iter().map(|part| (part.zone.0, part.frames.start().number(), part.free)).collect();
    assert_eq!(seen, [(0, 512, 512), (0, 1024, 512), (1, 1536, 512), (1, 2048, 1024), (1, 3072, 464)]);
    assert!(parts.iter().all(|part| part.is_partial == (part.pool == Kernel) && part.frames.count() == part.free));
    assert_eq!(get(&adaptive, 9, Movable), block(2048, 9), "programs get the only whole bank first");
    let held = exhaust(&adaptive, 0, Movable);
    held.iter().for_each(|&page| adaptive.free(page, CPU));
    assert_eq!(pools(&adaptive), [Kernel, Kernel, Kernel, User, Kernel], "the partial ones stay though all is free");
    assert!((0..5).all(|part| adaptive.isolate(part) == (part == 3)));
}

#[test]
fn a_bank_may_be_larger_than_the_largest_block() {
    let size = BankSize::of_frames(4096).unwrap();
    let zones = [zone(0, Normal, 8192, 16_384)];
    let adaptive = AdaptiveBuddy::new(&zones, size, &BankSets::plain(), StealRule::MostFree).unwrap();
    get(&adaptive, 0, Movable);
    let held = get(&adaptive, 0, Unmovable);
    assert_eq!(held, block(12_288, 0), "in the next bank");
    assert_eq!(get(&adaptive, 10, Unmovable), block(13_312, 10), "in the same bank");
    assert_eq!(pools(&adaptive), [User, Kernel, Offline, Offline]);
    assert_eq!(adaptive.part(1).free, 4096 - 1025);
}

#[test]
fn the_smallest_block_that_is_large_enough_is_split_to_size() {
    let adaptive = banks(1);
    let first = get(&adaptive, 3, Movable);
    assert_eq!((first, adaptive.statistics().splits), (block(0, 3), 7));
    assert_eq!((get(&adaptive, 8, Movable), adaptive.statistics().splits), (block(256, 8), 7), "not a half of 512");
    adaptive.free(first, CPU);
    assert_eq!(adaptive.statistics().merges, 5, "up to 256 frames, whose buddy is held");
}

#[test]
fn the_reserve_is_for_urgent_requests_and_low_is_kept_if_another_zone_can_give() {
    let zones = [zone(0, Normal, 0, 2048), zone(1, Normal, 2048, 2048)];
    let adaptive = AdaptiveBuddy::new(&zones, BANK, &BankSets::plain(), StealRule::MostFree).unwrap();
    let marks = adaptive.watermarks(ZONE);
    while adaptive.allocate(request(0, Movable)).unwrap().first() < frame(2048) {}
    assert_eq!(adaptive.free_frames(ZONE), marks.low);
    while adaptive.allocate(request(0, Movable)).is_some() {}
    assert_eq!([ZONE, ZoneIndex(1)].map(|zone| adaptive.free_frames(zone)), [marks.min; 2]);
    exhaust(&adaptive, 0, Unmovable);
    assert_eq!([ZONE, ZoneIndex(1)].map(|zone| adaptive.free_frames(zone)), [0; 2]);
    let counts = adaptive.statistics();
    assert_eq!((counts.allocated, counts.refused, counts.freed), (4096, 2, 0));
    assert_eq!((adaptive.zone(ZONE), adaptive.zone(ZoneIndex(2))), (Some(zones[0]), None));
}
