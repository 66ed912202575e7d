//! One tester: a thread on its own CPU that claims, pins, tests and holds blocks.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::memory_loss::is_page_lost;
use rampart_linux::{Block, CpuNumber, PageKind, cpu};
use rampart_march::execute::limit::Limit;
use rampart_march::execute::{Mismatch, Region, Watch};
use rampart_march::{Plan, guarantees};
use rampart_memory::fault::Emulator;
use rampart_memory::fault_map::Retirement;
use rampart_memory::{Bytes, Frame};

use super::shared::{Compared, HeldBlock, TestContext};
use crate::once::schedule::Next;
use crate::testing::frames::note_pinning;
use crate::testing::injected::{InjectedFaults, InjectedTally};
use crate::testing::interruption::rest;
use crate::testing::mismatch::BlockUnderTest;
use crate::testing::prepare::lines;
use crate::testing::publishing::lock;
use crate::testing::retire::{retire_if_bad, see_page_errors};

/// How long a tester without work sleeps before it asks again.
const IDLE: Duration = Duration::from_millis(5);

/// How often a block is tested again because the kernel moved its frames, or took its memory away.
const RETRIES: u32 = 3;

/// Tests blocks until the test is over.
pub fn work(shared: &TestContext<'_>, on: CpuNumber) {
    // A tester that cannot be bound or given a lower priority tests nevertheless.
    let _unbound = cpu::bind(on);
    let _unslowed = cpu::be_nice(cpu::Niceness::MOST);
    let mut measured = false;
    loop {
        match shared.next() {
            Next::Claim { index, bytes } => {
                let Some(mut held) = claim(shared, index, bytes) else { continue };
                if !measured {
                    let _survives = held.block.access();
                    let limit = Limit::measure(shared.prepared.march.engine, &mut Region::from(&mut held.block));
                    lock(&shared.sums).limits.push(limit);
                    measured = true;
                }
                test(shared, held);
            }
            Next::Again(held) => test(shared, held),
            Next::Wait => thread::sleep(IDLE),
            Next::Finished => return,
        }
    }
}

fn claim(shared: &TestContext<'_>, index: u64, bytes: Bytes) -> Option<HeldBlock> {
    match Block::claim(bytes, PageKind::Huge) {
        Ok(block) => {
            shared.schedule().claimed(bytes);
            let mut held = HeldBlock::new(index, block);
            hold_known(shared, &mut held);
            Some(held)
        }
        Err(error) => {
            shared.schedule().refused(index, bytes, shared.elapsed());
            shared.warn_of_refusal(&error);
            None
        }
    }
}

/// Tests one block until it rests or its test is complete; then holds it, unless programs need it back.
fn test(shared: &TestContext<'_>, mut held: HeldBlock) {
    let pinning = shared.machine.pin(&mut held.block);
    let mut now = Vec::new();
    shared.machine.frames(&held.block, &mut now);
    let pass = shared.schedule().pass();
    let plan = shared.request.plan(pass);
    if held.stage == 0 {
        begin(shared, &mut held, &now);
    }
    // A mismatch in a page that moved while the block rested says nothing about a frame.
    let frames = held.stayed(&now);
    let ended = march(shared, &mut held, &frames, &plan);
    shared.machine.frames(&held.block, &mut now);
    held.block.unpin();
    shared.publish();
    note_pinning(&mut lock(&shared.sums).pinning, pinning);
    let again = match ended {
        Ended::Whole => held.stage == plan.tested_after() && !count(shared, &mut held, &now, pass),
        Ended::Lost => held.retries < RETRIES,
        Ended::Stopped | Ended::NeededBack => false,
    };
    retire(shared, &mut held, &frames);
    match ended {
        Ended::Whole | Ended::Lost if again => {
            (held.stage, held.retries) = (0, held.retries + 1);
            shared.schedule().again(held);
        }
        Ended::NeededBack | Ended::Lost => {
            shared.schedule().dropped(held.block.bytes());
            shared.give_away(held);
        }
        Ended::Stopped => shared.schedule().hold(held, shared.elapsed()),
        Ended::Whole => go_on(shared, held, &plan),
    }
}

/// Retires frames of the fault map that were claimed with a block: their pages belong to this process now, and can be
/// moved. A frame that the kernel still does not retire is held until the test ends, whatever the test finds in it.
fn hold_known(shared: &TestContext<'_>, held: &mut HeldBlock) {
    if shared.known_bad.is_empty() {
        return;
    }
    let mut frames = Vec::new();
    shared.machine.frames(&held.block, &mut frames);
    for (page, frame) in (0..).zip(frames) {
        let Some(frame) = frame.filter(|frame| shared.known_bad.contains(frame)) else { continue };
        match shared.machine.retire_own(frame, &mut held.block, page) {
            Retirement::Offlined => shared.observer.said(&format!("known bad   frame {frame} is retired")),
            _ => held.note_bad(page),
        }
    }
}

/// Begins a pass over a block whose pages are in the frames `now`.
fn begin(shared: &TestContext<'_>, held: &mut HeldBlock, now: &[Option<Frame>]) {
    held.frames.clear();
    held.frames.extend_from_slice(now);
    held.retired.clear();
    if !held.tested && held.retries == 0 {
        held.injected = faults_to_inject(shared, held.index, &held.block, now);
    }
    held.emulator =
        (!held.injected.is_empty()).then(|| Emulator::new(held.injected.faults().to_vec(), shared.request.seed));
}

/// Counts the march tests of a block as complete and returns true; returns false if the block must be tested again
/// because the kernel moved its pages to frames that were not tested.
fn count(shared: &TestContext<'_>, held: &mut HeldBlock, now: &[Option<Frame>], pass: u32) -> bool {
    let mut seen = Compared::new(&held.frames, now, &held.retired);
    if !held.tested && !seen.is_whole() && held.retries < RETRIES {
        return false;
    }
    if held.tested {
        // The frames tested in the first pass are known: a move in a later pass does not matter.
        (seen.moved, seen.unreadable, seen.unknown) = (0, 0, 0);
    }
    let known_bad = seen.same.extract_if(.., |frame| shared.known_bad.contains(frame)).count() as u64;
    let mut sums = lock(&shared.sums);
    sums.known_bad += if held.tested { 0 } else { known_bad };
    held.tested = true;
    held.unknown += seen.unknown;
    sums.add_tested(pass, &seen);
    sums.bytes += held.block.bytes().get();
    true
}

/// Ends a stage: the block rests before the next one, or is held.
fn go_on(shared: &TestContext<'_>, mut held: HeldBlock, plan: &Plan) {
    let tested = held.stage >= plan.tested_after();
    held.stage += 1;
    let now = shared.elapsed();
    if held.stage <= plan.rests() {
        return shared.schedule().rest(held, tested, now, now + shared.request.retention);
    }
    held.stage = 0;
    held.read_late = true;
    held.emulator = None;
    held.frames = Vec::new();
    if !held.injected.is_empty() {
        let tally = tally(shared, plan, &held);
        lock(&shared.sums).tallies.insert(held.index, tally);
    }
    shared.schedule().hold(held, now);
}

/// The injected faults of a block: those that lie completely within it, because a block may be smaller than its part of
/// the request.
fn faults_to_inject(shared: &TestContext<'_>, index: u64, block: &Block, frames: &[Option<Frame>]) -> InjectedFaults {
    let Some(campaign) = &shared.prepared.campaign else { return InjectedFaults::default() };
    let mut faults = campaign.in_region(index);
    faults.extend(campaign.in_frames(frames));
    let within = 0..lines(block.bytes());
    faults.retain(|fault| fault.lines().iter().all(|line| within.contains(&line.0)));
    InjectedFaults::new(faults)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Whole,
    Stopped,
    NeededBack,
    /// All of its memory was taken away after an error of the hardware.
    Lost,
}

/// Runs the next stage of a block's plan. Notes the pages in which the hardware reported errors.
fn march(shared: &TestContext<'_>, held: &mut HeldBlock, frames: &[Option<Frame>], plan: &Plan) -> Ended {
    let access = held.block.access();
    let ended = march_parts(shared, held, frames, plan);
    let address = held.block.base().addr().get() as u64;
    let warn = |why: &str| shared.observer.warned(why);
    held.retired.extend(see_page_errors(shared.machine, &shared.published, (address, frames), &access, warn));
    if access.loss().is_some() { Ended::Lost } else { ended }
}

/// The same, part by part.
fn march_parts(shared: &TestContext<'_>, held: &mut HeldBlock, frames: &[Option<Frame>], plan: &Plan) -> Ended {
    let address = held.block.base().as_ptr().addr() as u64;
    let executor = shared.prepared.march.executor();
    let frame_now = |address| shared.machine.frame_at(address);
    let frame_now = (!held.block.pinning().holds_frames()).then_some(&frame_now as &dyn Fn(u64) -> Option<Frame>);
    let began = Instant::now();
    let mut paused = Duration::ZERO;
    let stages = plan.stages();
    for part in &stages[held.stage] {
        let under_test = BlockUnderTest { frames, address, injected: &mut held.injected, pass: part.pass, frame_now };
        let mut watch = TesterWatch { shared, under_test, retired: &held.retired, paused, ended: Ended::Whole };
        executor.run_part(&mut Region::from(&mut held.block), part, held.emulator.as_mut(), &mut watch);
        paused = watch.paused;
        if watch.ended != Ended::Whole {
            return watch.ended;
        }
    }
    lock(&shared.sums).busy += began.elapsed().saturating_sub(paused);
    Ended::Whole
}

fn tally(shared: &TestContext<'_>, plan: &Plan, held: &HeldBlock) -> InjectedTally {
    let lines = lines(held.block.bytes());
    held.injected.tally(|fault| guarantees(plan, fault, lines, &shared.prepared.march.settings))
}

/// Retires the bad frames of an unpinned block: the kernel moves the page elsewhere. A frame that it does not retire is
/// held until the test ends.
fn retire(shared: &TestContext<'_>, held: &mut HeldBlock, frames: &[Option<Frame>]) {
    for (page, &frame) in (0..).zip(frames) {
        let Some(frame) = frame else { continue };
        let place = (&mut held.block, page);
        match retire_if_bad(shared.machine, &shared.published, place, frame, |why| shared.observer.warned(why)) {
            None => {}
            Some(Retirement::Refused(_)) => held.note_bad(page),
            Some(_) => {
                // The frame failed and needs no further test. During the test, the page has moved to another frame.
                lock(&shared.sums).frames.insert(frame);
                held.retired.insert(page);
                if let Some(known) = held.frames.get_mut(usize::try_from(page).expect("a page of a block")) {
                    *known = None;
                }
            }
        }
    }
}

struct TesterWatch<'a, 'b> {
    shared: &'a TestContext<'b>,
    under_test: BlockUnderTest<'a>,
    /// Pages whose bad frames were retired while the block rested.
    retired: &'a BTreeSet<u64>,
    /// Time spent in delays, which does not count as testing.
    paused: Duration,
    ended: Ended,
}

impl TesterWatch<'_, '_> {
    fn check_interruption(&mut self) -> ControlFlow<()> {
        self.ended = if self.shared.interruption.halted() {
            Ended::Stopped
        } else if self.shared.interruption.takes_back() {
            Ended::NeededBack
        } else {
            return ControlFlow::Continue(());
        };
        ControlFlow::Break(())
    }
}

impl Watch for TesterWatch<'_, '_> {
    fn mismatch(&mut self, seen: &Mismatch) {
        // The kernel copied the content of the bad frame, with its wrong bits, or the page is a new one: what is read
        // says nothing about its present frame.
        let page = seen.line.page();
        if self.retired.contains(&page) || is_page_lost(page) {
            return;
        }
        let at = self.shared.machine.clock.now();
        self.under_test.note(seen, at, &self.shared.published.findings);
    }

    fn advanced(&mut self, _operations: u64) -> ControlFlow<()> {
        self.check_interruption()
    }

    fn pause(&mut self, time: Duration) -> ControlFlow<()> {
        self.paused += time;
        rest(time, || self.check_interruption().is_break())
    }
}

#[cfg(test)]
pub(super) mod tests;
