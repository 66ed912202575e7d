//! Interleaved banks.

use super::*;

#[test]
fn interleaved_banks_do_everything_together_across_zones_too() {
    let mut memory = [(0, 0); 4];
    let sets = BankSets::interleaved([[0, 4], [1, 5]], &mut memory).unwrap();
    let zones = [zone(0, Normal, 0, 3072), zone(1, Normal, 4096, 2048)];
    let adaptive = AdaptiveBuddy::new(&zones, BANK, &sets, StealRule::MostFree).unwrap();
    let here = get(&adaptive, 0, Movable);
    assert_eq!(pools(&adaptive), [User, Offline, Offline, User, Offline]);
    let there = adaptive.allocate(Request { node: Node(1), ..urgent(0, Movable) }).unwrap();
    assert_eq!(there, block(4096, 0), "its bank is online already");
    adaptive.free(here, CPU);
    assert_eq!(pools(&adaptive), [User, Offline, Offline, User, Offline], "the other bank has a page");
    adaptive.free(there, CPU);
    assert_eq!(pools(&adaptive), [Offline; 5]);
}

#[test]
fn interleaved_banks_are_stolen_together_and_their_free_frames_count_together() {
    let adaptive = of_sets(4, &BankSets::interleaved([[0, 2], [1, 3]], &mut [(0, 0); 6]).unwrap());
    full_but(&adaptive, &[(0, 8), (1024, 7), (3072, 7), (3328, 6)]);
    assert_eq!(get(&adaptive, 6, Unmovable), block(3328, 6), "320 frames are more than 256");
    assert_eq!(pools(&adaptive), [User, Kernel, User, Kernel]);
    assert_eq!(adaptive.statistics().steals, 2, "banks");
}

#[test]
fn the_pairs_of_table_4_1_are_online_together() {
    let zones = [zone(0, Normal, 0, 65_536), zone(1, Normal, 65_536, 65_536)];
    let adaptive = AdaptiveBuddy::new(&zones, BANK, &BankSets::two_way_of_128(), StealRule::MostFree).unwrap();
    get(&adaptive, 0, Movable);
    adaptive.allocate(Request { node: Node(1), ..urgent(0, Unmovable) }).unwrap();
    let online: Vec<_> = pools(&adaptive).into_iter().enumerate().filter(|(_, pool)| *pool != Offline).collect();
    assert_eq!(online, [(0, User), (32, User), (64, Kernel), (96, Kernel)]);
}

#[test]
fn a_set_with_a_partial_bank_is_the_kernel_s_for_good() {
    let mut memory = [(0, 0); 6];
    let sets = BankSets::interleaved([[0, 2], [1, 3], [5, 9]], &mut memory).unwrap();
    let zones = [zone(0, Normal, 0, 3000), zone(0, Normal, 5120, 1024)];
    let adaptive = AdaptiveBuddy::new(&zones, BANK, &sets, StealRule::MostFree).unwrap();
    assert_eq!(pools(&adaptive), [Kernel, Offline, Kernel, Offline], "a bank that is absent does not matter");
    assert!(!adaptive.part(0).is_partial);
    let held = get(&adaptive, 10, Unmovable);
    assert_eq!(held, block(0, 10));
    adaptive.free(held, CPU);
    assert_eq!(adaptive.part(0).pool, Kernel);
}
