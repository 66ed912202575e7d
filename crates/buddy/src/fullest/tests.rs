//! Tests on small machines, against a set of free frames.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use rampart_memory::{Frame, FrameBlock, Node};

use super::*;
use crate::Migratetype::{self, Movable, Unmovable};
use crate::testing::{block, frame, order, request, urgent, zone};
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
#[should_panic(expected = "given back but not held")]
fn a_frame_that_is_freed_twice_is_a_bug() {
    on_banks(1, |allocator| {
        let held = take(allocator, 0, Movable, 2);
        free(allocator, [held[0], held[0]]);
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

/// What the reference model knows: each free frame, each held block with whether it may lie in a bank of the programs.
struct Model {
    free: BTreeSet<Frame>,
    held: Vec<(FrameBlock, Migratetype)>,
    retired: BTreeSet<Frame>,
    isolated: BTreeSet<usize>,
    /// Blocks given, claimed, retired and given back, and requests refused.
    operations: u64,
    bank: BankSize,
    sets: BankSets<'static>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate { request: Request, times: usize },
    Free { which: Index, times: usize, cpu: Cpu },
    Claim { first: u64, number: u8 },
    Retire { number: u64 },
    Isolate { part: Index },
    Rejoin { part: Index },
}

/// Returns steps on a machine of so many CPUs whose frames lie below `last`, each of at most `most` operations.
fn step(cpus: u32, last: u64, most: usize) -> impl Strategy<Value = Step> {
    let number = || prop_oneof![4 => Just(0_u8), 2 => 1_u8..6, 2 => 6_u8..=10];
    let request = (number(), prop::sample::select(&Migratetype::ALL), 0..cpus, 0_u32..3).prop_map(
        |(number, migratetype, cpu, node)| Request { cpu: Cpu(cpu), node: Node(node), ..urgent(number, migratetype) },
    );
    prop_oneof![
        6 => (request, 1..most).prop_map(|(request, times)| Step::Allocate { request, times }),
        6 => (any::<Index>(), 1..most, 0..cpus)
            .prop_map(|(which, times, cpu)| Step::Free { which, times, cpu: Cpu(cpu) }),
        2 => (0..last, number()).prop_map(|(first, number)| Step::Claim { first, number }),
        1 => (0..last).prop_map(|number| Step::Retire { number }),
        1 => any::<Index>().prop_map(|part| Step::Isolate { part }),
        1 => any::<Index>().prop_map(|part| Step::Rejoin { part }),
    ]
}

impl Model {
    fn new(zones: &[Zone], bank: BankSize, sets: &BankSets<'static>) -> Self {
        let frames = zones.iter().flat_map(|zone| zone.frames.start().number()..=zone.frames.last().number());
        Self {
            free: frames.map(frame).collect(),
            held: Vec::new(),
            retired: BTreeSet::new(),
            isolated: BTreeSet::new(),
            operations: 0,
            bank,
            sets: *sets,
        }
    }

    /// Returns the parts of the set of a part.
    fn company(&self, allocator: &FullestBank<'_>, part: usize) -> Vec<usize> {
        let set = |part: usize| self.sets.set_of(self.bank.bank_of(allocator.part(part).frames.start()));
        (0..allocator.parts()).filter(|&other| set(other) == set(part)).collect()
    }

    fn is_free(&self, block: FrameBlock) -> bool {
        block.frames().all(|frame| self.free.contains(&frame))
    }

    /// Whether any block of this order is free in a bank that is not isolated.
    fn has_block(&self, allocator: &FullestBank<'_>, number: u8) -> bool {
        let isolated = self.isolated.iter().flat_map(|&part| self.company(allocator, part));
        let isolated: Vec<_> = isolated.map(|part| allocator.part(part).frames).collect();
        let starts = self.free.iter().filter(|frame| frame.number().is_multiple_of(1 << number));
        let mut blocks = starts.filter_map(|&first| FrameBlock::new(first, order(number)));
        blocks.any(|block| self.is_free(block) && !isolated.iter().any(|frames| frames.contains(block.first())))
    }

    fn hold(&mut self, block: FrameBlock, migratetype: Migratetype) -> Result<(), TestCaseError> {
        for frame in block.frames() {
            prop_assert!(self.free.remove(&frame), "{} is given but not free", frame);
        }
        self.held.push((block, migratetype));
        Ok(())
    }

    fn step(&mut self, allocator: &FullestBank<'_>, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Allocate { request, times } => {
                for _ in 0..times {
                    self.operations += 1;
                    let Some(block) = allocator.allocate(request) else {
                        prop_assert!(!self.has_block(allocator, request.order.number()), "{:?} is refused", request);
                        break;
                    };
                    self.hold(block, request.migratetype)?;
                }
            }
            Step::Free { which, times, cpu } => {
                for _ in 0..times.min(self.held.len()) {
                    self.operations += 1;
                    let (block, _) = self.held.swap_remove(which.index(self.held.len()));
                    allocator.free(block, cpu);
                    self.free.extend(block.frames().filter(|frame| !self.retired.contains(frame)));
                }
            }
            Step::Claim { first, number } => {
                let block = FrameBlock::new(frame(first >> number << number), order(number)).unwrap();
                self.operations += 1;
                let claimed = allocator.claim(block);
                prop_assert_eq!(claimed, self.is_free(block), "{}", block);
                if claimed {
                    self.hold(block, Movable)?;
                }
            }
            Step::Retire { number } => self.retire(allocator, frame(number))?,
            Step::Isolate { part } => {
                let part = part.index(allocator.parts());
                let pool = allocator.part(part).pool;
                let isolated = allocator.isolate(part);
                prop_assert_eq!(isolated, pool == BankPool::User && !self.isolated.contains(&part));
                if isolated {
                    self.isolated.insert(part);
                }
            }
            Step::Rejoin { part } => {
                let part = part.index(allocator.parts());
                allocator.rejoin(part);
                self.isolated.remove(&part);
            }
        }
        self.isolated.retain(|&part| allocator.part(part).pool == BankPool::User);
        Ok(())
    }

    fn retire(&mut self, allocator: &FullestBank<'_>, frame: Frame) -> Result<(), TestCaseError> {
        let held = self.held.iter().any(|(block, _)| block.contains(frame));
        match allocator.retire(frame) {
            FramePlace::Free(block) => prop_assert!(self.is_free(block) && block.contains(frame)),
            FramePlace::Held => prop_assert!(held && !self.retired.contains(&frame)),
            FramePlace::Retired => prop_assert!(self.retired.contains(&frame)),
            FramePlace::Absent => prop_assert!(!held && !self.free.contains(&frame)),
            FramePlace::Local => prop_assert!(false, "CPUs have no lists"),
        }
        if held || self.free.remove(&frame) {
            self.retired.insert(frame);
        }
        Ok(())
    }

    fn check(&self, allocator: &FullestBank<'_>) -> Result<(), TestCaseError> {
        let zones = (0..).map(ZoneIndex).take_while(|&zone| allocator.zone(zone).is_some());
        let free: u64 = zones.map(|zone| allocator.free_frames(zone)).sum();
        prop_assert_eq!(free, self.free.len() as u64);
        let mut used: BTreeMap<usize, u64> = BTreeMap::new();
        for part in 0..allocator.parts() {
            let state = allocator.part(part);
            let last = state.frames.last();
            let expected = self.free.range(state.frames.start()..=last).count() as u64;
            prop_assert_eq!(state.free, expected);
            used.insert(part, state.frames.count() - expected);
            prop_assert!(state.pool != BankPool::Offline || used[&part] == 0, "an offline bank holds a page");
            prop_assert!(!state.is_partial || state.pool == BankPool::Kernel);
            let company = self.company(allocator, part);
            let parts = || company.iter().map(|&other| allocator.part(other));
            prop_assert!(parts().all(|other| other.pool == state.pool), "a set is in one pool");
            let stays = parts().any(|other| other.is_partial || other.zone != state.zone);
            prop_assert!(!stays || state.pool == BankPool::Kernel, "a set in two zones, or with a partial bank");
        }
        for (block, migratetype) in &self.held {
            let part =
                (0..allocator.parts()).find(|&part| allocator.part(part).frames.contains(block.first())).unwrap();
            let kernels = allocator.part(part).pool == BankPool::Kernel;
            prop_assert!(*migratetype == Movable || kernels, "{} of the kernel lies among programs", block);
        }
        Ok(())
    }
}

/// A machine to compare with a set of frames.
struct Shape {
    zones: Vec<Zone>,
    cpus: u32,
    bank: u64,
    sets: BankSets<'static>,
    /// Frames that stay free before the first step; the others are held, each a block of its own.
    spare: Option<usize>,
    /// Random sequences of steps, unless `PROPTEST_CASES` says how many.
    cases: u32,
}

impl Shape {
    fn of(zones: Vec<Zone>) -> Self {
        Self { zones, cpus: CPUS, bank: BANK.frames(), sets: BankSets::plain(), spare: None, cases: 48 }
    }
}

/// No overlap, no loss, no refusal while a block is free, pools of whole banks, [Panwar15, 4.1.2 and 4.2].
fn compare(shape: &Shape) {
    let cases = std::env::var("PROPTEST_CASES").map_or(shape.cases, |text| text.parse().expect("a number"));
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let last = shape.zones.iter().map(|zone| zone.frames.last().number()).max().unwrap() + 100;
    let most = if shape.spare.is_some() { 40 } else { 700 };
    let steps = prop::collection::vec(step(shape.cpus, last, most), 1..40);
    let operations = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&steps, |steps| {
        let bank = BankSize::of_frames(shape.bank).expect("a size of banks");
        on_machine(&shape.zones, shape.cpus, (bank, &shape.sets), |allocator| {
            let mut model = Model::new(&shape.zones, bank, &shape.sets);
            while shape.spare.is_some_and(|spare| model.free.len() > spare) {
                let block = allocator.allocate(urgent(0, Movable)).expect("frames are free");
                model.hold(block, Movable)?;
            }
            let result = steps.iter().try_for_each(|&step| {
                model.step(allocator, step)?;
                model.check(allocator)
            });
            operations.set(operations.get() + model.operations);
            result
        })
    });
    println!("{} operations", operations.get());
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn it_does_what_a_set_of_frames_does() {
    compare(&Shape::of(vec![zone(0, Dma, 3, 1500), zone(0, Normal, 2048, 6144), zone(1, Normal, 8192, 3000)]));
}

#[test]
fn the_smallest_banks_do_what_a_set_of_frames_does() {
    compare(&Shape { bank: 1024, ..Shape::of(vec![zone(0, Normal, 0, 6 * 1024)]) });
}

#[test]
fn larger_banks_do_what_a_set_of_frames_does() {
    compare(&Shape { bank: 4096, ..Shape::of(vec![zone(0, Dma, 1000, 3000), zone(0, Normal, 4096, 3 * 4096)]) });
}

#[test]
fn the_largest_banks_do_what_a_set_of_frames_does() {
    compare(&Shape { bank: 65_536, cases: 4, ..Shape::of(vec![zone(0, Normal, 0, 2 * 65_536)]) });
}

#[test]
fn one_bank_for_two_cpus_does_what_a_set_of_frames_does() {
    compare(&Shape { bank: 1024, ..Shape::of(vec![zone(0, Normal, 0, 1024)]) });
}

#[test]
fn one_cpu_does_what_a_set_of_frames_does() {
    compare(&Shape { cpus: 1, ..Shape::of(vec![zone(0, Normal, 0, 3 * 2048)]) });
}

#[test]
fn eight_cpus_do_what_a_set_of_frames_does() {
    compare(&Shape { cpus: 8, ..Shape::of(vec![zone(0, Normal, 0, 4 * 2048)]) });
}

#[test]
fn nearly_full_memory_does_what_a_set_of_frames_does() {
    compare(&Shape { cpus: 8, spare: Some(8), ..Shape::of(vec![zone(0, Normal, 0, 4 * 2048)]) });
}

/// Pairs as in [Panwar15, table 4.1], three banks together, a pair in two zones, and one with the end of the memory.
#[test]
fn interleaved_banks_do_what_a_set_of_frames_does() {
    let sets = [vec![0, 2], vec![1, 3], vec![4, 6, 7], vec![5, 8], vec![9, 10]];
    let sets = BankSets::interleaved(sets, Vec::leak(vec![(0, 0); 11])).unwrap();
    let zones = vec![zone(0, Dma, 0, 8 * 1024), zone(0, Normal, 8 * 1024, 2 * 1024 + 600)];
    compare(&Shape { bank: 1024, sets, ..Shape::of(zones) });
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
