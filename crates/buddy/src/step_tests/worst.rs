//! The worst cases: these operations take as many steps as their bound allows, or at least the stated share of them. So
//! neither the bounds nor the allocators can do more work unnoticed.

use super::*;
use crate::testing::{CPU, exhaust, list, urgent};
use crate::zone::{LOCAL_BATCH, LOCAL_HIGH};
use crate::{End, FreeLists};

/// Checks that an operation took so many percent of the most steps, of each kind.
fn near(seen: Steps, most: Steps, percent: Steps) {
    let share = |seen: u64, most: u64| (100 * seen).checked_div(most).unwrap_or(100);
    let shares = [(seen.lists, most.lists), (seen.frames, most.frames), (seen.banks, most.banks)];
    let [lists, frames, banks] = shares.map(|(seen, most)| share(seen, most));
    assert!(seen.within(most), "{seen:?} of {most:?}");
    assert!(percent.within(Steps::new(lists, frames, banks)), "{seen:?} of {most:?}: {lists}, {frames}, {banks} %");
}

/// One zone of so many banks from frame 0 on.
fn zone_of(banks: u64) -> [Zone; 1] {
    [zone(0, Normal, 0, banks * BANK)]
}

fn bounds(kind: PolicyKind) -> PoolBounds {
    PoolBounds::of(&zone_of(8), BANK, 1, kind)
}

fn pools() -> impl PageAllocator + BankPools {
    AdaptiveBuddy::new(&zone_of(8), bank(), &BankSets::plain(), StealRule::MostFree).unwrap()
}

/// Gives all memory to programs, page by page, then frees every second page.
fn leave_holes(allocator: &impl PageAllocator) {
    let all = exhaust(allocator, 0, Movable);
    assert_eq!(all.len() as u64, 8 * BANK);
    all.iter().filter(|page| page.first().number() % 2 == 1).for_each(|page| allocator.free(*page, CPU));
}

/// The worst that `AdaptiveBuddy` does: half of the frames of a bank are free, each for itself.
#[test]
fn a_steal_moves_each_free_block_of_a_bank() {
    let pools = pools();
    leave_holes(&pools);
    let (seen, got) = steps(|| pools.allocate(urgent(0, Unmovable)));
    assert_eq!((got.is_some(), pools.statistics().steals), (true, 1));
    let looks = Steps::new(2 * 11 + 1, 0, 2 * 8 + 8 + 1);
    let moved = BANK / 2 * Steps::new(2, 3, 0) + Steps::new(0, BANK, 1);
    assert_eq!(seen, looks + moved + Steps::new(1, 3, 2), "nothing is cut");
    // The bound allows for a search above the low watermark in vain, and for a block to be cut ten times.
    near(seen, bounds(PolicyKind::Pools).allocate(0, Unmovable), Steps::new(95, 99, 43));
}

#[test]
fn an_isolation_moves_each_free_block_of_a_bank() {
    let pools = pools();
    leave_holes(&pools);
    for _ in 0..2 {
        let (seen, isolated) = steps(|| pools.isolate(3));
        assert!(isolated);
        near(seen, bounds(PolicyKind::Pools).isolate(), Steps::new(100, 100, 0));
        pools.rejoin(3);
    }
    assert!(pools.isolate(3));
    let (seen, ()) = steps(|| pools.rejoin(3));
    near(seen, bounds(PolicyKind::Pools).isolate(), Steps::new(100, 100, 100));
}

/// A held block is passed over at once, whatever its size.
#[test]
fn a_move_looks_at_each_block_once() {
    let pools = pools();
    let held = [9, 6].map(|number| pools.allocate(urgent(number, Movable)).unwrap().first().number());
    assert_eq!(held, [0, 512]);
    let (seen, isolated) = steps(|| pools.isolate(0));
    // Two held blocks, and free ones of order 6, 7, 8 and 10.
    assert_eq!((isolated, seen), (true, Steps::new(2 * 4, 2 + 4 * 4, 1 + 1)));
}

/// No bank has two frames beside each other, so all is looked at down to both watermarks.
#[test]
fn a_request_of_the_kernel_that_is_refused_looks_at_each_bank_twice() {
    let [array, lists] = [PolicyKind::Array, PolicyKind::List].map(bounds);
    let allocator = ArrayBanks::new(&zone_of(8), bank()).unwrap();
    leave_holes(&allocator);
    let (seen, got) = steps(|| allocator.allocate(urgent(1, Unmovable)));
    assert_eq!((got, seen), (None, Steps::new(0, 0, 2 * 8)));
    near(seen, array.allocate(1, Unmovable), Steps::new(0, 0, 28));
    allocator.isolate(0);
    let allocator = ListBanks::new(&zone_of(8), bank()).unwrap();
    leave_holes(&allocator);
    let (seen, got) = steps(|| allocator.allocate(urgent(1, Unmovable)));
    assert_eq!((got, seen), (None, Steps::new(2 * (8 + 3), 0, 2 * 8)));
    near(seen, lists.allocate(1, Unmovable), Steps::new(49, 0, 31));
    let allocator = pools();
    leave_holes(&allocator);
    let (seen, got) = steps(|| allocator.allocate(urgent(1, Unmovable)));
    assert_eq!((got, seen), (None, Steps::new(2 * 2 * 10, 0, 2 * 2 * 8)));
}

/// Each half of the memory of an isolated bank has room, and it is the last that is looked at.
#[test]
fn isolated_banks_with_room_are_looked_at_twice_each() {
    let allocator = ArrayBanks::new(&zone_of(8), bank()).unwrap();
    leave_holes(&allocator);
    (1..8).for_each(|part| assert!(allocator.isolate(part)));
    let (seen, got) = steps(|| allocator.allocate(urgent(0, Movable)));
    assert!(got.is_some_and(|got| got.first().number() < BANK));
    near(seen, bounds(PolicyKind::Array).allocate(0, Movable), Steps::new(8, 23, 37));
}

/// The last frame of a block of order 10 comes back: its bank has others, so it stays where it is.
#[test]
fn a_free_merges_ten_times_and_no_more() {
    let merges = |allocator: &dyn PageAllocator, bounds: &dyn Bounds, banks: u64| {
        let all: Vec<FrameBlock> = std::iter::from_fn(|| allocator.allocate(urgent(0, Movable))).collect();
        let (own, last) = (all.iter().filter(|page| (1..1024).contains(&page.first().number())), block(0, 0));
        own.for_each(|page| allocator.free(*page, CPU));
        let (seen, ()) = steps(|| allocator.free(last, CPU));
        assert_eq!(seen, Steps::new(11, 2 + 1 + 10 * 3 + 1, banks));
        assert!(seen.within(bounds.free(0, false)));
    };
    let [array, lists, with_pools] = [PolicyKind::Array, PolicyKind::List, PolicyKind::Pools].map(bounds);
    // Each block that leaves or joins a list is counted, the end of the hold, and what the policy looks at.
    merges(&ArrayBanks::new(&zone_of(8), bank()).unwrap(), &array, 11 + 1 + 2);
    merges(&ListBanks::new(&zone_of(8), bank()).unwrap(), &lists, 11 + 1 + 1);
    merges(&pools(), &with_pools, 11 + 1 + 1 + 1);
}

/// Every second frame of a block of order 10 was retired while it was held, so its rest is of single frames.
#[test]
fn a_free_around_retired_frames_looks_at_each_frame_once_per_order() {
    // Three looks at each block of more than one frame, two at each frame, and two more if that is good.
    let looks = 3 * 1023 + 2 * 1024 + 2 * 512;
    let frees = |allocator: &dyn PageAllocator, most: Steps, banks: u64| {
        let other = allocator.allocate(urgent(0, Movable)).unwrap();
        let held = allocator.allocate(urgent(10, Movable)).unwrap();
        assert_eq!(other.first().number() / BANK, held.first().number() / BANK, "the bank stays in use");
        held.frames().skip(1).step_by(2).for_each(|frame| _ = allocator.retire(frame));
        let (seen, ()) = steps(|| allocator.free(held, CPU));
        assert_eq!(seen, Steps::new(512, 2 + looks, banks));
        near(seen, most, Steps::new(20, 20, 99));
    };
    let [array, lists, with_pools] =
        [PolicyKind::Array, PolicyKind::List, PolicyKind::Pools].map(|kind| bounds(kind).free(10, true));
    frees(&ArrayBanks::new(&zone_of(8), bank()).unwrap(), array, 512 + 1 + 2);
    frees(&ListBanks::new(&zone_of(8), bank()).unwrap(), lists, 512 + 1 + 1);
    frees(&pools(), with_pools, 2 * 512 + 1 + 1);
}

/// A machine without a lock, with all of its memory held, frame by frame.
fn held_buddy(zones: &[Zone]) -> Buddy<'static, (), crate::HeapStorage> {
    let mut buddy = Buddy::new(zones, CPUS, ()).unwrap();
    while let Some((whole, ())) = buddy.take(list(10, Movable), End::Front) {
        buddy.split(whole);
    }
    buddy
}

/// Thirty pageblocks have one free frame, and one has every second: the kernel's batch takes one after the other, and
/// with each all of its pageblock.
#[test]
fn a_batch_of_a_cpu_moves_a_pageblock_for_each_frame() {
    let mut buddy = held_buddy(&zone_of(8));
    (0..256).for_each(|place| buddy.put(block(2 * place, 0), (), End::Back));
    for pageblock in 1..31 {
        buddy.put(block(pageblock * 512 + 511, 0), (), End::Front);
    }
    let bounds = BuddyBounds { zones: 1, cpus: u64::from(CPUS) };
    let asked = urgent(0, Reclaimable);
    let (seen, got) = steps(|| buddy.allocate(asked));
    assert!(got.is_some() && buddy.statistics().steals == u64::from(LOCAL_BATCH), "{:?}", buddy.statistics());
    // Without the lists of the CPUs, which are empty here.
    let most = BuddyBounds { zones: 1, cpus: 0 }.allocate(0, Reclaimable);
    let each = Steps::new(33 + 1 + 1, 512 + 2 + 1, 0);
    let moved = (30 + 256) * Steps::new(2, 3, 0);
    assert_eq!(seen, u64::from(LOCAL_BATCH) * each + moved + Steps::new(3, 2 + 1, 0));
    near(seen, most, Steps::new(85, 95, 0));
    assert!(seen.within(bounds.allocate(0, Reclaimable)));
}

/// A request is refused that looked in vain three times, at last after the lists of the CPUs were emptied.
#[test]
fn a_refused_request_looks_at_the_lists_three_times() {
    let mut buddy = held_buddy(&zone_of(2));
    // Enough frames are free for both watermarks, but no two of them are buddies.
    (0..1500).for_each(|place| buddy.put(block(2 * place, 0), (), End::Front));
    buddy.free(block(3000, 0), CPU, (), End::Front);
    let (seen, got) = steps(|| buddy.allocate(urgent(9, Movable)));
    // The frame of the CPU is on the first or a later one of its lists, and has no free buddy.
    let drained = remove_from_local(seen.lists - 3 * 3 * 2);
    assert_eq!((got, seen), (None, 3 * Steps::new(3 * 2, 0, 0) + drained));
}

/// Returns the steps of a frame that goes from the list of a CPU to a global one, with so many steps on lists.
fn remove_from_local(lists: u64) -> Steps {
    assert!((3..=5).contains(&lists), "one to three looks, and the two changes: {lists}");
    Steps::new(lists, 2 + 1 + 1, 0)
}

/// The frames of a CPU lie in blocks of order 10 of their own, all else of which is free.
#[test]
fn a_drained_frame_merges_ten_times() {
    let blocks = u64::from(LOCAL_HIGH);
    let mut buddy = held_buddy(&zone_of(blocks / 2));
    let firsts = (0..blocks).map(|place| block(place * 1024, 0));
    for others in firsts.clone() {
        (1..1024).for_each(|offset| buddy.put(block(others.first().number() + offset, 0), (), End::Front));
    }
    let (mut seen, before) = (Steps::default(), buddy.statistics());
    for first in firsts {
        (seen, ()) = steps(|| buddy.free(first, CPU, (), End::Front));
    }
    let bounds = BuddyBounds { zones: 1, cpus: 1 };
    let merges = buddy.statistics().merges - before.merges;
    assert_eq!((buddy.statistics().drains, merges), (1, 10 * u64::from(LOCAL_BATCH)));
    near(seen, bounds.free(0, false), Steps::new(99, 99, 0));
    // What is left to the CPU is less than the two other lists of it may have besides.
    let (seen, drained) = steps(|| buddy.drain());
    assert_eq!(drained, blocks - u64::from(LOCAL_BATCH));
    near(seen, bounds.claim(0, false), Steps::new(60, 60, 0));
}
