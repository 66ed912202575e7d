//! One tester: a thread on a node that tests steps when no other thread of the machine needs its CPU.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::{Block, CpuNumber, cpu};
use rampart_march::execute::{Mismatch, Region, Watch};
use rampart_march::{Plan, guarantees};
use rampart_memory::fault::Emulator;
use rampart_memory::fault_map::Retirement;
use rampart_memory::{BlockVerdict, Bytes, Frame, LINE_BYTES};

use super::DaemonEvent;
use super::shared::DaemonContext;
use crate::control::Work;
use crate::control::dispatch::Tester;
use crate::sources::free_memory::Step;
use crate::testing::frames::{note_pinning, stayed};
use crate::testing::injected::InjectedFaults;
use crate::testing::interruption::rest;
use crate::testing::mismatch::BlockUnderTest;
use crate::testing::prepare::lines;
use crate::testing::publishing::lock;
use crate::testing::retire::retire_if_bad;

/// How long a tester without work sleeps before it asks again.
const IDLE: Duration = Duration::from_millis(10);

/// How long a tester works before it rests.
const SHIFT: Duration = Duration::from_millis(5);

/// Tests steps until the daemon stops. While a step rests, the tester tests others.
pub fn work(shared: &DaemonContext<'_>, number: Tester, near: &[CpuNumber]) {
    // A tester that cannot be bound tests nevertheless.
    let _unbound = cpu::bind_to_any(near);
    yield_to_programs();
    let mut resting: VecDeque<(Instant, Job)> = VecDeque::new();
    while !shared.interruption.halted() {
        if let Some((_, job)) = resting.pop_back_if(|_| shared.interruption.takes_back()) {
            job.finish(shared);
            continue;
        }
        let rested = resting.pop_front_if(|(until, _)| *until <= Instant::now()).map(|(_, job)| job);
        let Some(mut job) = rested.or_else(|| shared.next(number).map(|work| Job::new(shared, work))) else {
            thread::sleep(IDLE);
            continue;
        };
        match job.test(shared) {
            Stage::Rests => resting.push_back((Instant::now() + shared.request.retention, job)),
            Stage::Ends => job.finish(shared),
        }
    }
    resting.into_iter().for_each(|(_, job)| job.finish(shared));
}

/// Makes the calling thread run only when no other thread needs the CPU; if the kernel does not allow that, gives it
/// the lowest priority.
pub fn yield_to_programs() {
    if cpu::schedule_as(cpu::Scheduling::Idle).is_err() {
        let _unslowed = cpu::be_nice(cpu::Niceness::MOST);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Whole,
    Stopped,
}

/// The state after a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Rests,
    Ends,
}

/// A step and the state of its test.
struct Job {
    step: Step<Block>,
    plan: Plan,
    /// The frames of its pages when the test began.
    frames: Vec<Option<Frame>>,
    injected: InjectedFaults,
    emulator: Option<Emulator>,
    bad_pages: BTreeSet<u64>,
    pinning: rampart_linux::Pinning,
    /// The next stage of the plan.
    stage: usize,
    worked: Duration,
}

impl Job {
    fn new(shared: &DaemonContext<'_>, work: Work<Step<Block>>) -> Self {
        let Work { block: mut step, fidelity } = work;
        let pinning = shared.machine.pin(&mut step.region);
        let mut frames = Vec::new();
        shared.machine.frames(&step.region, &mut frames);
        let injected = faults_to_inject(shared, step.region.bytes(), &frames);
        let emulator = (!injected.is_empty()).then(|| Emulator::new(injected.faults().to_vec(), shared.request.seed));
        let (plan, bad_pages, worked) = (shared.request.plan(fidelity), BTreeSet::new(), Duration::ZERO);
        Self { step, plan, frames, injected, emulator, bad_pages, pinning, stage: 0, worked }
    }

    /// Whether the march tests are complete.
    fn is_tested(&self) -> bool {
        self.stage > self.plan.tested_after()
    }

    /// Runs the next stage.
    fn test(&mut self, shared: &DaemonContext<'_>) -> Stage {
        self.pinning = self.pinning.min(shared.machine.pin(&mut self.step.region));
        let now = self.frames_now(shared);
        // A mismatch in a page that moved while the step rested says nothing about a frame.
        let stayed = stayed(&self.frames, &now);
        if march(shared, self, &stayed) == Ended::Stopped {
            return Stage::Ends;
        }
        self.stage += 1;
        shared.publish();
        if self.stage > self.plan.rests() {
            return Stage::Ends;
        }
        if self.bad_pages.is_empty() {
            self.step.region.unpin();
        }
        Stage::Rests
    }

    fn frames_now(&self, shared: &DaemonContext<'_>) -> Vec<Option<Frame>> {
        let mut now = Vec::new();
        shared.machine.frames(&self.step.region, &mut now);
        now
    }

    /// Gives the step back to the pool with its verdict.
    fn finish(mut self, shared: &DaemonContext<'_>) {
        let after = self.frames_now(shared);
        self.step.region.unpin();
        shared.publish();
        let ended = if self.is_tested() { Ended::Whole } else { Ended::Stopped };
        if self.stage > self.plan.rests() {
            self.tally(shared);
        } else if self.is_tested() {
            lock(&shared.sums).not_read_late += self.step.region.pages();
        }
        let Self { mut step, frames: before, bad_pages, pinning, .. } = self;
        step.frames = stayed(&before, &after);
        add_to_sums(shared, &step, &before, ended, pinning);
        let verdict = verdict(shared, &mut step, &before, ended, &bad_pages);
        let now = shared.clock.now();
        lock(&shared.diagnostic).finish(step, verdict, now);
    }

    fn tally(&self, shared: &DaemonContext<'_>) {
        let lines = lines(self.step.region.bytes());
        let guaranteed = |fault: &_| guarantees(&self.plan, fault, lines, &shared.prepared.march.settings);
        lock(&shared.sums).missed.extend(self.injected.tally(guaranteed).missed);
    }
}

fn add_to_sums(
    shared: &DaemonContext<'_>,
    step: &Step<Block>,
    before: &[Option<Frame>],
    ended: Ended,
    pinning: rampart_linux::Pinning,
) {
    let mut sums = lock(&shared.sums);
    note_pinning(&mut sums.pinning, pinning);
    if ended == Ended::Whole {
        let moved = step.frames.iter().zip(before).filter(|(now, before)| now != before).count() as u64;
        sums.moved += moved;
        sums.frames += step.region.pages() - moved;
    }
}

/// Returns the verdict for the pool. Retires bad frames first; the pool keeps frames that the kernel does not retire,
/// and frames with injected faults only. A step whose test was stopped and that has bad frames counts as failed, and
/// none of its other frames as tested.
fn verdict(
    shared: &DaemonContext<'_>,
    step: &mut Step<Block>,
    before: &[Option<Frame>],
    ended: Ended,
    bad_pages: &BTreeSet<u64>,
) -> BlockVerdict {
    if bad_pages.is_empty() {
        return if ended == Ended::Whole { BlockVerdict::Good } else { BlockVerdict::NotTested };
    }
    if ended == Ended::Stopped {
        step.frames.fill(None);
    }
    let mut failed = Vec::new();
    for &page in bad_pages {
        let index = usize::try_from(page).expect("a page of a step");
        match before[index] {
            Some(frame) => {
                step.frames[index] = (!retire(shared, step, frame, page)).then_some(frame);
                failed.push(frame);
            }
            None => step.keep(page),
        }
    }
    BlockVerdict::Failed(failed)
}

/// Asks the kernel to retire a frame with a real error; returns whether it did.
fn retire(shared: &DaemonContext<'_>, step: &mut Step<Block>, frame: Frame, page: u64) -> bool {
    let place = (&mut step.region, page);
    let retired = retire_if_bad(shared.machine, &shared.published, place, frame, |why| shared.observer.warned(why));
    let Some(retirement) = retired else { return false };
    let offline = retirement == Retirement::Offlined;
    shared.happened(&DaemonEvent::Retired { frame, retirement });
    offline
}

/// Marches over a step, part by part of the stage that comes next. Notes the pages on which there were mismatches.
fn march(shared: &DaemonContext<'_>, job: &mut Job, frames: &[Option<Frame>]) -> Ended {
    let Job { step, plan, injected, emulator, bad_pages, pinning, .. } = job;
    let address = step.region.base().as_ptr().addr() as u64;
    let frame_now = |address| shared.machine.frame_at(address);
    let frame_now = (!pinning.holds_frames()).then_some(&frame_now as &dyn Fn(u64) -> Option<Frame>);
    let executor = shared.prepared.march.executor();
    let mut shift = Shift { shared, began: Instant::now(), worked: Duration::ZERO };
    let stages = plan.stages();
    for part in &stages[job.stage] {
        let under_test = BlockUnderTest { frames, address, injected, pass: part.pass, frame_now };
        let mut watch = TesterWatch { under_test, bad_pages, shift: &mut shift };
        if !executor.run_part(&mut Region::from(&mut step.region), part, emulator.as_mut(), &mut watch).completed {
            return Ended::Stopped;
        }
    }
    shift.count();
    job.worked += shift.worked;
    if job.stage == plan.tested_after() {
        shared.took(step.region.bytes(), plan.fidelity(), job.worked);
    }
    Ended::Whole
}

/// Returns the faults to inject into a step: faults of named frames whenever these frames are claimed; faults at random
/// places once, in the first steps of the usual size, because frames in which these are found stay out of use.
fn faults_to_inject(shared: &DaemonContext<'_>, bytes: Bytes, frames: &[Option<Frame>]) -> InjectedFaults {
    let Some(campaign) = &shared.prepared.campaign else { return InjectedFaults::default() };
    let mut faults = campaign.in_frames(frames);
    if bytes == shared.prepared.step {
        faults.extend(campaign.in_region(shared.next_region()));
    }
    InjectedFaults::new(faults)
}

/// A tester's time on one step: the work, and the rests that keep it within its share.
struct Shift<'a, 'b> {
    shared: &'a DaemonContext<'b>,
    began: Instant,
    worked: Duration,
}

impl Shift<'_, '_> {
    /// Adds the time since the last rest to the testers' total, and returns it.
    fn count(&mut self) -> Duration {
        let worked = self.began.elapsed();
        lock(&self.shared.sums).busy += worked;
        self.worked += worked;
        self.began = Instant::now();
        worked
    }

    fn is_interrupted(&self) -> bool {
        self.shared.interruption.halted() || self.shared.interruption.takes_back()
    }

    fn rest(&mut self, time: Duration) -> ControlFlow<()> {
        rest(time, || self.is_interrupted())?;
        self.began = Instant::now();
        ControlFlow::Continue(())
    }
}

struct TesterWatch<'a, 'b, 'c> {
    under_test: BlockUnderTest<'a>,
    bad_pages: &'a mut BTreeSet<u64>,
    shift: &'a mut Shift<'b, 'c>,
}

impl Watch for TesterWatch<'_, '_, '_> {
    fn mismatch(&mut self, seen: &Mismatch) {
        let shared = self.shift.shared;
        let page = self.under_test.note(seen, shared.machine.clock.now(), &shared.published.findings);
        self.bad_pages.insert(page);
    }

    fn advanced(&mut self, operations: u64) -> ControlFlow<()> {
        lock(&self.shift.shared.sums).traffic += operations * LINE_BYTES;
        if self.shift.is_interrupted() {
            return ControlFlow::Break(());
        }
        if self.shift.began.elapsed() < SHIFT {
            return ControlFlow::Continue(());
        }
        let worked = self.shift.count();
        self.shift.rest(self.shift.shared.rest_after(worked))
    }

    fn pause(&mut self, time: Duration) -> ControlFlow<()> {
        self.shift.count();
        self.shift.rest(time)
    }
}
