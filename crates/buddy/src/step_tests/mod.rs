//! The most steps of an operation of the allocators with lists, beside what operations really take.
//!
//! `bounds` has the formulas. Here operations are drawn at random, in memory that is used up to 99.9 % at times;
//! `worst` makes up the cases in which an operation takes as many steps as its bound allows, or nearly.

mod bounds;
mod worst;

use rampart_memory::{FrameBlock, Node};

use crate::Migratetype::{Movable, Reclaimable, Unmovable};
use crate::steps::counted::{Steps, steps};
use crate::testing::{block, frame, request, zone};
use crate::{
    AdaptiveBuddy, ArrayBanks, BankPools, BankSets, BankSize, Buddy, Cpu, FramePlace, ListBanks, Locked, Migratetype,
    PageAllocator, Request, StealRule, Zone,
    ZoneKind::{Dma32, Normal},
};
use bounds::{Bounds, BuddyBounds, PolicyKind, PoolBounds};

const CPUS: u32 = 3;

/// Frames of a bank.
const BANK: u64 = 2048;

/// Two zones of a node that meet within a bank, and a zone of another node; the first and the last bank are partial.
fn zones() -> [Zone; 3] {
    [zone(0, Dma32, 1536, 6 * BANK), zone(0, Normal, 1536 + 6 * BANK, 5 * BANK), zone(1, Normal, 16 * BANK, 4 * BANK)]
}

/// A generator by Knuth (MMIX).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// What a run may do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retires {
    Nothing,
    Frames,
}

/// Performs operations, each within its bound.
struct Run<'a, A> {
    allocator: &'a A,
    bounds: &'a dyn Bounds,
    dice: Dice,
    held: Vec<FrameBlock>,
    has_retired: bool,
    /// Whether 99.9 % of the memory were in use at a time.
    was_full: bool,
    /// The most steps of an allocation, a free, a claim, a retirement, an isolation.
    most: [Steps; 5],
}

impl<'a, A: PageAllocator> Run<'a, A> {
    fn new(allocator: &'a A, bounds: &'a dyn Bounds, seed: u64) -> Self {
        let (dice, held, most) = (Dice(seed), Vec::new(), Default::default());
        Self { allocator, bounds, dice, held, has_retired: false, was_full: false, most }
    }

    fn check(&mut self, kind: usize, seen: Steps, most: Steps, what: &str) {
        assert!(seen.within(most), "{what}: {seen:?} of {most:?}");
        self.most[kind] = self.most[kind].max(seen);
    }

    fn allocate(&mut self, number: u8, own: Migratetype) -> bool {
        let (cpu, node) = (Cpu(self.dice.of(&[0, 1, 2])), Node(self.dice.of(&[0, 1])));
        let asked = Request { cpu, node, urgent: self.dice.below(2) == 0, ..request(number, own) };
        let (seen, block) = steps(|| self.allocator.allocate(asked));
        self.check(0, seen, self.bounds.allocate(number, own), "allocate");
        self.held.extend(block);
        block.is_some()
    }

    fn free(&mut self) {
        if !self.held.is_empty() {
            let (place, cpu) = (self.dice.below(self.held.len()), Cpu(self.dice.of(&[0, 1, 2])));
            let block = self.held.swap_remove(place);
            let (seen, ()) = steps(|| self.allocator.free(block, cpu));
            self.check(1, seen, self.bounds.free(block.order().number(), self.has_retired), "free");
        }
    }

    /// Returns the number of any frame of the machine.
    fn any_frame(&mut self) -> u64 {
        let zone = self.dice.of(&zones()).frames;
        zone.start().number() + self.dice.below(usize::try_from(zone.count()).unwrap()) as u64
    }

    fn claim(&mut self) {
        let number = self.dice.of(&[0, 0, 3, 9, 10]);
        let wanted = block(self.any_frame() >> number << number, number);
        let (seen, claimed) = steps(|| self.allocator.claim(wanted));
        self.check(2, seen, self.bounds.claim(number, self.has_retired), "claim");
        self.held.extend(claimed.then_some(wanted));
    }

    fn retire(&mut self) {
        let frame = frame(self.any_frame());
        let (seen, was) = steps(|| self.allocator.retire(frame));
        self.check(3, seen, self.bounds.retire(), "retire");
        self.has_retired |= was != FramePlace::Retired;
    }

    /// Fills the memory but for about a thousandth, then frees a third of it, again and again.
    fn churn(&mut self, operations: usize, retires: Retires) {
        let all: u64 = zones().iter().map(|zone| zone.frames.count()).sum();
        let free = |allocator: &A| (0..zones().len()).map(|zone| allocator.free_frames(crate::ZoneIndex(zone))).sum();
        let mut fills = true;
        for _ in 0..operations {
            let now: u64 = free(self.allocator);
            self.was_full |= now <= all / 1000;
            fills = if fills { now > all / 1000 } else { now > all / 3 };
            let own = self.dice.of(&[Movable, Movable, Unmovable, Reclaimable]);
            match (self.dice.below(1000), fills) {
                (0..3, _) => self.claim(),
                (3..10, _) if retires == Retires::Frames => self.retire(),
                (10..800, true) | (10..300, false) => {
                    let number = self.dice.of(&[0, 0, 0, 0, 0, 0, 1, 2, 4, 9, 10]);
                    if !self.allocate(number, own) {
                        self.allocate(0, own);
                    }
                }
                _ => self.free(),
            }
        }
    }
}

impl<A: PageAllocator + BankPools> Run<'_, A> {
    /// Isolates banks besides, and ends that.
    fn churn_banks(&mut self, rounds: usize, retires: Retires) {
        for _ in 0..rounds {
            self.churn(25, retires);
            let part = self.dice.below(self.allocator.parts());
            let (seen, isolated) = steps(|| self.allocator.isolate(part));
            self.check(4, seen, self.bounds.isolate(), "isolate");
            self.churn(25, retires);
            if isolated {
                let (seen, ()) = steps(|| self.allocator.rejoin(part));
                self.check(4, seen, self.bounds.isolate(), "rejoin");
            }
            let (seen, ()) = steps(|| self.allocator.put_best_first());
            assert!(seen.within(self.bounds.put_best_first()), "put_best_first: {seen:?}");
        }
    }
}

/// Runs an allocator of banks without and with retired frames.
fn within_bounds<A: PageAllocator + BankPools>(name: &str, new: impl Fn() -> A, kind: PolicyKind, set: u64) {
    for retires in [Retires::Nothing, Retires::Frames] {
        for seed in 1..=3 {
            let (allocator, bounds) = (new(), PoolBounds::of(&zones(), BANK, set, kind));
            let mut run = Run::new(&allocator, &bounds, seed);
            run.churn_banks(1500, retires);
            assert!(run.was_full && (allocator.statistics().steals > 0 || kind == PolicyKind::Array));
            println!("{name}, seed {seed}: {:?}", run.most);
        }
    }
}

fn bank() -> BankSize {
    BankSize::of_frames(BANK).unwrap()
}

#[test]
fn an_operation_of_array_banks_takes_no_more_steps_than_its_bound() {
    within_bounds("ArrayBanks", || ArrayBanks::new(&zones(), bank()).unwrap(), PolicyKind::Array, 1);
}

#[test]
fn an_operation_of_list_banks_takes_no_more_steps_than_its_bound() {
    within_bounds("ListBanks", || ListBanks::new(&zones(), bank()).unwrap(), PolicyKind::List, 1);
}

#[test]
fn an_operation_of_adaptive_buddy_takes_no_more_steps_than_its_bound() {
    for rule in [StealRule::MostFree, StealRule::Lowest] {
        let new = || AdaptiveBuddy::new(&zones(), bank(), &BankSets::plain(), rule).unwrap();
        within_bounds("AdaptiveBuddy", new, PolicyKind::Pools, 1);
    }
    let mut memory = [(0, 0); 6];
    let sets = BankSets::interleaved([vec![1, 3, 4], vec![2, 9, 17]], &mut memory).unwrap();
    let new = || AdaptiveBuddy::new(&zones(), bank(), &sets, StealRule::MostFree).unwrap();
    within_bounds("AdaptiveBuddy, sets of three", new, PolicyKind::Pools, 3);
}

#[test]
fn an_operation_of_buddy_takes_no_more_steps_than_its_bound() {
    for retires in [Retires::Nothing, Retires::Frames] {
        for seed in 1..=3 {
            let buddy = Locked::new(Buddy::new(&zones(), CPUS, ()).unwrap());
            let bounds = BuddyBounds { zones: zones().len() as u64, cpus: u64::from(CPUS) };
            let mut run = Run::new(&buddy, &bounds, seed);
            run.churn(80_000, retires);
            assert!(run.was_full && buddy.statistics().steals > 0);
            println!("Buddy, seed {seed}: {:?}", run.most);
        }
    }
}
