//! One tester: a thread on a node that tests steps when no other thread of the machine needs its CPU.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::kernel_module::ClaimVerdict;
use rampart_linux::memory_loss::is_page_lost;
use rampart_linux::{CpuNumber, cpu};
use rampart_march::execute::{Mismatch, Watch};
use rampart_march::{Plan, guarantees};
use rampart_memory::fault::Emulator;
use rampart_memory::fault_map::Retirement;
use rampart_memory::{BlockVerdict, Bytes, Frame, LINE_BYTES};

use super::DaemonEvent;
use super::shared::DaemonContext;
use crate::control::Work;
use crate::control::dispatch::Tester;
use crate::sources::step::{Step, StepAccess, StepHold, StepMemory};
use crate::testing::frames::stayed;
use crate::testing::injected::InjectedFaults;
use crate::testing::interruption::rest;
use crate::testing::mismatch::BlockUnderTest;
use crate::testing::prepare::lines;
use crate::testing::publishing::lock;
use crate::testing::retire::{give_back_claimed, retire_if_bad, see_hardware_errors, see_page_errors};

/// How long a tester without work sleeps before it asks again.
const IDLE: Duration = Duration::from_millis(10);

/// How long a tester works before it rests.
const SHIFT: Duration = Duration::from_millis(5);

/// Tests steps until the daemon stops, on some CPUs, when no program needs them.
pub fn work(shared: &DaemonContext<'_>, number: Tester, near: &[CpuNumber]) {
    // A tester that cannot be bound tests nevertheless.
    let _unbound = cpu::bind_to_any(near);
    yield_to_programs();
    test_steps(shared, number);
}

/// Tests steps until the daemon stops. While a step rests, the tester tests others.
pub fn test_steps(shared: &DaemonContext<'_>, number: Tester) {
    let mut resting: VecDeque<(Instant, Job)> = VecDeque::new();
    while !shared.interruption.halted() {
        if let Some((_, job)) = resting.pop_back_if(|_| shared.interruption.takes_back()) {
            job.finish(shared);
            continue;
        }
        let rested = resting.pop_front_if(|(until, _)| *until <= Instant::now()).map(|(_, job)| job);
        let rests = resting.iter().map(|(_, job)| job.step.region.bytes());
        let next = || if may_begin(rests, shared.prepared.most_resting) { shared.next(number) } else { None };
        let job = if rested.is_some() {
            rested
        } else if let Some(work) = next() {
            Job::begin(shared, work)
        } else {
            thread::sleep(IDLE);
            continue;
        };
        let Some(mut job) = job else { continue };
        match job.test(shared) {
            Stage::Rests => resting.push_back((Instant::now() + shared.request.retention, job)),
            Stage::Ends => job.finish(shared),
        }
    }
    resting.into_iter().for_each(|(_, job)| job.finish(shared));
}

/// Whether a tester may begin with one more step, while steps of these sizes rest.
pub fn may_begin(resting: impl Iterator<Item = Bytes>, most: Bytes) -> bool {
    resting.map(Bytes::get).sum::<u64>() < most.get()
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

/// How a stage has ended on a part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartEnd {
    Whole,
    Stopped,
    /// The kernel has taken it back.
    Lost,
}

/// The state after a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Rests,
    Ends,
}

impl Stage {
    /// Whether another stage comes.
    pub fn goes_on(self) -> bool {
        self == Self::Rests
    }
}

/// A step and the state of its test.
pub struct Job {
    step: Step<StepMemory>,
    plan: Plan,
    /// The frames of its pages when the test began.
    frames: Vec<Option<Frame>>,
    injected: InjectedFaults,
    emulator: Option<Emulator>,
    bad_pages: BTreeSet<u64>,
    hold: StepHold,
    /// The next stage of the plan.
    stage: usize,
    worked: Duration,
}

impl Job {
    /// Begins with a step; `None` if the kernel does not give its memory: then it has gone back.
    pub fn begin(shared: &DaemonContext<'_>, work: Work<Step<StepMemory>>) -> Option<Self> {
        let Work { block: mut step, fidelity } = work;
        let Some(hold) = step.region.hold(shared.machine) else {
            lock(&shared.diagnostic).finish(step, BlockVerdict::NotTested, shared.clock.now());
            return None;
        };
        let mut frames = Vec::new();
        step.region.frames(shared.machine, &mut frames);
        let injected = faults_to_inject(shared, &step.region, &frames);
        let emulator = (!injected.is_empty()).then(|| Emulator::new(injected.faults().to_vec(), shared.request.seed));
        let bad_pages = shared.known_bad_pages(&step.region, &frames);
        let (plan, worked) = (shared.request.plan(fidelity), Duration::ZERO);
        Some(Self { step, plan, frames, injected, emulator, bad_pages, hold, stage: 0, worked })
    }

    /// Whether the march tests are complete.
    pub fn is_tested(&self) -> bool {
        self.stage > self.plan.tested_after()
    }

    /// Runs the next stage.
    pub fn test(&mut self, shared: &DaemonContext<'_>) -> Stage {
        let Some(hold) = self.step.region.hold(shared.machine) else { return Stage::Ends };
        self.hold = self.hold.min(hold);
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
            self.step.region.let_move();
        }
        Stage::Rests
    }

    fn frames_now(&self, shared: &DaemonContext<'_>) -> Vec<Option<Frame>> {
        let mut now = Vec::new();
        self.step.region.frames(shared.machine, &mut now);
        now
    }

    /// Gives the step back to the pool with its verdict.
    fn finish(self, shared: &DaemonContext<'_>) {
        let (step, verdict) = self.judge(shared);
        let now = shared.clock.now();
        lock(&shared.diagnostic).finish(step, verdict, now);
    }

    /// Ends the test; the kernel module has its verdict then, the pool has not. Waits for nothing that the controller
    /// does.
    pub fn judge(mut self, shared: &DaemonContext<'_>) -> (Step<StepMemory>, BlockVerdict) {
        let after = self.frames_now(shared);
        self.step.region.let_move();
        shared.publish();
        let ended = if self.is_tested() { Ended::Whole } else { Ended::Stopped };
        if self.stage > self.plan.rests() {
            self.tally(shared);
        } else if self.is_tested() {
            lock(&shared.sums).not_read_late += self.step.region.pages();
        }
        let Self { mut step, frames: before, bad_pages, hold, .. } = self;
        step.frames = stayed(&before, &after);
        let moved = step.frames.iter().zip(&before).filter(|(now, before)| now != before).count() as u64;
        let verdict = verdict(shared, &mut step, &before, ended, &bad_pages);
        let mut sums = lock(&shared.sums);
        sums.hold = Some(sums.hold.map_or(hold, |weakest| weakest.min(hold)));
        if ended == Ended::Whole && verdict != BlockVerdict::NotTested {
            sums.moved += moved;
            sums.frames += step.region.pages() - moved;
        }
        drop(sums);
        (step, verdict)
    }

    fn tally(&self, shared: &DaemonContext<'_>) {
        let lines = lines(self.step.region.bytes());
        let guaranteed = |fault: &_| guarantees(&self.plan, fault, lines, &shared.prepared.march.settings);
        lock(&shared.sums).missed.extend(self.injected.tally(guaranteed).missed);
    }
}

/// Returns the verdict for the pool. Retires bad frames first; the pool keeps frames that the kernel does not retire,
/// and frames with injected faults only. A step whose test was stopped and that has bad frames counts as failed, and
/// none of its other frames as tested.
fn verdict(
    shared: &DaemonContext<'_>,
    step: &mut Step<StepMemory>,
    before: &[Option<Frame>],
    ended: Ended,
    bad_pages: &BTreeSet<u64>,
) -> BlockVerdict {
    if let StepMemory::Chosen(_) = &step.region {
        let bad = bad_pages.iter().filter_map(|&page| before[index(page)]).collect();
        return verdict_on_claims(shared, step, ended, bad);
    }
    if bad_pages.is_empty() {
        return if ended == Ended::Whole { BlockVerdict::Good } else { BlockVerdict::NotTested };
    }
    if ended == Ended::Stopped {
        step.frames.fill(None);
    }
    let mut failed = Vec::new();
    for &page in bad_pages {
        match before[index(page)] {
            Some(frame) => {
                step.frames[index(page)] = (!retire(shared, step, frame, page)).then_some(frame);
                failed.push(frame);
            }
            None => step.keep(page),
        }
    }
    BlockVerdict::Failed(failed)
}

/// Gives claimed frames back, and returns the verdict for their source. The kernel retires those with real errors.
/// Frames that were lost before their verdict count as not tested.
fn verdict_on_claims(
    shared: &DaemonContext<'_>,
    step: &mut Step<StepMemory>,
    ended: Ended,
    mut bad: Vec<Frame>,
) -> BlockVerdict {
    let parts = step.region.parts();
    let StepMemory::Chosen(chosen) = &mut step.region else { return BlockVerdict::NotTested };
    let awaits = |frame: Frame| lock(&shared.published.findings).awaits_retirement(frame);
    let is_real = |frame: Frame| shared.prepared.known_bad.contains(&frame) || awaits(frame);
    let warn = |why: &str| shared.observer.warned(why);
    let mut any_tested = false;
    for (mut claimed, pages) in chosen.end().into_iter().zip(parts) {
        let struck = see_hardware_errors(shared.machine, &shared.published, &claimed, warn);
        if !struck.is_empty() {
            shared.publish();
        }
        bad.extend(struck);
        let own = bad.iter().copied().filter(|frame| claimed.frames().contains(*frame));
        let real: Vec<Frame> = own.filter(|frame| is_real(*frame)).collect();
        let judged = match (ended, claimed.loss()) {
            (Ended::Whole, None) => ClaimVerdict::Tested(&real),
            _ => ClaimVerdict::NotTested(&real),
        };
        let (retired, given) = give_back_claimed(shared.machine, &shared.published, &mut claimed, judged, warn);
        for (frame, retirement) in retired {
            shared.happened(&DaemonEvent::Retired { frame, retirement });
        }
        if matches!(judged, ClaimVerdict::Tested(_)) && given.is_ok() {
            any_tested = true;
        } else {
            step.frames[pages].fill(None);
        }
    }
    match (bad.is_empty(), any_tested) {
        (false, _) => BlockVerdict::Failed(bad),
        (true, true) => BlockVerdict::Good,
        (true, false) => BlockVerdict::NotTested,
    }
}

fn index(page: u64) -> usize {
    usize::try_from(page).expect("a page of a step")
}

/// Asks the kernel to retire a frame with a real error; returns whether it did.
fn retire(shared: &DaemonContext<'_>, step: &mut Step<StepMemory>, frame: Frame, page: u64) -> bool {
    let StepMemory::Program(block) = &mut step.region else { return false };
    let place = (block, page);
    let retired = retire_if_bad(shared.machine, &shared.published, place, frame, |why| shared.observer.warned(why));
    let Some(retirement) = retired else { return false };
    let offline = retirement == Retirement::Offlined;
    shared.happened(&DaemonEvent::Retired { frame, retirement });
    offline
}

/// Marches over a step, part by part of its memory and of the stage that comes next. Notes the pages on which there
/// were mismatches. Parts that the kernel has taken back are left out.
fn march(shared: &DaemonContext<'_>, job: &mut Job, frames: &[Option<Frame>]) -> Ended {
    let pace = if job.step.region.is_waited_for() { Pace::AtOnce } else { Pace::Shares };
    let mut shift = Shift { shared, pace, began: Instant::now(), worked: Duration::ZERO };
    let mut ended = Ended::Stopped;
    for (part, pages) in job.step.region.parts().into_iter().enumerate() {
        match march_over(job, part, pages.start, &frames[pages], &mut shift) {
            PartEnd::Whole => ended = Ended::Whole,
            PartEnd::Lost => {}
            PartEnd::Stopped => return Ended::Stopped,
        }
    }
    shift.count();
    job.worked += shift.worked;
    if ended == Ended::Whole && job.stage == job.plan.tested_after() && !job.step.region.is_waited_for() {
        shared.took(job.step.region.bytes(), job.plan.fidelity(), job.worked);
    }
    ended
}

fn march_over(
    job: &mut Job,
    part: usize,
    first_page: usize,
    frames: &[Option<Frame>],
    shift: &mut Shift<'_, '_>,
) -> PartEnd {
    let shared = shift.shared;
    let Job { step, plan, injected, emulator, bad_pages, hold, .. } = job;
    let Some(mut access) = step.region.access(part) else { return PartEnd::Lost };
    let address = access.address();
    let frame_now = |address| shared.machine.frame_at(address);
    let frame_now = (!hold.holds_frames()).then_some(&frame_now as &dyn Fn(u64) -> Option<Frame>);
    let executor = shared.prepared.march.executor();
    let mut end = PartEnd::Whole;
    for planned in &plan.stages()[job.stage] {
        let under_test = BlockUnderTest { frames, address, injected, pass: planned.pass, frame_now };
        let mut watch = TesterWatch { under_test, first_page: first_page as u64, bad_pages, shift };
        if !executor.run_part(&mut access.region(), planned, emulator.as_mut(), &mut watch).completed {
            end = PartEnd::Stopped;
            break;
        }
    }
    let StepAccess::Program(_, surviving) = &access else {
        return if StepAccess::is_lost() { PartEnd::Lost } else { end };
    };
    let warn = |why: &str| shared.observer.warned(why);
    let lost = see_page_errors(shared.machine, &shared.published, (address, frames), surviving, warn);
    let is_lost = !lost.is_empty() || surviving.loss().is_some();
    bad_pages.extend(lost.into_iter().map(|page| first_page as u64 + page));
    if is_lost { PartEnd::Lost } else { end }
}

/// Returns the faults to inject into a step: faults of named frames whenever these frames are claimed; faults at random
/// places once, in the first steps of the usual size, because frames in which these are found stay out of use.
fn faults_to_inject(shared: &DaemonContext<'_>, memory: &StepMemory, frames: &[Option<Frame>]) -> InjectedFaults {
    let campaign = shared.prepared.campaign.as_ref().filter(|_| memory.parts().len() == 1);
    let Some(campaign) = campaign else { return InjectedFaults::default() };
    let mut faults = campaign.in_frames(frames);
    if memory.bytes() == shared.prepared.step {
        faults.extend(campaign.in_region(shared.next_region()));
    }
    InjectedFaults::new(faults)
}

/// A tester's time on one step: the work, and the rests that keep it within its share.
struct Shift<'a, 'b> {
    shared: &'a DaemonContext<'b>,
    pace: Pace,
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
        self.shared.interruption.halted() || StepAccess::is_lost() || self.shared.interruption.takes_back()
    }

    fn rest(&mut self, time: Duration) -> ControlFlow<()> {
        rest(time, || self.is_interrupted())?;
        self.began = Instant::now();
        ControlFlow::Continue(())
    }
}

/// Whether a tester rests for a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// As the shares say.
    Shares,
    /// It does not: a task waits.
    AtOnce,
}

impl Pace {
    /// Whether a tester that has worked for so long rests now.
    fn rests_after(self, worked: Duration) -> bool {
        self == Self::Shares && worked >= SHIFT
    }
}

struct TesterWatch<'a, 'b, 'c> {
    under_test: BlockUnderTest<'a>,
    /// The first page of the part in its step.
    first_page: u64,
    bad_pages: &'a mut BTreeSet<u64>,
    shift: &'a mut Shift<'b, 'c>,
}

impl Watch for TesterWatch<'_, '_, '_> {
    fn mismatch(&mut self, seen: &Mismatch) {
        // Other memory has come in the place of the frame: what it holds says nothing of it.
        if is_page_lost(seen.line.page()) {
            return;
        }
        let shared = self.shift.shared;
        let page = self.under_test.note(seen, shared.machine.clock.now(), &shared.published.findings);
        self.bad_pages.insert(self.first_page + page);
    }

    fn advanced(&mut self, operations: u64) -> ControlFlow<()> {
        lock(&self.shift.shared.sums).traffic += operations * LINE_BYTES;
        if self.shift.is_interrupted() {
            return ControlFlow::Break(());
        }
        if self.shift.pace.rests_after(self.shift.began.elapsed()) {
            let worked = self.shift.count();
            return self.shift.rest(self.shift.shared.rest_after(worked));
        }
        ControlFlow::Continue(())
    }

    fn pause(&mut self, time: Duration) -> ControlFlow<()> {
        self.shift.count();
        self.shift.rest(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tester_rests_after_each_shift_unless_a_task_waits() {
        let just_below = SHIFT - Duration::from_nanos(1);
        assert_eq!([just_below, SHIFT].map(|worked| Pace::Shares.rests_after(worked)), [false, true]);
        assert_eq!([just_below, SHIFT].map(|worked| Pace::AtOnce.rests_after(worked)), [false, false]);
    }
}
