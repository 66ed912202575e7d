//! The state that the testers and the main thread of `rampart test` share.

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
use crate::testing::interruption::Interruption;
use crate::testing::publishing::{Publisher, lock};
use crate::testing::record::TestRecorder;
use crate::testing::seen::FrameSet;

/// A claimed block that is not under test.
#[derive(Debug)]
pub struct HeldBlock {
    /// Its number in the test, from 0.
    pub index: u64,
    pub block: Block,
    /// Its injected faults.
    pub injected: InjectedFaults,
    /// Emulates these faults from the first stage of a pass to the last.
    pub emulator: Option<Emulator>,
    /// Its pages whose frames are bad and could not be retired.
    pub bad: Vec<u64>,
    /// The frames of its pages when the pass began; `None` also for those that were retired since.
    pub frames: Vec<Option<Frame>>,
    /// Its pages whose frames were retired since the pass began.
    pub retired: BTreeSet<u64>,
    /// The next stage of its plan.
    pub stage: usize,
    /// How often its test was restarted because the kernel moved frames.
    pub retries: u32,
    /// Whether it was tested completely.
    pub tested: bool,
    /// Whether its delayed read is done, or none is due.
    pub read_late: bool,
    /// Its tested pages whose frames are unknown.
    pub unknown: u64,
}

impl HeldBlock {
    /// A newly claimed block.
    pub fn new(index: u64, block: Block) -> Self {
        Self {
            index,
            block,
            injected: InjectedFaults::default(),
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

    /// Notes a page whose frame is bad and could not be retired.
    pub fn note_bad(&mut self, page: u64) {
        if !self.bad.contains(&page) {
            self.bad.push(page);
        }
    }

    /// The frame of each page that has not moved, `None` for the others; `now` holds the current frames.
    pub fn stayed(&self, now: &[Option<Frame>]) -> Vec<Option<Frame>> {
        stayed(&self.frames, now)
    }
}

/// Why the test was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The user asked for it.
    Asked,
    /// The time of `--for` is up.
    TimeUp,
}

/// The totals of all testers.
#[derive(Debug, Default)]
pub struct TestSums {
    /// Frames tested completely at least once.
    pub frames: FrameSet,
    /// Tested pages whose frames are unknown, in blocks that are held now.
    pub unknown_held: u64,
    /// The maximum of `unknown_held` so far: pages that are held at the same time are in different frames.
    pub unknown_pages: u64,
    /// Frames whose page moved during the test, counted at each attempt.
    pub moved: u64,
    /// Frames whose number could be read only before or only after their test.
    pub unreadable: u64,
    /// Pages of tested blocks whose delayed read was skipped.
    pub not_read_late: u64,
    /// Frames of the fault map that were claimed and could not be retired.
    pub known_bad: u64,
    /// Bytes tested, each pass counted.
    pub bytes: u64,
    /// Total testing time of all testers.
    pub busy: Duration,
    /// Each tester's limit.
    pub limits: Vec<Limit>,
    /// Results for the injected faults, by block.
    pub tallies: BTreeMap<u64, InjectedTally>,
    /// The weakest way in which blocks were pinned.
    pub pinning: Option<Pinning>,
    /// Bad frames still held because they could not be retired.
    pub kept: Vec<Block>,
    /// The pass under way, and the bytes tested whole in it.
    pub in_pass: (u32, u64),
}

/// The shared state.
pub struct TestContext<'a> {
    pub request: &'a TestRequest,
    pub machine: &'a MachineUnderTest,
    pub prepared: &'a TestPreparation,
    pub observer: &'a dyn TestObserver,
    /// Frames of the fault map that are in use because the kernel did not retire them.
    pub known_bad: BTreeSet<Frame>,
    pub published: Publisher<'a>,
    pub sums: Mutex<TestSums>,
    schedule: Mutex<BlockSchedule<HeldBlock>>,
    reserve: Mutex<MemoryReserve>,
    stopped: Mutex<Option<Stopped>>,
    pub interruption: Interruption,
    refusal_reported: AtomicBool,
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
        observer: &'a dyn TestObserver,
    ) -> Self {
        Self {
            request,
            machine,
            prepared,
            observer,
            known_bad,
            published: Publisher::new(recorder),
            sums: Mutex::default(),
            schedule: Mutex::new(BlockSchedule::new(prepared.goal, prepared.block, request.most_passes())),
            reserve: Mutex::new(prepared.reserve.clone()),
            stopped: Mutex::new(None),
            interruption: Interruption::default(),
            refusal_reported: AtomicBool::new(false),
            own_bytes: AtomicU64::new(0),
            start: Instant::now(),
        }
    }

    pub fn schedule(&self) -> MutexGuard<'_, BlockSchedule<HeldBlock>> {
        lock(&self.schedule)
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the next step of a tester.
    pub fn next(&self) -> Next<HeldBlock> {
        // A tester that waits for a resting block calls this often and need not read the machine's memory state.
        let outlook = if self.schedule().has_unclaimed() { self.machine.outlook().ok() } else { None };
        let claimable = outlook.map_or(Bytes::ZERO, |seen| lock(&self.reserve).still_claimable(&seen));
        self.schedule().next(Advice::Claim(claimable), self.elapsed())
    }

    /// Returns the memory reserve's advice; [`Advice::Keep`] if the machine's memory state cannot be read.
    pub fn advise(&self) -> Advice {
        self.machine.outlook().map_or(Advice::Keep, |seen| lock(&self.reserve).advise(&seen))
    }

    /// Writes new facts, then reports them.
    pub fn publish(&self) {
        self.published.publish(|bad| self.observer.bad_frame(&bad));
    }

    /// [`TestContext::publish`], if it is due.
    pub fn publish_if_due(&self) {
        self.published.publish_if_due(|bad| self.observer.bad_frame(&bad));
    }

    /// Gives back `bytes`: first blocks that are not under test, then blocks that are.
    pub fn give_back(&self, bytes: Bytes) {
        let blocks = self.schedule().give_back(bytes, |held| held.block.bytes());
        let given: u64 = blocks.iter().map(|held| held.block.bytes().get()).sum();
        blocks.into_iter().for_each(|held| self.give_away(held));
        self.interruption.set_needed_back(given < bytes.get());
    }

    /// Gives a block back before the test ends, and records the work that remains undone.
    pub fn give_away(&self, held: HeldBlock) {
        if held.tested {
            self.leave(&held);
        } else {
            self.schedule().lost(held.index, held.block.bytes());
        }
        self.let_go(held);
    }

    /// Records the work that remains undone of a tested block.
    pub fn leave(&self, held: &HeldBlock) {
        let mut sums = lock(&self.sums);
        sums.unknown_held -= held.unknown;
        if held.tested && !held.read_late {
            sums.not_read_late += held.block.pages();
        }
    }

    /// Gives a block back except for the pages in bad frames: as long as this process holds them, no program gets them.
    pub fn let_go(&self, held: HeldBlock) {
        if held.bad.is_empty() {
            return;
        }
        match held.block.keep_only(&held.bad) {
            Ok(kept) => lock(&self.sums).kept.extend(kept),
            Err(error) => self.observer.warned(&format!("bad frames cannot be held: {error}")),
        }
    }

    /// Warns once that the kernel refuses memory; the report contains the amount that is missing at the end.
    pub fn warn_of_refusal(&self, error: &rampart_linux::Error) {
        if !self.refusal_reported.swap(true, Ordering::Relaxed) {
            self.observer.warned(&error.to_string());
        }
    }

    pub fn stop(&self, why: Stopped) {
        let mut stopped = lock(&self.stopped);
        if stopped.is_none() {
            *stopped = Some(why);
            self.interruption.halt();
            self.schedule().stop();
        }
    }

    pub fn stopped(&self) -> Option<Stopped> {
        *lock(&self.stopped)
    }

    /// Updates the maximum of the memory that this process uses beyond its claims.
    pub fn sample_own_memory(&self) {
        let claimed = self.schedule().mapped();
        if let Some(used) = self.machine.used_memory() {
            self.own_bytes.fetch_max(used.saturating_sub(claimed).get(), Ordering::Relaxed);
        }
    }

    pub fn own_bytes(&self) -> Option<Bytes> {
        self.sample_own_memory();
        Some(Bytes::new(self.own_bytes.load(Ordering::Relaxed))).filter(|bytes| *bytes > Bytes::ZERO)
    }

    pub fn progress(&self) -> TestProgress {
        let bad_frames = lock(&self.published.findings).count();
        let schedule = self.schedule();
        let sums = lock(&self.sums);
        let pass = schedule.pass();
        let total = match self.prepared.goal {
            _ if pass > 1 => schedule.granted(),
            goal => goal.bytes(),
        };
        TestProgress {
            pass,
            passes: schedule.passes(),
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
    /// The number of tested frames, or of tested pages where frames are unknown.
    pub fn tested(&self) -> u64 {
        self.frames.len() + self.unknown_pages
    }

    /// Memory tested per second of testing, all testers together.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&self, testers: usize) -> f64 {
        let busy = self.busy.as_secs_f64();
        if busy > 0.0 { self.bytes as f64 / busy * testers as f64 } else { 0.0 }
    }

    /// Adds a block that was tested completely.
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
    /// Frames that did not move.
    pub same: Vec<Frame>,
    /// Pages whose frames are unknown.
    pub unknown: u64,
    /// Pages that are in another frame now.
    pub moved: u64,
    /// Pages whose frame was known only before or only after the test.
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

    /// Whether another test of the block could reach more frames.
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

    #[test]
    fn the_rate_is_that_of_all_testers_together() {
        let sums = TestSums { bytes: 600, busy: Duration::from_secs(4), ..TestSums::default() };
        assert_eq!((sums.rate(2) - 300.0).abs(), 0.0);
        assert_eq!(TestSums { bytes: 600, ..TestSums::default() }.rate(2).abs(), 0.0);
    }

    #[test]
    fn what_was_tested_in_this_pass_counts_every_page_once() {
        let mut sums = TestSums::default();
        let same = [1, 2, 3].map(|number| Frame::new(number).unwrap()).to_vec();
        let seen = Compared { same, unknown: 4, moved: 2, unreadable: 5 };
        sums.add_tested(1, &seen);
        assert_eq!(sums.in_pass, (1, 14 * 4096));
        sums.add_tested(1, &seen);
        assert_eq!(sums.in_pass, (1, 28 * 4096));
        sums.add_tested(2, &seen);
        assert_eq!(sums.in_pass, (2, 14 * 4096));
    }
}
