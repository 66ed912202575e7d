//! The state that the testers and the main thread of a test of chosen frames share.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rampart_linux::kernel_module::ModuleDevice;
use rampart_linux::{CpuNumber, FrameClass};
use rampart_march::execute::limit::Limit;
use rampart_memory::{Bytes, Frame, FrameRange, Node};

use super::choice::FrameChoice;
use super::schedule::{FrameSchedule, ListsOfKind, NextPiece, lists_of};
use crate::machine::MachineUnderTest;
use crate::machine::reserve::MemoryReserve;
use crate::once::{Stopped, TestRequest};
use crate::testing::interruption::Interruption;
use crate::testing::observer::{TestObserver, TestProgress};
use crate::testing::prepare::MarchSetup;
use crate::testing::publishing::{Publisher, lock};
use crate::testing::seen::FrameSet;

/// What is settled before the test begins.
pub struct ChosenTest<'a> {
    pub request: &'a TestRequest,
    pub choice: &'a FrameChoice,
    pub machine: &'a MachineUnderTest,
    pub observer: &'a dyn TestObserver,
    pub device: Arc<ModuleDevice>,
    pub cpus: Vec<CpuNumber>,
    pub march: MarchSetup,
    /// The memory that should be tested.
    pub asked_for: Bytes,
    /// All memory of the machine.
    pub total: Bytes,
    pub reserve: MemoryReserve,
    /// Frames of the fault map that are in use because the kernel did not retire them.
    pub known_bad: BTreeSet<Frame>,
}

/// The totals of all testers.
#[derive(Debug, Default)]
pub struct ChosenSums {
    /// Frames tested completely at least once.
    pub frames: FrameSet,
    /// Bytes tested, each pass counted.
    pub bytes: u64,
    /// Total testing time of all testers.
    pub busy: Duration,
    /// Each tester's limit.
    pub limits: Vec<Limit>,
    /// Frames whose content was moved.
    pub moved: u64,
    /// Frames that were taken away before their test ended, counted at each attempt.
    pub lost: u64,
    /// The pass under way, and the bytes tested in it.
    pub in_pass: (u32, u64),
}

/// The test, and what has come of it so far.
pub struct ChosenContext<'a> {
    pub test: ChosenTest<'a>,
    pub published: Publisher<'a>,
    pub sums: Mutex<ChosenSums>,
    pub interruption: Interruption,
    /// All that is to be tested.
    pub ranges: Vec<FrameRange>,
    schedule: Mutex<FrameSchedule>,
    /// The nodes with memory that is to be tested.
    nodes: Vec<Node>,
    /// The free lists that remain; unknown until all pieces have been tried.
    lists: Mutex<Option<VecDeque<ListsOfKind>>>,
    stopped: Mutex<Option<Stopped>>,
    start: Instant,
}

impl<'a> ChosenContext<'a> {
    pub fn new(test: ChosenTest<'a>, ranges: &[FrameRange], nodes: Vec<Node>, published: Publisher<'a>) -> Self {
        let schedule = FrameSchedule::new(ranges, test.choice.used, test.request.most_passes());
        Self {
            test,
            published,
            sums: Mutex::default(),
            interruption: Interruption::default(),
            ranges: ranges.to_vec(),
            schedule: Mutex::new(schedule),
            nodes,
            lists: Mutex::default(),
            stopped: Mutex::new(None),
            start: Instant::now(),
        }
    }

    pub fn schedule(&self) -> MutexGuard<'_, FrameSchedule> {
        lock(&self.schedule)
    }

    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// A tester's next step; a piece for which programs leave too little memory is put off.
    pub fn next(&self) -> NextPiece {
        let mut schedule = self.schedule();
        let next = schedule.next(self.elapsed());
        if let NextPiece::Claim(piece) = next
            && self.spare() < piece.frames.bytes()
        {
            schedule.postponed(piece, self.elapsed());
            return NextPiece::Wait;
        }
        next
    }

    /// The free lists that a tester tests next, when all pieces have been tried.
    pub fn next_lists(&self) -> Option<ListsOfKind> {
        let mut lists = lock(&self.lists);
        lists
            .get_or_insert_with(|| if self.has_free_left() { lists_of(&self.nodes) } else { VecDeque::new() })
            .pop_front()
    }

    /// Whether frames that are to be tested are free, and were not tested.
    fn has_free_left(&self) -> bool {
        let sums = lock(&self.sums);
        let is_left = |frame| self.ranges.iter().any(|range| range.contains(frame)) && !sums.frames.contains(frame);
        let left = self.test.machine.census(is_left).unwrap_or_default();
        left.iter().any(|(class, _)| *class == FrameClass::Free)
    }

    /// The memory that programs can spare; all, if that cannot be read.
    pub fn spare(&self) -> Bytes {
        let spare = self.test.machine.outlook().map(|seen| self.test.reserve.still_claimable(&seen));
        spare.unwrap_or(self.test.total)
    }

    /// Writes new facts, then reports them.
    pub fn publish(&self) {
        self.published.publish(|bad| self.test.observer.bad_frame(&bad));
    }

    /// [`ChosenContext::publish`], if it is due.
    pub fn publish_if_due(&self) {
        self.published.publish_if_due(|bad| self.test.observer.bad_frame(&bad));
    }

    pub fn stop(&self, why: Stopped) {
        lock(&self.stopped).get_or_insert(why);
        self.interruption.halt();
    }

    pub fn stopped(&self) -> Option<Stopped> {
        *lock(&self.stopped)
    }

    pub fn describe(&self) -> String {
        let test = &self.test;
        let name = test.request.name.as_ref().map_or_else(String::new, |name| format!("{name} "));
        let plural = if test.cpus.len() == 1 { "" } else { "s" };
        format!(
            "testing     {}, {}, from the kernel with {name}{}, fidelity {}, on {} CPU{plural} ({}, {})",
            if test.choice.used { "frames free or in use" } else { "free frames" },
            test.asked_for,
            test.request.march,
            test.request.fidelity,
            test.cpus.len(),
            test.march.engine,
            test.march.settings.method
        )
    }

    pub fn progress(&self) -> TestProgress {
        let bad_frames = lock(&self.published.findings).count();
        let (pass, passes) = {
            let schedule = self.schedule();
            (schedule.pass(), schedule.passes())
        };
        let sums = lock(&self.sums);
        TestProgress {
            pass,
            passes,
            done_in_pass: Bytes::new(if sums.in_pass.0 == pass { sums.in_pass.1 } else { 0 }),
            total_in_pass: self.test.asked_for,
            elapsed: self.elapsed(),
            deadline: self.test.request.duration,
            bytes_per_second: sums.rate(self.test.cpus.len()),
            bad_frames,
        }
    }
}

impl ChosenSums {
    /// Memory tested per second of testing, all testers together.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&self, testers: usize) -> f64 {
        let busy = self.busy.as_secs_f64();
        if busy > 0.0 { self.bytes as f64 / busy * testers as f64 } else { 0.0 }
    }

    /// Adds a piece that was tested completely.
    pub fn add_tested(&mut self, pass: u32, frames: FrameRange) {
        let numbers = frames.start().number()..=frames.last().number();
        numbers.filter_map(Frame::new).for_each(|frame| self.frames.insert(frame));
        self.bytes += frames.bytes().get();
        if self.in_pass.0 != pass {
            self.in_pass = (pass, 0);
        }
        self.in_pass.1 += frames.bytes().get();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_counts_in_its_pass_and_each_of_its_frames_once() {
        let mut sums = ChosenSums::default();
        let piece = FrameRange::new(Frame::new(8).unwrap(), 4).unwrap();
        assert_eq!(sums.rate(2).abs(), 0.0, "nothing was tested");
        for (pass, in_pass) in [(1, 4), (1, 8), (2, 4)] {
            sums.add_tested(pass, piece);
            assert_eq!(sums.in_pass, (pass, in_pass * 4096));
        }
        assert_eq!((sums.frames.len(), sums.bytes), (4, 12 * 4096));
        assert!(sums.frames.contains(Frame::new(8).unwrap()) && sums.frames.contains(Frame::new(11).unwrap()));
        sums.busy = Duration::from_secs(4);
        assert_eq!((sums.rate(2) - 6.0 * 4096.0).abs(), 0.0);
    }
}
