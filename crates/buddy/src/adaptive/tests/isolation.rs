//! Banks that are being emptied.

use super::*;

#[test]
fn nothing_is_allocated_from_an_isolated_bank_and_it_goes_offline_with_its_last_page() {
    let adaptive = banks(2);
    let held = [get(&adaptive, 9, Movable), get(&adaptive, 8, Movable), get(&adaptive, 10, Movable)];
    assert!(adaptive.isolate(0));
    assert_eq!((adaptive.part(0).pool, adaptive.part(0).free, adaptive.free_frames(ZONE)), (User, 256, 0));
    assert_eq!([Movable, Unmovable].map(|own| adaptive.allocate(urgent(0, own))), [None; 2], "nor is it stolen");
    adaptive.free(held[1], CPU);
    assert_eq!(adaptive.place(frame(512)), FramePlace::Free(block(512, 9)), "blocks still merge");
    assert_eq!(adaptive.allocate(urgent(0, Movable)), None);
    adaptive.free(held[0], CPU);
    assert_eq!((adaptive.part(0).pool, adaptive.free_frames(ZONE)), (Offline, 1024));
    assert_eq!(get(&adaptive, 10, Movable), block(0, 10), "it can be used again");
}

#[test]
fn a_bank_that_rejoins_is_used_again() {
    let adaptive = banks(1);
    get(&adaptive, 9, Movable);
    assert!(adaptive.isolate(0) && adaptive.isolate(0), "once more changes nothing");
    adaptive.rejoin(0);
    adaptive.rejoin(0);
    assert_eq!((adaptive.free_frames(ZONE), adaptive.allocate(urgent(9, Movable))), (512, Some(block(512, 9))));
}

#[test]
fn only_parts_of_the_user_pool_can_be_isolated() {
    let adaptive = banks(2);
    get(&adaptive, 0, Unmovable);
    assert_eq!([0, 1].map(|part| adaptive.isolate(part)), [false; 2]);
    [0, 1].into_iter().for_each(|part| adaptive.rejoin(part));
    assert_eq!((pools(&adaptive), adaptive.free_frames(ZONE)), (vec![Kernel, Offline], 2047));
}

#[test]
fn a_set_is_isolated_as_long_as_any_of_its_banks_is() {
    let adaptive = of_sets(2, &BankSets::interleaved([[0, 1]], &mut [(0, 0); 6]).unwrap());
    let held = get(&adaptive, 0, Movable);
    assert!(adaptive.isolate(0) && adaptive.isolate(1));
    assert_eq!(adaptive.free_frames(ZONE), 0, "both banks");
    adaptive.rejoin(0);
    assert_eq!(adaptive.free_frames(ZONE), 0);
    adaptive.rejoin(1);
    assert_eq!(adaptive.free_frames(ZONE), 2047);
    assert!(adaptive.isolate(0));
    adaptive.free(held, CPU);
    get(&adaptive, 0, Movable);
    assert!(adaptive.isolate(1));
    adaptive.rejoin(1);
    assert_eq!(adaptive.free_frames(ZONE), 2047, "bank 0 was isolated no longer after it had been offline");
}
