//! Single blocks and frames: claims, retirement, misuse.

use super::*;

#[test]
fn a_claim_takes_exactly_these_frames_and_brings_their_bank_online_for_programs() {
    let adaptive = banks(2);
    assert!(adaptive.claim(block(256, 5)));
    assert_eq!((adaptive.free_frames(ZONE), pools(&adaptive)), (2048 - 32, vec![User, Offline]));
    assert_eq!(adaptive.place(frame(256)), FramePlace::Held);
    assert_eq!(adaptive.place(frame(288)), FramePlace::Free(block(288, 5)));
    assert!(!adaptive.claim(block(256, 0)) && !adaptive.claim(block(0, 10)), "it is held");
    assert!(!adaptive.claim(block(2048, 0)), "it lies in no zone");
    adaptive.free(block(256, 5), CPU);
    assert_eq!((adaptive.place(frame(256)), pools(&adaptive)), (FramePlace::Free(block(0, 10)), vec![Offline; 2]));
}

#[test]
fn a_claim_in_another_pool_than_the_offline_one_leaves_the_bank_there() {
    let adaptive = banks(2);
    get(&adaptive, 0, Unmovable);
    get(&adaptive, 0, Movable);
    assert!(adaptive.isolate(1));
    assert!(adaptive.claim(block(512, 9)) && adaptive.claim(block(1536, 9)), "also in an isolated bank");
    assert_eq!((pools(&adaptive), adaptive.free_frames(ZONE)), (vec![Kernel, User], 511), "which stays isolated");
}

#[test]
fn a_retired_frame_is_never_given_out_and_does_not_keep_its_bank_online() {
    let adaptive = banks(1);
    assert_eq!(adaptive.retire(frame(5)), FramePlace::Free(block(0, 10)));
    assert_eq!((adaptive.retire(frame(5)), adaptive.retire(frame(1024))), (FramePlace::Retired, FramePlace::Absent));
    assert_eq!((adaptive.part(0).free, adaptive.part(0).pool), (1023, Offline));
    let held = exhaust(&adaptive, 0, Movable);
    let frames: BTreeSet<u64> = held.iter().map(|page| page.first().number()).collect();
    assert!(frames.into_iter().eq((0..5).chain(6..1024)));
    held.iter().for_each(|&page| adaptive.free(page, CPU));
    assert_eq!((adaptive.part(0).pool, adaptive.statistics().retired), (Offline, 1));
    assert!(!adaptive.claim(block(5, 0)) && !adaptive.claim(block(4, 1)));
}

#[test]
fn a_held_frame_is_retired_when_its_block_comes_back() {
    let adaptive = banks(1);
    let held = get(&adaptive, 3, Movable);
    assert_eq!([adaptive.retire(frame(5)), adaptive.retire(frame(5))], [FramePlace::Held; 2]);
    assert_eq!((adaptive.place(frame(5)), adaptive.statistics().retired), (FramePlace::Held, 1));
    adaptive.free(held, CPU);
    assert_eq!((adaptive.place(frame(5)), adaptive.free_frames(ZONE)), (FramePlace::Retired, 1023));
    assert_eq!(adaptive.place(frame(0)), FramePlace::Free(block(0, 2)));
}

#[test]
fn the_first_frame_of_a_held_block_may_be_the_one_that_is_retired() {
    let adaptive = banks(1);
    for order in [0, 4] {
        let held = get(&adaptive, order, Movable);
        assert_eq!(adaptive.retire(held.first()), FramePlace::Held);
        adaptive.free(held, CPU);
        assert_eq!(adaptive.place(held.first()), FramePlace::Retired);
        assert_eq!(exhaust(&adaptive, 10, Movable), [], "the bank is whole no more");
    }
    assert_eq!((adaptive.part(0).free, adaptive.part(0).pool), (1022, Offline));
}

#[test]
#[should_panic(expected = "given back but not held")]
fn a_block_that_is_freed_twice_is_a_bug() {
    let adaptive = banks(1);
    let held = [get(&adaptive, 3, Movable), get(&adaptive, 3, Movable)];
    adaptive.free(held[0], CPU);
    adaptive.free(held[0], CPU);
}

#[test]
#[should_panic(expected = "lies in no zone")]
fn a_block_of_no_zone_that_is_freed_is_a_bug() {
    banks(1).free(block(4096, 0), CPU);
}

#[test]
fn what_is_no_machine_is_refused() {
    let refusal = |zones: &[Zone]| AdaptiveBuddy::new(zones, BANK, &BankSets::plain(), StealRule::MostFree).err();
    let good = zone(0, Normal, 1000, 100);
    assert_eq!(refusal(&[good]), None);
    assert_eq!(refusal(&[]), Some(Error::NoZone));
    assert_eq!(refusal(&[good, zone(1, Normal, 900, 101)]), Some(Error::Overlap(frame(1000))));
}

#[test]
fn two_threads_share_it_and_nothing_is_lost() {
    let adaptive = banks(4);
    std::thread::scope(|scope| {
        for own in [Movable, Unmovable] {
            let adaptive = &adaptive;
            scope.spawn(move || {
                for number in 0..10_000_u32 {
                    let held = get(adaptive, u8::try_from(number % 4).unwrap(), own);
                    adaptive.free(held, CPU);
                }
            });
        }
    });
    assert_eq!(pools(&adaptive), [Offline; 4]);
    assert!((0..4).all(|bank| adaptive.claim(block(bank * 1024, 10))), "every frame is free again");
    assert_eq!((adaptive.statistics().allocated, adaptive.statistics().freed), (20_000, 20_000));
}
