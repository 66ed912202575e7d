//! The source over a fake kernel: the controller's suite, and the guarantee for frames in use.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rampart_linux::FrameClass;
use rampart_linux::kernel_module::{ClaimWay, KernelFreeList};
use rampart_memory::{Fidelity, TestBench};

use super::block::FrameView;
use super::kernel::TypeDemand;
use super::*;
use crate::control::PolicyName;
use crate::control::dispatch::Tester;
use crate::control::policy::Bandwidth;
use crate::control::replenish::FromDemand;
use crate::control::suite::{self, SimulatedSource};
use crate::control::{ControlSettings, Diagnostic};
use crate::machine::PAGEBLOCK;

/// Frames of the fake machine: 3 stretches, and a part of one.
const FRAMES: u64 = 3 * STRETCH + 3 * PAGEBLOCK;

/// The memory of a fake machine, whose programs take and free frames.
struct FakeMemory {
    views: Vec<FrameView>,
    /// Frames whose content stays where it is.
    pinned: BTreeSet<u64>,
    broken: BTreeSet<u64>,
    now: Timestamp,
    random: u64,
    counters: FrameDemand,
    online: u64,
    /// How often the content of each frame was moved away.
    moved: BTreeMap<u64, u64>,
    /// When what is in a frame was moved there.
    arrived: BTreeMap<u64, Timestamp>,
    /// Pages that were moved twice within δ.
    twice: u64,
    refuses: bool,
    lists_tested: u64,
    /// Frames that came online and wait for their test.
    waiting: Vec<u64>,
}

impl FakeMemory {
    fn new(now: Timestamp) -> Self {
        let view = |number: u64| FrameView {
            // A quarter is used by programs; the last block has a page of the kernel.
            class: match number {
                number if number == FRAMES - 7 => FrameClass::Slab,
                number if number % 8192 < 2048 => FrameClass::Anonymous,
                _ => FrameClass::Free,
            },
            tested: Tested::NEVER,
        };
        Self {
            views: (0..FRAMES).map(view).collect(),
            pinned: BTreeSet::new(),
            broken: BTreeSet::new(),
            now,
            random: 7,
            counters: FrameDemand::default(),
            online: FRAMES,
            moved: BTreeMap::new(),
            arrived: BTreeMap::new(),
            twice: 0,
            refuses: false,
            lists_tested: 0,
            waiting: Vec::new(),
        }
    }

    /// A number below `most` (splitmix64).
    fn below(&mut self, most: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    fn view(&mut self, number: u64) -> &mut FrameView {
        &mut self.views[usize::try_from(number).unwrap()]
    }

    fn allocate(&mut self, number: u64) {
        let (now, view) = (self.now, self.view(number));
        view.class = FrameClass::Anonymous;
        let fresh = suite::settings().lifetime.is_fresh(view.tested, now);
        assert!(!self.broken.contains(&number) || self.view(number).tested == Tested::NEVER, "a bad frame is used");
        *(if fresh { &mut self.counters.allocated_tested } else { &mut self.counters.allocated_untested }) += 1;
    }

    /// Programs exchange some frames.
    fn churn(&mut self, frames: u64) {
        for _ in 0..frames {
            let (taken, freed) = (self.below(FRAMES - PAGEBLOCK), self.below(FRAMES - PAGEBLOCK));
            if self.view(taken).class == FrameClass::Free {
                self.allocate(taken);
            }
            if self.view(freed).class == FrameClass::Anonymous && !self.pinned.contains(&freed) {
                self.view(freed).class = FrameClass::Free;
                self.arrived.remove(&freed);
            }
        }
    }

    fn claim(&mut self, piece: ChosenPiece) -> PieceOutcome {
        let numbers = piece.frames.start().number()..=piece.frames.last().number();
        let blocks = numbers.start() / PAGEBLOCK * PAGEBLOCK..(numbers.end() / PAGEBLOCK + 1) * PAGEBLOCK;
        let stays =
            |number: u64| self.views.get(usize::try_from(number).unwrap()).is_some_and(|view| !view.may_be_tested());
        let used: Vec<u64> =
            numbers.filter(|&number| self.views[usize::try_from(number).unwrap()].class != FrameClass::Free).collect();
        let blocked = blocks.into_iter().any(stays) || used.iter().any(|number| self.pinned.contains(number));
        if self.refuses || blocked || (piece.way == ClaimWay::Free && !used.is_empty()) {
            return PieceOutcome::Refused;
        }
        used.iter().for_each(|&number| self.empty(number, piece.frames));
        PieceOutcome::Claimed { moved: used.len() as u64 }
    }

    /// Moves the content of a frame to one outside of a claim.
    fn empty(&mut self, number: u64, claim: FrameRange) {
        self.view(number).class = FrameClass::Free;
        *self.moved.entry(number).or_default() += 1;
        let delta = suite::settings().lifetime.delta();
        self.twice += u64::from(self.arrived.remove(&number).is_some_and(|at| self.now.since(at) < delta));
        loop {
            let to = self.below(FRAMES - PAGEBLOCK);
            if self.view(to).class == FrameClass::Free && !claim.contains(Frame::new(to).unwrap()) {
                self.allocate(to);
                self.arrived.insert(to, self.now);
                break;
            }
        }
    }

    /// Takes pages one by one; returns those that it had.
    fn claim_pages(&mut self, pages: &[Frame]) -> Vec<Frame> {
        let mut had = Vec::new();
        for &page in pages {
            let number = page.number();
            let can_be = self.view(number).class == FrameClass::Anonymous && !self.pinned.contains(&number);
            if can_be && !self.refuses {
                self.empty(number, FrameRange::new(page, 1).unwrap());
                had.push(page);
            }
        }
        had
    }

    /// Frames that come online wait until they are tested.
    fn plug(&mut self, frames: std::ops::Range<u64>) {
        self.waiting.extend(frames.clone());
        frames.for_each(|number| self.view(number).class = FrameClass::Offline);
    }

    /// Takes a block of what waits.
    fn claim_new(&mut self) -> Vec<Frame> {
        let block = self.waiting.drain(..self.waiting.len().min(1024)).collect::<Vec<_>>();
        block.iter().for_each(|&number| self.view(number).class = FrameClass::Free);
        block.into_iter().filter_map(Frame::new).collect()
    }

    /// Tests what the kernel's lists have beside pages that cannot be moved.
    fn test_lists(&mut self) {
        self.lists_tested += 1;
        for number in 0..FRAMES {
            let is_free = self.view(number).class == FrameClass::Free && !self.broken.contains(&number);
            if is_free && !self.can_be_emptied(number / PAGEBLOCK) {
                self.view(number).tested = Tested::at(self.now);
            }
        }
    }

    fn can_be_emptied(&self, block: u64) -> bool {
        let numbers = block * PAGEBLOCK..(block + 1) * PAGEBLOCK;
        let stays = |number: u64| !self.views[usize::try_from(number).unwrap()].may_be_tested();
        self.pinned.range(numbers.clone()).next().is_none() && !numbers.into_iter().any(stays)
    }

    /// Pages that can be moved and whose test has ended. In blocks that cannot be emptied, free frames are tested
    /// apart, and may come into use with an old test: their pages are found a moment later.
    fn late(&self) -> usize {
        let bound = suite::settings().lifetime;
        let moment = LIFETIME / 2;
        let is_late = |(number, view): &(u64, &FrameView)| {
            let is_used = view.class == FrameClass::Anonymous && !self.pinned.contains(number);
            let expired = is_used && bound.expiry(view.tested) < self.now;
            expired && (self.can_be_emptied(number / PAGEBLOCK) || bound.expiry(view.tested).after(moment) < self.now)
        };
        (0..).zip(&self.views).filter(is_late).count()
    }
}

#[derive(Clone)]
struct FakeKernel(Rc<RefCell<FakeMemory>>);

struct FakeRegion(ChosenRequest, PieceOutcome);

impl FakeRegion {
    fn frames(&self) -> Vec<Frame> {
        match &self.0 {
            ChosenRequest::Frames(frames, _) => frames.frames().collect(),
            ChosenRequest::Pages(pages) => pages.clone(),
            ChosenRequest::List(_) | ChosenRequest::AtHand(..) | ChosenRequest::New(_) | ChosenRequest::Demanded(_) => {
                Vec::new()
            }
        }
    }
}

impl FrameKernel for FakeKernel {
    type Region = FakeRegion;

    fn online(&self) -> Vec<(Node, FrameRange)> {
        vec![(Node(0), FrameRange::new(Frame::new(0).unwrap(), self.0.borrow().online).unwrap())]
    }

    fn look(&self, frames: FrameRange) -> Vec<FrameView> {
        let range =
            usize::try_from(frames.start().number()).unwrap()..=usize::try_from(frames.last().number()).unwrap();
        self.0.borrow().views[range].to_vec()
    }

    fn demand(&self) -> Vec<TypeDemand> {
        vec![TypeDemand { node: Node(0), migratetype: None, demand: self.0.borrow().counters }]
    }

    fn set_lifetime(&self, bound: TestLifetime) {
        assert_eq!(bound, suite::settings().lifetime);
    }

    fn free_lists(&self, node: Node) -> Vec<KernelFreeList> {
        KernelFreeList::of_node(node).take(1).collect()
    }

    fn waiting(&self) -> Vec<(Node, u64)> {
        vec![(Node(0), self.0.borrow().waiting.len() as u64)]
    }

    fn region(&self, request: ChosenRequest) -> FakeRegion {
        FakeRegion(request, PieceOutcome::NotTried)
    }

    fn outcome(&self, region: &FakeRegion) -> (ChosenRequest, PieceOutcome) {
        (region.0.clone(), region.1)
    }

    fn count(&self, region: &FakeRegion) -> u64 {
        region.frames().len() as u64
    }

    fn renew(&self) {}

    fn claimed(&self) -> Bytes {
        Bytes::ZERO
    }
}

impl SimulatedSource for KernelFrames<FakeKernel> {
    fn advance_to(&mut self, now: Timestamp) {
        let mut memory = self.kernel.0.borrow_mut();
        memory.now = now;
        memory.churn(100);
    }

    fn frames_of(&self, block: &Self::Block) -> Vec<Frame> {
        block.region.frames()
    }
}

impl TestBench<Step<FakeRegion>> for FakeKernel {
    fn test(&mut self, step: &mut Step<FakeRegion>, _: Fidelity) -> BlockVerdict {
        let mut memory = self.0.borrow_mut();
        let (outcome, frames) = match &step.region.0 {
            &ChosenRequest::Frames(frames, way) => {
                (memory.claim(ChosenPiece { frames, way }), frames.frames().collect())
            }
            ChosenRequest::Pages(pages) => {
                let had = memory.claim_pages(pages);
                let moved = had.len() as u64;
                (if had.is_empty() { PieceOutcome::Refused } else { PieceOutcome::Claimed { moved } }, had)
            }
            ChosenRequest::New(_) => (PieceOutcome::Claimed { moved: 0 }, memory.claim_new()),
            ChosenRequest::List(_) | ChosenRequest::AtHand(..) | ChosenRequest::Demanded(_) => {
                memory.test_lists();
                (PieceOutcome::Refused, Vec::new())
            }
        };
        step.region.1 = outcome;
        if !matches!(outcome, PieceOutcome::Claimed { .. }) {
            return BlockVerdict::NotTested;
        }
        let (now, mut bad) = (memory.now, Vec::new());
        for &frame in &frames {
            let number = frame.number();
            memory.view(number).tested = Tested::at(now);
            if memory.broken.contains(&number) {
                memory.view(number).class = FrameClass::Poisoned;
                bad.push(frame);
            }
        }
        step.frames = frames.into_iter().map(Some).collect();
        if bad.is_empty() { BlockVerdict::Good } else { BlockVerdict::Failed(bad) }
    }
}

const START: Timestamp = Timestamp::from_micros(1 << 50);

fn frames(kernel: &FakeKernel) -> KernelFrames<FakeKernel> {
    KernelFrames::new(kernel.clone(), suite::settings().lifetime, [], START)
}

fn kernel() -> FakeKernel {
    FakeKernel(Rc::new(RefCell::new(FakeMemory::new(START))))
}

#[test]
fn it_keeps_the_invariants_of_every_policy() {
    for name in PolicyName::ALL {
        let kernel = kernel();
        let broken = [5, 3000, 9000, 10_000, 12_300, FRAMES - 1];
        kernel.0.borrow_mut().broken.extend(broken);
        suite::check_invariants(frames(&kernel), &mut kernel.clone(), name);
        let memory = kernel.0.borrow_mut();
        let found = memory.views.iter().filter(|view| view.class == FrameClass::Poisoned).count();
        let reachable = broken.len() - 1;
        assert_eq!(found, if name == PolicyName::OnDemand { 0 } else { reachable }, "{name:?}");
    }
}

/// A controller over the fake machine, driven every 100 ms.
struct Driven {
    kernel: FakeKernel,
    diagnostic: Diagnostic<KernelFrames<FakeKernel>>,
    steps: u64,
}

impl Driven {
    fn new(kernel: FakeKernel) -> Self {
        let settings: ControlSettings = suite::settings();
        let policy = PolicyName::Adaptive.policy(settings.limits);
        let rule =
            |_| -> Box<dyn crate::control::replenish::Replenish + Send> { Box::new(FromDemand::new(settings.alpha)) };
        let bandwidth = Bandwidth { at_fidelity_1: 20_000.0 };
        let diagnostic = Diagnostic::new(frames(&kernel), settings, policy, rule, &[Node(0)], bandwidth, START);
        Self { kernel, diagnostic, steps: 0 }
    }

    /// Runs for so long; `checked` is called once a second.
    fn run(&mut self, time: Duration, mut checked: impl FnMut(&mut Self)) {
        for _ in 0..time.as_millis() / 100 {
            self.steps += 1;
            let now = START.after(Duration::from_millis(100 * self.steps));
            self.diagnostic.source_mut().advance_to(now);
            self.diagnostic.tick(now);
            let mut frames = 2000;
            while frames > 0
                && let Some(mut work) = self.diagnostic.next(Tester(0))
            {
                let (_, size) = self.diagnostic.source().shape(&work.block);
                frames -= frames.min(size * u64::from(work.fidelity.backgrounds()));
                let verdict = self.kernel.test(&mut work.block, work.fidelity);
                self.diagnostic.finish(work.block, verdict, now);
            }
            if self.steps.is_multiple_of(10) {
                checked(self);
            }
        }
    }

    fn memory(&self) -> std::cell::RefMut<'_, FakeMemory> {
        self.kernel.0.borrow_mut()
    }
}

const LIFETIME: Duration = Duration::from_secs(60);

#[test]
fn for_20_lifetimes_no_frame_in_use_that_can_be_moved_goes_without_a_test() {
    let kernel = kernel();
    kernel.0.borrow_mut().pinned.extend([100, 10_000, FRAMES - 9]);
    // Beside the page of the kernel.
    for number in FRAMES - 50..FRAMES - 8 {
        kernel.0.borrow_mut().view(number).class = FrameClass::Anonymous;
    }
    let mut driven = Driven::new(kernel);
    driven.run(LIFETIME, |_| {});
    let before: u64 = driven.memory().moved.values().sum();
    driven.run(20 * LIFETIME, |driven| {
        assert_eq!(driven.memory().late(), 0, "after {} s", driven.steps / 10);
        assert_eq!(driven.diagnostic.source().guarantee_now().missed, 0);
    });
    let used = driven.memory().views.iter().filter(|view| view.class == FrameClass::Anonymous).count() as u64;
    let moved = driven.memory().moved.values().sum::<u64>() - before;
    assert!(moved < 20 * used * 7 / 4, "{moved} moves of {used} pages in 20 lifetimes");
    let twice = driven.memory().twice;
    assert!(twice * 4 < moved, "{twice} of {moved} moves within δ; a stretch is a third of this machine");
    assert_eq!([100, FRAMES - 9].map(|pinned| driven.memory().moved.get(&pinned).copied()), [None; 2], "they stay");
    let lists = driven.memory().lists_tested;
    assert!((40..50).contains(&lists), "{lists} tests of the free list in 21 lifetimes: two a window");
    let refused = driven.diagnostic.source().guarantee_now().refused;
    assert!((3..20).contains(&refused), "{refused} pages are known to be late, three of them pinned");
}

#[test]
fn free_memory_is_tested_within_a_lifetime_and_before_what_is_used_moves() {
    let mut driven = Driven::new(kernel());
    driven.run(LIFETIME / 5, |_| {});
    let memory = driven.memory();
    assert_eq!(memory.moved.len(), 0);
    drop(memory);
    driven.run(LIFETIME * 4 / 5, |_| {});
    let memory = driven.memory();
    let free = memory.views.iter().take(usize::try_from(FRAMES - PAGEBLOCK).unwrap());
    let untested = free.filter(|view| view.class == FrameClass::Free && view.tested == Tested::NEVER).count();
    assert_eq!(untested, 0);
    let (tested, untested) = (memory.counters.allocated_tested, memory.counters.allocated_untested);
    drop(memory);
    driven.run(5 * LIFETIME, |_| {});
    let memory = driven.memory();
    let (tested, untested) = (memory.counters.allocated_tested - tested, memory.counters.allocated_untested - untested);
    assert!(untested * 50 < tested, "{untested} of {tested} are allocated without a valid test");
}

#[test]
fn a_round_ends_when_all_that_can_be_tested_was() {
    let mut driven = Driven::new(kernel());
    let ended = |driven: &mut Driven| {
        let news = std::mem::take(&mut driven.diagnostic.source_mut().news);
        news.iter().filter(|news| matches!(news, PoolNews::SweepEnded(_))).count()
    };
    driven.run(LIFETIME / 3, |_| {});
    assert_eq!(ended(&mut driven), 0, "used memory was not tested yet");
    driven.run(LIFETIME, |_| {});
    let ended = ended(&mut driven);
    assert!((1..=5).contains(&ended), "{ended}: at most four times a window");
}

#[test]
fn memory_that_comes_online_is_found_and_erring_frames_are_tested_first() {
    let kernel = kernel();
    kernel.0.borrow_mut().online = STRETCH;
    let mut driven = Driven::new(kernel);
    driven.run(LIFETIME, |_| {});
    let tested = |driven: &Driven, number| driven.memory().view(number).tested;
    assert!(tested(&driven, 10) != Tested::NEVER && tested(&driven, STRETCH + 9) == Tested::NEVER);
    driven.memory().online = FRAMES;
    let now = driven.memory().now;
    driven.diagnostic.source_mut().find_memory(now);
    let erring = FrameRange::new(Frame::new(2 * STRETCH).unwrap(), 512).unwrap();
    driven.diagnostic.erring(vec![erring]);
    driven.run(Duration::from_secs(1), |_| {});
    assert!(tested(&driven, 2 * STRETCH) >= Tested::at(now), "within a second");
    driven.run(LIFETIME, |_| {});
    assert!(tested(&driven, STRETCH + 9) != Tested::NEVER);
    let seen = driven.diagnostic.source().ages.seen();
    driven.memory().views[..512].fill(FrameView { class: FrameClass::Absent, tested: Tested::NEVER });
    driven.run(LIFETIME, |_| {});
    assert_eq!(driven.diagnostic.source().ages.seen(), seen - 512, "what goes offline is not reached any longer");
}

#[test]
fn memory_that_comes_online_is_tested_within_seconds_and_before_its_first_use() {
    let kernel = kernel();
    kernel.0.borrow_mut().broken.insert(STRETCH + 5);
    let mut driven = Driven::new(kernel);
    driven.run(LIFETIME, |_| {});
    let now = driven.memory().now;
    driven.memory().plug(STRETCH..2 * STRETCH);
    driven.run(Duration::from_secs(5), |_| {});
    let mut memory = driven.memory();
    assert!(memory.waiting.is_empty());
    let plugged = memory.views.iter().skip(usize::try_from(STRETCH).unwrap()).take(usize::try_from(STRETCH).unwrap());
    assert!(plugged.clone().all(|view| view.tested >= Tested::at(now)), "the bad one too");
    assert_eq!(memory.view(STRETCH + 5).class, FrameClass::Poisoned);
}

#[test]
fn a_kernel_that_refuses_all_is_asked_seldom() {
    let kernel = kernel();
    kernel.0.borrow_mut().refuses = true;
    let mut driven = Driven::new(kernel);
    driven.run(LIFETIME, |_| {});
    let counts = driven.diagnostic.counts();
    assert_eq!(counts.tested, 0);
    let blocks = FRAMES / PAGEBLOCK;
    assert!(counts.taken < 60 * 3 * blocks, "{} claims of {blocks} blocks in a minute", counts.taken);
    assert!(!driven.diagnostic.source().is_late(driven.memory().now), "what is refused is no reason to hurry");
}
