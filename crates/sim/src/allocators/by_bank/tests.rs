//! The walk beside a naive look at every frame.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use rampart_buddy::{
    AdaptiveBuddy, BankSets, FullestBank, FullestSlices, Migratetype, StealRule, Watermarks, ZoneKind,
};
use rampart_memory::{TestLifetime, Timestamp};

use super::*;
use crate::frames::{Frames, Holder};

const CPUS: u32 = 2;

fn zone(node: u32, kind: ZoneKind, first: u64, frames: u64) -> Zone {
    Zone { node: Node(node), kind, frames: FrameRange::new(Frame::new(first).unwrap(), frames).unwrap() }
}

/// Two nodes. The first bank of the first node is in two zones, the last bank of the second is partial.
fn zones() -> Vec<Zone> {
    vec![
        zone(0, ZoneKind::Dma, 16, 400),
        zone(0, ZoneKind::Normal, 416, 6 * 1024 - 416),
        zone(1, ZoneKind::Normal, 8 * 1024, 3 * 1024 + 200),
    ]
}

fn bank() -> BankSize {
    BankSize::of_frames(1024).unwrap()
}

fn lifetime() -> TestLifetime {
    TestLifetime::new(Duration::from_secs(60), Duration::from_secs(5)).unwrap()
}

/// Hands both allocators with pools to a check.
fn on_each(check: impl Fn(&mut dyn Checked)) {
    let adaptive = AdaptiveBuddy::new(&zones(), bank(), &BankSets::plain(), StealRule::MostFree).unwrap();
    check(&mut Rig::new(adaptive));
    let mut slices = FullestSlices::of(&zones(), CPUS, bank());
    let mut vacant = slices.vacant_zones();
    let fullest = FullestBank::new(&zones(), CPUS, bank(), &BankSets::plain(), slices.lend(&mut vacant)).unwrap();
    check(&mut Rig::new(fullest));
}

/// An allocator, and what the machine would know.
struct Rig<A> {
    banks: ByBank<A>,
    frames: Frames,
    held: Vec<Frame>,
    bad: BTreeSet<Frame>,
    now: Timestamp,
}

/// A rig with any allocator.
trait Checked {
    fn allocate(&mut self, node: u32, cpu: u32) -> Option<Frame>;
    fn free(&mut self, at: usize, cpu: u32);
    fn pass(&mut self, seconds: u64);
    /// Takes blocks as a machine does, checks each of them, and gives them back, tested.
    fn test_some(&mut self, list: FreeList, most: usize, verdict: Verdict) -> usize;
    fn check(&mut self);
    /// The frames of a node in a pool, and how many of them are free; all without the walk's knowledge.
    fn pool(&self, node: Node, pool: BankPool) -> (u64, u64);
    fn high(&self, node: Node) -> u64;
    /// Free frames without a good test in the banks that are online, in blocks of exactly this order.
    fn stale_blocks(&self, node: Node, pool: BankPool, order: BlockOrder) -> BTreeSet<FrameBlock>;
    fn pools(&self) -> Vec<BankPool>;
    fn drawn(&mut self) -> Vec<DrawnBlocks>;
    fn place(&self, frame: Frame) -> FramePlace;
    fn take_free(&mut self, frame: Frame, chosen: Frame) -> FrameTake;
    fn tested(&self, frame: Frame) -> Tested;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// The first frame of each block is bad.
    FirstIsBad,
    NotTested,
}

impl<A: PageAllocator + BankPools> Rig<A> {
    fn new(allocator: A) -> Self {
        Self {
            banks: ByBank::new(allocator, &zones(), bank()),
            frames: Frames::new(12 * 1024),
            held: Vec::new(),
            bad: BTreeSet::new(),
            now: Timestamp::from_micros(1 << 40),
        }
    }

    fn settle(&mut self) {
        while let Some(range) = self.banks.gone_offline() {
            self.frames.forget_range(range);
        }
    }

    fn is_fresh(&self, frame: Frame) -> bool {
        lifetime().is_fresh(self.frames.get(frame).tested, self.now)
    }

    fn frames_of(&self, node: Node, pool: BankPool) -> Vec<Frame> {
        let node_of = |part: &rampart_buddy::BankPart| zones()[part.zone.0].node;
        let parts = (0..self.banks.allocator.parts()).map(|part| self.banks.allocator.part(part));
        let parts = parts.filter(|part| node_of(part) == node && part.pool == pool);
        parts
            .flat_map(|part| (0..part.frames.count()).map(move |at| part.frames.start().checked_add(at).unwrap()))
            .collect()
    }
}

impl<A: PageAllocator + BankPools> Checked for Rig<A> {
    fn allocate(&mut self, node: u32, cpu: u32) -> Option<Frame> {
        let (order, migratetype) = (BlockOrder::ZERO, Migratetype::Movable);
        let request = Request { order, migratetype, cpu: Cpu(cpu), node: Node(node), urgent: false };
        let frame = self.banks.allocate(request)?.first();
        self.settle();
        assert_eq!(self.frames.get(frame).holder, Holder::Nobody, "{frame} is given once");
        self.frames.get_mut(frame).holder = Holder::Program { program: 0, slot: 0, locked: false };
        self.held.push(frame);
        Some(frame)
    }

    fn free(&mut self, at: usize, cpu: u32) {
        if self.held.is_empty() {
            return;
        }
        let frame = self.held.swap_remove(at % self.held.len());
        self.frames.get_mut(frame).holder = Holder::Nobody;
        self.banks.free(FrameBlock::of(frame), Cpu(cpu), Tested::NEVER, End::Front);
        self.settle();
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
    }

    fn test_some(&mut self, list: FreeList, most: usize, verdict: Verdict) -> usize {
        let before = self.pools();
        let allowed = [BankPool::User, BankPool::Kernel]
            .map(|pool| self.pool(list.node, pool).1.saturating_sub(self.high(list.node)) / list.order.frames());
        let mut blocks = Vec::new();
        let work =
            self.banks.find_stale(list, most, &mut blocks, &FrameTests::new(&self.frames, Some(lifetime()), self.now));
        assert!(work.looked_at <= 2 * (MOST_LOOKED_AT + BlockOrder::MAX.frames()), "{work:?}");
        for block in &blocks {
            assert_eq!(self.banks.allocator.place(block.first()), FramePlace::Free(*block), "a free block, whole");
        }
        blocks.retain(|&block| self.banks.claim(block));
        let tests = FrameTests::new(&self.frames, Some(lifetime()), self.now);
        let cut = self.banks.cut_stale(list, most - blocks.len(), &tests);
        blocks.extend(cut);
        assert!(
            blocks.len() <= most && blocks.len() as u64 <= allowed.iter().sum::<u64>(),
            "{} of {most}",
            blocks.len()
        );
        assert_eq!(self.pools(), before, "no bank is opened or closed for a test");
        for block in &blocks {
            assert_eq!(block.order(), list.order);
            let of_node = [BankPool::User, BankPool::Kernel].map(|pool| self.frames_of(list.node, pool));
            let is_there = |frame| of_node.iter().any(|frames| frames.contains(&frame));
            assert!(block.frames().all(is_there), "{block} is on the node and online");
            assert!(block.frames().any(|frame| !self.is_fresh(frame)), "{block} has a good test");
            for frame in block.frames() {
                assert_eq!(self.frames.get(frame).holder, Holder::Nobody, "{frame} of {block} is free");
                assert!(!self.bad.contains(&frame), "{frame} is retired");
                self.frames.get_mut(frame).holder = Holder::Tester;
            }
        }
        for &block in &blocks {
            for frame in block.frames() {
                let entry = self.frames.get_mut(frame);
                entry.holder = Holder::Nobody;
                entry.tested = if verdict == Verdict::NotTested { entry.tested } else { Tested::at(self.now) };
            }
            if verdict == Verdict::FirstIsBad {
                self.frames.get_mut(block.first()).holder = Holder::Failed;
                self.banks.retire(block.first());
                self.bad.insert(block.first());
            }
            self.banks.put(block, Tested::NEVER, End::Front);
            self.settle();
        }
        blocks.len()
    }

    fn check(&mut self) {
        self.banks.check(&FrameTests::new(&self.frames, Some(lifetime()), self.now));
    }

    fn pool(&self, node: Node, pool: BankPool) -> (u64, u64) {
        let frames = self.frames_of(node, pool);
        let free = frames.iter().filter(|&&frame| self.frames.get(frame).holder == Holder::Nobody).count();
        (frames.len() as u64, free as u64)
    }

    fn high(&self, node: Node) -> u64 {
        let all = zones().iter().map(|zone| zone.frames.count()).sum();
        zones().iter().filter(|zone| zone.node == node).map(|zone| Watermarks::of(zone.frames.count(), all).high).sum()
    }

    fn stale_blocks(&self, node: Node, pool: BankPool, order: BlockOrder) -> BTreeSet<FrameBlock> {
        let frames = self.frames_of(node, pool).into_iter().filter(|&frame| !self.is_fresh(frame));
        let blocks = frames.filter_map(|frame| match self.banks.allocator.place(frame) {
            FramePlace::Free(block) => Some(block),
            _ => None,
        });
        blocks.filter(|block| block.order() == order).collect()
    }

    fn pools(&self) -> Vec<BankPool> {
        (0..self.banks.allocator.parts()).map(|part| self.banks.allocator.part(part).pool).collect()
    }

    fn drawn(&mut self) -> Vec<DrawnBlocks> {
        self.banks.drawn()
    }

    fn place(&self, frame: Frame) -> FramePlace {
        self.banks.place(frame)
    }

    fn take_free(&mut self, frame: Frame, chosen: Frame) -> FrameTake {
        let tests = FrameTests::new(&self.frames, Some(lifetime()), self.now);
        self.banks.take_free(frame, chosen, &tests)
    }

    fn tested(&self, frame: Frame) -> Tested {
        self.frames.get(frame).tested
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate { node: u32, cpu: u32, count: usize },
    Free { at: usize, cpu: u32, count: usize },
    Test { node: u32, order: u8, most: usize, verdict: Verdict },
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let verdict = prop_oneof![8 => Just(Verdict::Good), 1 => Just(Verdict::FirstIsBad), 1 => Just(Verdict::NotTested)];
    let step = prop_oneof![
        3 => (0_u32..2, 0..CPUS, 1_usize..700).prop_map(|(node, cpu, count)| Step::Allocate { node, cpu, count }),
        3 => (any::<usize>(), 0..CPUS, 1_usize..700).prop_map(|(at, cpu, count)| Step::Free { at, cpu, count }),
        6 => (0_u32..2, 0_u8..11, 1_usize..300, verdict)
            .prop_map(|(node, order, most, verdict)| Step::Test { node, order, most, verdict }),
        1 => (1_u64..60).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..40)
}

fn run(rig: &mut dyn Checked, steps: &[Step]) {
    for &step in steps {
        match step {
            Step::Allocate { node, cpu, count } => {
                for _ in 0..count {
                    rig.allocate(node, cpu);
                }
            }
            Step::Free { at, cpu, count } => (0..count).for_each(|_| rig.free(at, cpu)),
            Step::Test { node, order, most, verdict } => {
                let list = FreeList { node: Node(node), order: BlockOrder::new(order).unwrap() };
                rig.test_some(list, most, verdict);
            }
            Step::Pass(seconds) => rig.pass(seconds),
        }
        rig.check();
    }
}

/// Tests a list as often as the bound says; then no block of it without a good test is left, in any pool of which
/// testers may take as many frames as a call does.
fn all_are_found(rig: &mut dyn Checked, list: FreeList, most: usize) {
    let pools = [BankPool::User, BankPool::Kernel];
    let enough = |rig: &dyn Checked, pool: BankPool| {
        rig.pool(list.node, pool).1 >= rig.high(list.node) + most as u64 * list.order.frames()
    };
    let calls = pools.map(|pool| {
        let (frames, _) = rig.pool(list.node, pool);
        let larger = BlockOrder::all().filter(|&order| order >= list.order);
        let stale: u64 = larger
            .flat_map(|order| rig.stale_blocks(list.node, pool, order))
            .map(|block| block.count() / list.order.frames())
            .sum();
        frames.div_ceil(MOST_LOOKED_AT) + stale.div_ceil(most as u64) + 1
    });
    for _ in 0..calls.iter().sum() {
        rig.test_some(list, most, Verdict::Good);
    }
    for pool in pools {
        let left = rig.stale_blocks(list.node, pool, list.order);
        assert!(left.is_empty() || !enough(rig, pool), "{list:?}, {pool:?}: {left:?} is left after {calls:?} calls");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever happens, a block that is found is free, without a good test, on the node, of the order, and in a bank
    /// that is online; no bank is opened for it; the tests of a bank that goes offline are forgotten; and after as many
    /// calls as the bound says, none is left.
    #[test]
    fn the_walk_finds_what_a_look_at_every_frame_finds(
        steps in steps(), node in 0_u32..2, order in 0_u8..11, most in 1_usize..200,
    ) {
        on_each(|rig| {
            run(rig, &steps);
            all_are_found(rig, FreeList { node: Node(node), order: BlockOrder::new(order).unwrap() }, most);
            rig.check();
        });
    }
}

const SINGLE: FreeList = FreeList { node: Node(0), order: BlockOrder::ZERO };

#[test]
fn memory_that_is_offline_is_not_tested() {
    on_each(|rig| {
        for list in BlockOrder::all().map(|order| FreeList { node: Node(1), order }) {
            rig.test_some(list, 4096, Verdict::Good);
        }
        let tested = |frame: u64| rig.tested(Frame::new(frame).unwrap()) != Tested::NEVER;
        assert!((8 * 1024..11 * 1024).all(|frame| !tested(frame)), "whole banks are offline");
        assert!((11 * 1024..11 * 1024 + 200).any(tested), "the partial bank is online");
    });
}

#[test]
fn the_programs_banks_are_tested_before_the_kernels() {
    on_each(|rig| {
        rig.allocate(0, 0).unwrap();
        rig.test_some(SINGLE, 300, Verdict::Good);
        let at = rig.pools().iter().position(|pool| *pool == BankPool::User).expect("a bank was opened");
        let pools = rig.pools();
        // The first two parts are those of the first bank.
        let first = (at as u64 - 1) * 1024;
        let tested = |frames: std::ops::Range<u64>| {
            frames.filter(|&frame| rig.tested(Frame::new(frame).unwrap()) != Tested::NEVER).count()
        };
        assert_eq!(tested(first..first + 1024), 300, "{pools:?}");
        assert_eq!(tested(0..first) + tested(first + 1024..12 * 1024), 0);
    });
}

#[test]
fn a_bank_that_goes_offline_has_no_good_test_when_it_comes_back() {
    on_each(|rig| {
        let frame = rig.allocate(0, 0).unwrap();
        rig.test_some(SINGLE, 200, Verdict::Good);
        let bank = frame.number() / 1024 * 1024;
        let tested = |rig: &dyn Checked| {
            (bank..bank + 1024).filter(|&frame| rig.tested(Frame::new(frame).unwrap()) != Tested::NEVER).count()
        };
        assert_eq!(tested(rig), 200);
        rig.free(0, 0);
        rig.check();
        assert_eq!(rig.allocate(0, 0), Some(frame), "it is opened again");
        assert_eq!(tested(rig), 0);
    });
}

/// Else a test would make the next request open a bank.
#[test]
fn testers_leave_the_programs_banks_a_reserve() {
    on_each(|rig| {
        let high = usize::try_from(rig.high(Node(0))).unwrap();
        for _ in 0..1024 - high {
            rig.allocate(0, 0).unwrap();
        }
        let kernels = usize::try_from(rig.pool(Node(0), BankPool::Kernel).1).unwrap();
        assert_eq!(rig.test_some(SINGLE, 4096, Verdict::NotTested), (kernels - high).min(4096));
        rig.free(0, 0);
        rig.free(0, 0);
        assert_eq!(rig.test_some(SINGLE, 4096, Verdict::NotTested), (kernels - high).min(4096) + 2);
    });
}

/// As the lists of a buddy system show it: half of the requests split a block of two frames or more.
#[test]
fn a_frame_draws_the_block_that_it_was_cut_from() {
    on_each(|rig| {
        let mut counts = [0_u64; BlockOrder::COUNT];
        for _ in 0..1024 {
            rig.allocate(0, 0).unwrap();
            for drawn in rig.drawn() {
                assert_eq!(drawn.node, Node(0));
                counts[drawn.order.index()] += drawn.blocks;
            }
        }
        assert_eq!(
            counts,
            [0, 256, 128, 64, 32, 16, 8, 4, 2, 1, 1],
            "a bank of 1,024 frames, from one end to the other"
        );
        assert!(rig.drawn().is_empty(), "each is counted once");
    });
}

#[test]
fn a_tested_frame_comes_from_a_bank_of_the_same_pool() {
    on_each(|rig| {
        let chosen = rig.allocate(0, 0).unwrap();
        let near = Frame::new(chosen.number() ^ 1).unwrap();
        let (kernels, offline) = (Frame::new(500).unwrap(), Frame::new(8 * 1024).unwrap());
        assert!(matches!(rig.place(kernels), FramePlace::Free(_)) && matches!(rig.place(offline), FramePlace::Free(_)));
        assert_eq!(rig.take_free(kernels, chosen), FrameTake::No, "it is the kernel's");
        assert_eq!(rig.take_free(offline, chosen), FrameTake::No, "it is offline");
        assert_eq!(rig.take_free(near, chosen), FrameTake::Taken);
        assert_eq!(rig.take_free(near, chosen), FrameTake::No, "it is held");
    });
}
