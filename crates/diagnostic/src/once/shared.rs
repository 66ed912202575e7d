//! State that the testers and the watching thread share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rampart_linux::{Block, Pinning};
use rampart_march::execute::limit::Limit;
use rampart_memory::fault::Emulator;
use rampart_memory::{Bytes, Frame};

use super::prepare::TestPreparation;
use super::{TestObserver, TestProgress, TestRequest};
use crate::machine::MachineUnderTest;
use crate::machine::reserve::{Advice, MemoryReserve};
use crate::once::schedule::{BlockSchedule, Next};
use crate::testing::frames::stayed;
use crate::testing::injected::{InjectedFaults, InjectedTally};
use crate::testing::publishing::{Publisher, lock};
use crate::testing::record::TestRecorder;
use crate::testing::seen::FrameSet;

/// A claimed block that is not under test.
#[derive(Debug)]
pub struct HeldBlock {
    /// Its index in the test.
    pub index: u64,
    pub block: Block,
    /// Its emulated faults.
    pub planted: InjectedFaults,
    /// Their emulator, from the first stage of a pass to the last.
    pub emulator: Option<Emulator>,
    /// Its pages on bad frames that could not be retired.
    pub bad: Vec<u64>,
    /// The frames of its pages at the beginning of the pass; `None` also for those that were retired since.
    pub frames: Vec<Option<Frame>>,
    /// Its pages whose frames were retired since the pass began.
    pub retired: BTreeSet<u64>,
    /// The next stage of its plan.
    pub stage: usize,
    /// How often its test was restarted because frames moved.
    pub retries: u32,
    /// Whether it was tested completely.
    pub tested: bool,
    /// Whether it had its delayed read.
    pub read_late: bool,
    /// Its tested pages with unknown frames.
    pub unknown: u64,
}

impl HeldBlock {
    /// A newly claimed block.
    pub fn new(index: u64, block: Block) -> Self {
        Self {
            index,
            block,
            planted: InjectedFaults::default(),
            emulator: None,
            bad: Vec::new(),
            frames: Vec::new(),
            retired: BTreeSet::new(),
            stage: 0,
            retries: 0,
            tested: false,
            read_late: false,
            unknown: 0,
        }
    }

    /// The frame of each page that stayed in place, `None` for the others, if `now` are the present frames.
    pub fn stayed(&self, now: &[Option<Frame>]) -> Vec<Option<Frame>> {
        stayed(&self.frames, now)
    }
}

/// Why nothing more is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The user stopped it.
    Asked,
    /// `--for` is over.
    TimeUp,
}

/// The testers' sums.
#[derive(Debug, Default)]
pub struct TestSums {
    /// Frames tested completely at least once.
    pub frames: FrameSet,
    /// Tested pages with unknown frames, in presently held blocks.
    pub unknown_held: u64,
    /// The highest number of these at one moment: pages that are held together are on different frames.
    pub unknown_pages: u64,
    /// Frames whose page moved during its test, each attempt counted.
    pub moved: u64,
    /// Frames whose number could be read before their test or after it, and not both.
    pub unreadable: u64,
    /// Pages of tested blocks without a delayed read.
    pub not_read_late: u64,
    /// Frames of the map that came up and could not be retired.
    pub known_bad: u64,
    /// Bytes tested, each pass counted.
    pub bytes: u64,
    /// The testers' time.
    pub busy: Duration,
    /// Each tester's limit.
    pub limits: Vec<Limit>,
    /// The results for emulated faults, by block.
    pub tallies: BTreeMap<u64, InjectedTally>,
    /// How blocks were pinned; of several ways, the weakest.
    pub pinning: Option<Pinning>,
    /// Bad frames still held because they could not be retired.
    pub kept: Vec<Block>,
    /// The present pass, and the bytes tested completely in it.
    pub in_pass: (u32, u64),
}

/// The shared state.
pub struct TestContext<'a> {
    pub request: &'a TestRequest,
    pub machine: &'a MachineUnderTest,
    pub prepared: &'a TestPreparation,
    pub witness: &'a dyn TestObserver,
    /// Frames of the map that are in use: the kernel did not retire them.
    pub known_bad: BTreeSet<Frame>,
    pub published: Publisher<'a>,
    pub sums: Mutex<TestSums>,
    ledger: Mutex<BlockSchedule<HeldBlock>>,
    politeness: Mutex<MemoryReserve>,
    stopped: Mutex<Option<Stopped>>,
    halt: AtomicBool,
    wanted_back: AtomicBool,
    refusal_told: AtomicBool,
    own_bytes: AtomicU64,
    start: Instant,
}

impl<'a> TestContext<'a> {
    pub fn new(
        request: &'a TestRequest,
        machine: &'a MachineUnderTest,
        prepared: &'a TestPreparation,
        known_bad: BTreeSet<Frame>,
        recorder: TestRecorder<'a>,
        witness: &'a dyn TestObserver,
    ) -> Self {
        let passes = match (request.passes, request.duration) {
            (Some(passes), _) => Some(passes.get()),
            (None, Some(_)) => None,
            (None, None) => Some(1),
        };
        Self {
            request,
            machine,
            prepared,
            witness,
            known_bad,
            published: Publisher::new(recorder),
            sums: Mutex::default(),
            ledger: Mutex::new(BlockSchedule::new(prepared.goal, prepared.block, passes)),
            politeness: Mutex::new(prepared.politeness.clone()),
            stopped: Mutex::new(None),
            halt: AtomicBool::new(false),
            wanted_back: AtomicBool::new(false),
            refusal_told: AtomicBool::new(false),
            own_bytes: AtomicU64::new(0),
            start: Instant::now(),
        }
    }

    pub fn ledger(&self) -> MutexGuard<'_, BlockSchedule<HeldBlock>> {
        lock(&self.ledger)
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// A tester's next action.
    pub fn next(&self) -> Next<HeldBlock> {
        // A tester that waits for a resting block asks often, and need not check the memory.
        let outlook = if self.ledger().owes() { self.machine.outlook().ok() } else { None };
        let claimable = outlook.map_or(Bytes::ZERO, |seen| lock(&self.politeness).still_claimable(&seen));
        let advice = if claimable > Bytes::ZERO { Advice::Claim(claimable) } else { Advice::Keep };
        self.ledger().next(advice, self.elapsed())
    }

    /// The advice on the machine's memory; to keep everything if it cannot be read.
    pub fn advise(&self) -> Advice {
        self.machine.outlook().map_or(Advice::Keep, |seen| lock(&self.politeness).advise(&seen))
    }

    /// Writes new facts, then reports them.
    pub fn publish(&self) {
        self.published.publish(|bad| self.witness.bad_frame(&bad));
    }

    /// [`TestContext::publish`], if it is due.
    pub fn publish_if_due(&self) {
        self.published.publish_if_due(|bad| self.witness.bad_frame(&bad));
    }

    /// Gives back `bytes`, of blocks that are not under test, and if necessary of others.
    pub fn give_back(&self, bytes: Bytes) {
        let blocks = self.ledger().give_back(bytes, |held| held.block.bytes());
        let given: u64 = blocks.iter().map(|held| held.block.bytes().get()).sum();
        blocks.into_iter().for_each(|held| self.give_away(held));
        self.wanted_back.store(given < bytes.get(), Ordering::Relaxed);
    }

    /// Gives a block back before the test ends, and records the undone work.
    pub fn give_away(&self, held: HeldBlock) {
        if held.tested {
            self.leave(&held);
        } else {
            self.ledger().lost(held.index, held.block.bytes());
        }
        self.let_go(held);
    }

    /// Records the undone work of a tested block.
    pub fn leave(&self, held: &HeldBlock) {
        let mut sums = lock(&self.sums);
        sums.unknown_held -= held.unknown;
        if held.tested && !held.read_late {
            sums.not_read_late += held.block.pages();
        }
    }

    /// Gives a block back, except for pages on bad frames: holding those keeps them from everybody else.
    pub fn let_go(&self, held: HeldBlock) {
        if held.bad.is_empty() {
            return;
        }
        match held.block.keep_only(&held.bad) {
            Ok(kept) => lock(&self.sums).kept.extend(kept),
            Err(error) => self.witness.warned(&format!("bad frames cannot be held: {error}")),
        }
    }

    /// Warns once that the kernel refuses memory; the report has the missing amount.
    pub fn warn_of_refusal(&self, error: &rampart_linux::Error) {
        if !self.refusal_told.swap(true, Ordering::Relaxed) {
            self.witness.warned(&error.to_string());
        }
    }

    /// Whether a tester must give its block back now. Tells so one tester.
    pub fn takes_back(&self) -> bool {
        self.wanted_back.load(Ordering::Relaxed) && self.wanted_back.swap(false, Ordering::Relaxed)
    }

    pub fn stop(&self, why: Stopped) {
        let mut stopped = lock(&self.stopped);
        if stopped.is_none() {
            *stopped = Some(why);
            self.halt.store(true, Ordering::Relaxed);
            self.ledger().stop();
        }
    }

    pub fn halted(&self) -> bool {
        self.halt.load(Ordering::Relaxed)
    }

    pub fn stopped(&self) -> Option<Stopped> {
        *lock(&self.stopped)
    }

    /// Records the most memory that this process used besides claimed memory.
    pub fn sample_own_memory(&self) {
        let claimed = self.ledger().mapped();
        if let Some(resident) = self.machine.resident() {
            self.own_bytes.fetch_max(resident.saturating_sub(claimed).get(), Ordering::Relaxed);
        }
    }

    pub fn own_bytes(&self) -> Option<Bytes> {
        self.sample_own_memory();
        Some(Bytes::new(self.own_bytes.load(Ordering::Relaxed))).filter(|bytes| *bytes > Bytes::ZERO)
    }

    pub fn progress(&self) -> TestProgress {
        let bad_frames = lock(&self.published.findings).count();
        let ledger = self.ledger();
        let sums = lock(&self.sums);
        let pass = ledger.pass();
        let total = match self.prepared.goal {
            _ if pass > 1 => ledger.granted(),
            goal => goal.bytes(),
        };
        TestProgress {
            pass,
            passes: ledger.passes(),
            done_in_pass: Bytes::new(if sums.in_pass.0 == pass { sums.in_pass.1 } else { 0 }),
            total_in_pass: total,
            elapsed: self.elapsed(),
            deadline: self.request.duration,
            bytes_per_second: sums.rate(self.prepared.cpus.len()),
            bad_frames,
        }
    }
}

impl TestSums {
    /// The number of tested frames; pages, where frames are unknown.
    pub fn tested(&self) -> u64 {
        self.frames.len() + self.unknown_pages
    }

    /// Memory tested per second of testing, by all testers.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&self, testers: usize) -> f64 {
        let busy = self.busy.as_secs_f64();
        if busy > 0.0 { self.bytes as f64 / busy * testers as f64 } else { 0.0 }
    }

    /// Adds a block that was tested to its end, and stayed in place.
    pub fn add_tested(&mut self, pass: u32, seen: &Compared) {
        seen.same.iter().for_each(|&frame| self.frames.insert(frame));
        self.moved += seen.moved;
        self.unreadable += seen.unreadable;
        self.unknown_held += seen.unknown;
        self.unknown_pages = self.unknown_pages.max(self.unknown_held);
        if self.in_pass.0 != pass {
            self.in_pass = (pass, 0);
        }
        self.in_pass.1 += seen.pages() * rampart_memory::FRAME_BYTES;
    }
}

/// The frames of a block before and after its test, compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Frames that stayed.
    pub same: Vec<Frame>,
    /// Pages with unknown frames.
    pub unknown: u64,
    /// Pages that are on another frame now.
    pub moved: u64,
    /// Pages whose frame was known before or after, and not both.
    pub unreadable: u64,
}

impl Compared {
    /// Compares the frames of a block's pages before and after, except for the pages in `without`.
    pub fn new(before: &[Option<Frame>], after: &[Option<Frame>], without: &BTreeSet<u64>) -> Self {
        let mut seen = Self::default();
        for (page, pair) in (0..).zip(before.iter().zip(after)) {
            match pair {
                _ if without.contains(&page) => {}
                (Some(before), Some(after)) if before == after => seen.same.push(*before),
                (Some(_), Some(_)) => seen.moved += 1,
                (None, None) => seen.unknown += 1,
                _ => seen.unreadable += 1,
            }
        }
        seen
    }

    fn pages(&self) -> u64 {
        self.same.len() as u64 + self.unknown + self.moved + self.unreadable
    }

    /// Whether another test of the block could not reach more frames.
    pub const fn is_whole(&self) -> bool {
        self.moved == 0 && self.unreadable == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_counts_as_tested_only_if_its_page_was_in_it_before_and_after() {
        let frame = |number| Frame::new(number);
        let before = [frame(1), frame(2), frame(3), None, None, None];
        let after = [frame(1), frame(9), None, frame(4), None, frame(5)];
        let seen = Compared::new(&before, &after, &BTreeSet::from([5]));
        assert_eq!(seen, Compared { same: vec![frame(1).unwrap()], unknown: 1, moved: 1, unreadable: 2 });
        assert!(!seen.is_whole() && Compared::new(&before[..1], &after[..1], &BTreeSet::new()).is_whole());
        let mut sums = TestSums::default();
        sums.add_tested(1, &seen);
        assert_eq!((sums.tested(), sums.moved, sums.unreadable), (2, 1, 2));
    }

    #[test]
    fn pages_whose_frames_are_unknown_count_as_far_as_they_are_held_together() {
        let block = Compared { unknown: 512, ..Compared::default() };
        let mut sums = TestSums::default();
        sums.add_tested(1, &block);
        sums.add_tested(1, &block);
        assert_eq!(sums.tested(), 1024);
        sums.unknown_held -= 512;
        sums.add_tested(1, &block);
        assert_eq!(sums.tested(), 1024, "it may be in the frames of the block that was given back");
    }
}
