//! Allocators in memory that their caller hands in: they take no other, and do in it what they do on the heap.

#![allow(clippy::cast_possible_truncation, reason = "the machines are small")]

mod mixed;

use std::hint::black_box;
use std::mem::MaybeUninit;

use allocation_counter::measure;
use rampart_buddy::{
    AdaptiveBuddy, AllocatorStatistics, ArrayBanks, BankPools, BankSets, BankSize, Buddy, Error, FreeLists,
    FullestBank, FullestSlices, ListBanks, Locked, PageAllocator, StealRule, Zone, ZoneKind,
};
use rampart_memory::{Bytes, Frame, FrameRange, Node, Tested};

use mixed::{Effects, FRAMES, Mixed};

const OPERATIONS: u32 = 1_000_000;
const CPUS: u32 = 2;
const BANK: BankSize = BankSize::of_frames(2048).unwrap();
const SETS: BankSets<'static> = BankSets::plain();

/// Two nodes and three zones, with a hole, and partial banks at both ends of it.
fn zones() -> [Zone; 3] {
    let zone = |node, kind, start, end| {
        let frames = Frame::new(start).and_then(|first| FrameRange::new(first, end - start)).unwrap();
        Zone { node: Node(node), kind, frames }
    };
    [
        zone(0, ZoneKind::Dma32, 0, 7000),
        zone(0, ZoneKind::Normal, 9000, 16_384),
        zone(1, ZoneKind::Normal, 16_384, FRAMES),
    ]
}

fn memory(needed: Result<Bytes, Error>) -> Vec<MaybeUninit<u8>> {
    // A byte more than needed, so that it can begin anywhere.
    vec![MaybeUninit::new(0xa5); needed.unwrap().get() as usize + 1]
}

/// Counts the allocations of making an allocator and using it.
fn allocations<A>(build: impl FnOnce() -> A, operate: impl FnOnce(&mut A)) -> u64 {
    measure(|| operate(&mut build())).count_total
}

fn assert_mixed(effects: &Effects, has_pools: bool) {
    let Effects { allocated, refused, freed, claimed, retired, isolated, rejoined, drained, looked } = effects;
    assert!([allocated, freed, looked].iter().all(|count| **count > 10_000), "{effects:?}");
    assert!([refused, claimed, retired].iter().all(|count| **count > 100), "{effects:?}");
    assert!(*retired < 3_000, "most of memory stays: {effects:?}");
    if has_pools {
        assert!(*isolated > 100 && *rejoined > 100, "{effects:?}");
    }
    assert!(*drained < 10_000);
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| black_box(Vec::<u8>::with_capacity(1)), |_| ()), 1);
}

#[test]
fn a_buddy_system_allocates_nothing() {
    let (mut memory, mut mixed) = (memory(Buddy::<Tested>::needs(&zones(), CPUS)), Mixed::new(1));
    let counted = allocations(
        || Buddy::within(&mut memory, &zones(), CPUS, Tested::NEVER).unwrap(),
        |buddy| mixed.on_lists(OPERATIONS, buddy),
    );
    assert_eq!(counted, 0);
    assert_mixed(&mixed.effects, false);
    assert!(mixed.effects.drained > 10);
}

#[test]
fn a_locked_buddy_system_allocates_nothing() {
    let (mut memory, mut mixed) = (memory(Buddy::<()>::needs(&zones(), CPUS)), Mixed::new(2));
    let counted = allocations(
        || Locked::new(Buddy::within(&mut memory, &zones(), CPUS, ()).unwrap()),
        |buddy| mixed.on_pages(OPERATIONS, buddy, None),
    );
    assert_eq!(counted, 0);
    assert_mixed(&mixed.effects, false);
}

/// Counts the allocations of one with pools, which has to steal too, if it can.
fn of_pools<A: PageAllocator + BankPools>(build: impl FnOnce() -> A, steals: bool) -> u64 {
    let mut mixed = Mixed::new(3);
    let counted = allocations(build, |pools| {
        mixed.on_pages(OPERATIONS, pools, Some(pools));
        assert_eq!(pools.statistics().steals > 10, steals, "{:?}", pools.statistics());
    });
    assert_mixed(&mixed.effects, true);
    counted
}

#[test]
fn the_array_of_banks_allocates_nothing() {
    let mut memory = memory(ArrayBanks::needs(&zones(), BANK));
    assert_eq!(of_pools(|| ArrayBanks::within(&mut memory, &zones(), BANK).unwrap(), false), 0);
}

#[test]
fn the_lists_of_banks_allocate_nothing() {
    let mut memory = memory(ListBanks::needs(&zones(), BANK));
    assert_eq!(of_pools(|| ListBanks::within(&mut memory, &zones(), BANK).unwrap(), true), 0);
}

#[test]
fn adaptive_buddy_allocates_nothing() {
    let mut memory = memory(AdaptiveBuddy::needs(&zones(), BANK));
    let mut pairs = [(0, 0); 4];
    let sets = BankSets::interleaved([[0, 5], [9, 10]], &mut pairs).unwrap();
    let counted =
        of_pools(|| AdaptiveBuddy::within(&mut memory, &zones(), BANK, &sets, StealRule::MostFree).unwrap(), true);
    assert_eq!(counted, 0);
}

#[test]
fn fullest_bank_allocates_nothing() {
    let mut slices = FullestSlices::of(&zones(), CPUS, BANK);
    let mut vacant = slices.vacant_zones();
    assert_eq!(
        of_pools(
            || FullestBank::new(&zones(), CPUS, BANK, &BankSets::plain(), slices.lend(&mut vacant)).unwrap(),
            true
        ),
        0
    );
}

/// Returns what an allocator did, and its counts.
fn done(pages: &impl PageAllocator, pools: Option<&dyn BankPools>) -> (Effects, AllocatorStatistics) {
    let mut mixed = Mixed::new(4);
    mixed.on_pages(50_000, pages, pools);
    (mixed.effects, pages.statistics())
}

#[test]
fn lent_memory_that_suffices_may_begin_anywhere_and_changes_nothing() {
    let zones = zones();
    let [mut buddy, mut array, mut list, mut adaptive] = [
        memory(Buddy::<Tested>::needs(&zones, CPUS)),
        memory(ArrayBanks::needs(&zones, BANK)),
        memory(ListBanks::needs(&zones, BANK)),
        memory(AdaptiveBuddy::needs(&zones, BANK)),
    ];
    for begin in 0..2 {
        let lent = Locked::new(Buddy::within(&mut buddy[begin..], &zones, CPUS, Tested::NEVER).unwrap());
        assert_eq!(done(&lent, None), done(&Locked::new(Buddy::new(&zones, CPUS, Tested::NEVER).unwrap()), None));
        let (lent, heap) = (ArrayBanks::within(&mut array[begin..], &zones, BANK), ArrayBanks::new(&zones, BANK));
        let (lent, heap) = (lent.unwrap(), heap.unwrap());
        assert_eq!(done(&lent, Some(&lent)), done(&heap, Some(&heap)));
        let (lent, heap) = (ListBanks::within(&mut list[begin..], &zones, BANK), ListBanks::new(&zones, BANK));
        let (lent, heap) = (lent.unwrap(), heap.unwrap());
        assert_eq!(done(&lent, Some(&lent)), done(&heap, Some(&heap)));
        let lent = AdaptiveBuddy::within(&mut adaptive[begin..], &zones, BANK, &SETS, StealRule::Lowest).unwrap();
        let heap = AdaptiveBuddy::new(&zones, BANK, &SETS, StealRule::Lowest).unwrap();
        assert_eq!(done(&lent, Some(&lent)), done(&heap, Some(&heap)));
    }
}

/// Tells whether a build in the first so many bytes of what is needed is refused for that.
fn too_little(needed: Result<Bytes, Error>, build: impl Fn(&mut [MaybeUninit<u8>]) -> Option<Error>) -> bool {
    let mut memory = memory(needed);
    // Each array may need a few bytes less than counted, if it happens to be aligned.
    let (most, slack) = (memory.len(), 1024);
    (0..8).all(|eighth| build(&mut memory[..(most - slack) * eighth / 7]) == Some(Error::TooLittleMemory))
        && build(&mut memory).is_none()
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let zones = zones();
    assert!(too_little(Buddy::<()>::needs(&zones, CPUS), |lent| Buddy::within(lent, &zones, CPUS, ()).err()));
    assert!(too_little(ArrayBanks::needs(&zones, BANK), |lent| ArrayBanks::within(lent, &zones, BANK).err()));
    assert!(too_little(ListBanks::needs(&zones, BANK), |lent| ListBanks::within(lent, &zones, BANK).err()));
    assert!(too_little(AdaptiveBuddy::needs(&zones, BANK), |lent| {
        AdaptiveBuddy::within(lent, &zones, BANK, &SETS, StealRule::MostFree).err()
    }));
    assert_eq!(Buddy::<()>::needs(&[], CPUS), Err(Error::NoZone));
    assert_eq!(Buddy::<()>::within(&mut [], &zones, 0, ()).err(), Some(Error::NoCpu));
}

#[test]
fn a_frame_takes_nine_bytes_and_its_mark() {
    let needs = Buddy::<Tested>::needs(&zones(), CPUS).unwrap().get();
    let buddy = Buddy::new(&zones(), CPUS, Tested::NEVER).unwrap();
    let counted = buddy.footprint();
    let counted = counted.zones.get() + counted.cpus.get() + counted.frames.get();
    assert!((counted..counted + 1024).contains(&needs), "{needs} for {counted}");
    assert_eq!(buddy.zones().count(), 3);
}
