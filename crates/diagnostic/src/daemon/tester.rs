//! One tester: a thread of a node that tests steps when no other thread needs its CPU.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::{Block, CpuNumber, cpu};
use rampart_march::execute::{Executor, Mismatch, Region, Watch};
use rampart_march::{Plan, promises};
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
use crate::testing::mismatch::Scene;
use crate::testing::prepare::lines;
use crate::testing::publishing::lock;

/// The wait of a tester without work before it asks again.
const IDLE: Duration = Duration::from_millis(10);

/// A tester rests each time after so much work.
const SHIFT: Duration = Duration::from_millis(5);

/// The period of checks during a rest whether the tester's memory is needed.
const GLANCE: Duration = Duration::from_millis(10);

/// Tests steps until watching ends. While a step rests, others are tested.
pub fn work(shared: &DaemonContext<'_>, number: Tester, near: &[CpuNumber]) {
    // A tester that cannot be bound tests all the same.
    let _unbound = cpu::bind_to_any(near);
    yield_to_programs();
    let mut resting: VecDeque<(Instant, Job)> = VecDeque::new();
    while !shared.halted() {
        if let Some((_, job)) = resting.pop_back_if(|_| shared.takes_back()) {
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

/// From now on the thread runs only when no other thread needs its CPU; if the kernel does not allow that, it runs all
/// the same.
pub fn yield_to_programs() {
    if cpu::schedule_as(cpu::Scheduling::Idle).is_err() {
        let _unslowed = cpu::be_nice(cpu::Niceness::MOST);
    }
}

/// Rests for so long, unless `wanted` before.
pub fn rest(time: Duration, wanted: impl Fn() -> bool) -> ControlFlow<()> {
    let end = Instant::now() + time;
    loop {
        if wanted() {
            return ControlFlow::Break(());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return ControlFlow::Continue(());
        }
        thread::sleep(left.min(GLANCE));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Whole,
    Stopped,
}

/// The next action after a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Rests,
    Ends,
}

/// A step and the progress of its test.
struct Job {
    step: Step<Block>,
    plan: Plan,
    /// The frames of its pages at the beginning of the test, if they stayed.
    frames: Vec<Option<Frame>>,
    planted: InjectedFaults,
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
        let pinning = step.region.pin().pinning;
        let mut frames = Vec::new();
        shared.machine.frames(&step.region, &mut frames);
        let planted = plant(shared, step.region.bytes(), &frames);
        let emulator = (!planted.is_empty()).then(|| Emulator::new(planted.faults().to_vec(), shared.request.seed));
        let (plan, bad_pages, worked) = (shared.request.plan(fidelity), BTreeSet::new(), Duration::ZERO);
        Self { step, plan, frames, planted, emulator, bad_pages, pinning, stage: 0, worked }
    }

    /// Whether the march tests are complete.
    fn is_tested(&self) -> bool {
        self.stage > self.plan.tested_after()
    }

    /// Runs the next stage.
    fn test(&mut self, shared: &DaemonContext<'_>) -> Stage {
        self.pinning = self.pinning.min(self.step.region.pin().pinning);
        let now = self.frames_now(shared);
        // Pages that moved while the step rested say nothing about a frame.
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

    /// Gives the step back to the pool with its result.
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
        sum_up(shared, &step, &before, ended, pinning);
        let verdict = verdict(shared, &mut step, &before, ended, &bad_pages);
        let now = shared.clock.now();
        lock(&shared.diagnostic).finish(step, verdict, now);
    }

    fn tally(&self, shared: &DaemonContext<'_>) {
        let lines = lines(self.step.region.bytes());
        let promised = |fault: &_| promises(&self.plan, fault, lines, &shared.prepared.settings);
        lock(&shared.sums).missed.extend(self.planted.tally(promised).missed);
    }
}

fn sum_up(
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

/// The verdict for the pool. Bad frames are retired first; the pool keeps those that the kernel refuses, and emulated
/// ones. A step that was not tested to its end and has bad frames counts as failed, with none of its other frames
/// tested.
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

/// Lets the kernel retire a really bad frame; returns whether it did.
fn retire(shared: &DaemonContext<'_>, step: &mut Step<Block>, frame: Frame, page: u64) -> bool {
    if !lock(&shared.published.findings).awaits_retirement(frame) {
        return false;
    }
    let retirement = shared.machine.retire_own(frame, &mut step.region, page);
    if let Retirement::Refused(why) = &retirement {
        shared.observer.warned(&format!("NOT retired frame {frame}: {why}"));
    }
    let offline = retirement == Retirement::Offlined;
    shared.happened(&DaemonEvent::Retired { frame, retirement: retirement.clone() });
    lock(&shared.published.findings).retired(frame, retirement);
    offline
}

/// Runs the next stage over a step, part by part. Records the pages with mismatches.
fn march(shared: &DaemonContext<'_>, job: &mut Job, frames: &[Option<Frame>]) -> Ended {
    let Job { step, plan, planted, emulator, bad_pages, .. } = job;
    let address = step.region.base().as_ptr().addr() as u64;
    let executor = Executor { engine: shared.prepared.engine, settings: shared.prepared.settings };
    let mut shift = Shift { shared, began: Instant::now(), worked: Duration::ZERO };
    let stages = plan.stages();
    for part in &stages[job.stage] {
        let scene = Scene { frames, address, planted, step: part.pass };
        let mut watch = TesterWatch { scene, bad_pages, shift: &mut shift };
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

/// Injects faults of named frames wherever those come up, and those at random places once, in the first steps of the
/// usual size: their findings stay out of use from then on.
fn plant(shared: &DaemonContext<'_>, bytes: Bytes, frames: &[Option<Frame>]) -> InjectedFaults {
    let Some(campaign) = &shared.prepared.campaign else { return InjectedFaults::default() };
    let mut faults = campaign.in_frames(frames);
    if bytes == shared.prepared.step {
        faults.extend(campaign.in_region(shared.next_region()));
    }
    InjectedFaults::new(faults)
}

/// A tester's time on one step: work, and the rests that keep it within its share.
struct Shift<'a, 'b> {
    shared: &'a DaemonContext<'b>,
    began: Instant,
    worked: Duration,
}

impl Shift<'_, '_> {
    /// Adds the time since the last rest to the testers' work, and returns it.
    fn count(&mut self) -> Duration {
        let worked = self.began.elapsed();
        lock(&self.shared.sums).busy += worked;
        self.worked += worked;
        self.began = Instant::now();
        worked
    }

    fn is_wanted(&self) -> bool {
        self.shared.halted() || self.shared.takes_back()
    }

    fn rest(&mut self, time: Duration) -> ControlFlow<()> {
        rest(time, || self.is_wanted())?;
        self.began = Instant::now();
        ControlFlow::Continue(())
    }
}

struct TesterWatch<'a, 'b, 'c> {
    scene: Scene<'a>,
    bad_pages: &'a mut BTreeSet<u64>,
    shift: &'a mut Shift<'b, 'c>,
}

impl Watch for TesterWatch<'_, '_, '_> {
    fn mismatch(&mut self, seen: &Mismatch) {
        let shared = self.shift.shared;
        let page = self.scene.note(seen, shared.machine.clock.now(), &shared.published.findings);
        self.bad_pages.insert(page);
    }

    fn advanced(&mut self, operations: u64) -> ControlFlow<()> {
        lock(&self.shift.shared.sums).traffic += operations * LINE_BYTES;
        if self.shift.is_wanted() {
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
