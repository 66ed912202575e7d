//! One tester: a thread on a CPU of its own that claims, pins, tests, and holds.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::{Block, CpuNumber, PageKind, cpu};
use rampart_march::execute::limit::Limit;
use rampart_march::execute::{Executor, Mismatch, Region, Watch};
use rampart_march::{Plan, promises};
use rampart_memory::fault::Emulator;
use rampart_memory::fault_map::Retirement;
use rampart_memory::{Bytes, Frame};

use super::shared::{Compared, HeldBlock, TestContext};
use crate::once::schedule::Next;
use crate::testing::frames::note_pinning;
use crate::testing::injected::{InjectedFaults, InjectedTally};
use crate::testing::mismatch::Scene;
use crate::testing::prepare::lines;
use crate::testing::publishing::lock;

/// The wait of a tester without work before it asks again.
const IDLE: Duration = Duration::from_millis(5);

/// How often a block is tested again because the kernel moved its frames.
const RETRIES: u32 = 3;

/// Tests blocks until there are no more.
pub fn work(shared: &TestContext<'_>, on: CpuNumber) {
    // A tester that cannot be bound or slowed down tests all the same.
    let _unbound = cpu::bind(on);
    let _unslowed = cpu::be_nice(cpu::Niceness::MOST);
    let mut measured = false;
    loop {
        match shared.next() {
            Next::Claim { index, bytes } => {
                let Some(mut held) = claim(shared, index, bytes) else { continue };
                if !measured {
                    let limit = Limit::measure(shared.prepared.engine, &mut Region::from(&mut held.block));
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
            shared.ledger().claimed(bytes);
            let mut held = HeldBlock::new(index, block);
            hold_known(shared, &mut held);
            Some(held)
        }
        Err(error) => {
            shared.ledger().refused(index, bytes, shared.elapsed());
            shared.warn_of_refusal(&error);
            None
        }
    }
}

/// Tests one block until it rests or is done; then it is held, unless programs need it.
fn test(shared: &TestContext<'_>, mut held: HeldBlock) {
    let pinning = held.block.pin().pinning;
    let mut now = Vec::new();
    shared.machine.frames(&held.block, &mut now);
    let pass = shared.ledger().pass();
    let plan = shared.prepared.plan(shared.request, pass);
    if held.stage == 0 {
        begin(shared, &mut held, &now);
    }
    // Pages that moved while the block rested say nothing about a frame.
    let frames = held.stayed(&now);
    let ended = march(shared, &mut held, &frames, &plan);
    shared.machine.frames(&held.block, &mut now);
    held.block.unpin();
    shared.publish();
    note_pinning(&mut lock(&shared.sums).pinning, pinning);
    let again = ended == Ended::Whole && held.stage == plan.tested_after() && !count(shared, &mut held, &now, pass);
    retire(shared, &mut held, &frames);
    match ended {
        Ended::WantedBack => {
            shared.ledger().dropped(held.block.bytes());
            shared.give_away(held);
        }
        Ended::Stopped => shared.ledger().hold(held, shared.elapsed()),
        Ended::Whole if again => {
            (held.stage, held.retries) = (0, held.retries + 1);
            shared.ledger().again(held);
        }
        Ended::Whole => go_on(shared, held, &plan),
    }
}

/// Retires frames of the map that came up in a block: their pages are ours now, and can be moved. A frame that the
/// kernel still does not retire is held until the test ends, whatever the test finds.
fn hold_known(shared: &TestContext<'_>, held: &mut HeldBlock) {
    if shared.known_bad.is_empty() {
        return;
    }
    let mut frames = Vec::new();
    shared.machine.frames(&held.block, &mut frames);
    for (page, frame) in (0..).zip(frames) {
        let Some(frame) = frame.filter(|frame| shared.known_bad.contains(frame)) else { continue };
        match shared.machine.retire_own(frame, &mut held.block, page) {
            Retirement::Offlined => shared.witness.said(&format!("known bad   frame {frame} is retired")),
            _ => held.bad.push(page),
        }
    }
}

/// Begins a pass over a block on these frames.
fn begin(shared: &TestContext<'_>, held: &mut HeldBlock, now: &[Option<Frame>]) {
    held.frames.clear();
    held.frames.extend_from_slice(now);
    held.retired.clear();
    if !held.tested && held.retries == 0 {
        held.planted = plant(shared, held.index, &held.block, now);
    }
    held.emulator =
        (!held.planted.is_empty()).then(|| Emulator::new(held.planted.faults().to_vec(), shared.request.seed));
}

/// Records that the march tests of a block are complete. Returns whether they are, or must be repeated because the
/// kernel moved frames: the pages' new frames were not tested.
fn count(shared: &TestContext<'_>, held: &mut HeldBlock, now: &[Option<Frame>], pass: u32) -> bool {
    let mut seen = Compared::new(&held.frames, now, &held.retired);
    if !held.tested && !seen.is_whole() && held.retries < RETRIES {
        return false;
    }
    if held.tested {
        // The reached frames are known: a move in a later pass takes nothing away.
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

/// A stage is done: the block rests before the next one, or is held.
fn go_on(shared: &TestContext<'_>, mut held: HeldBlock, plan: &Plan) {
    let tested = held.stage >= plan.tested_after();
    held.stage += 1;
    let now = shared.elapsed();
    if held.stage <= plan.rests() {
        return shared.ledger().rest(held, tested, now, now + shared.request.retention);
    }
    held.stage = 0;
    held.read_late = plan.rests() > 0;
    held.emulator = None;
    held.frames = Vec::new();
    if !held.planted.is_empty() {
        let tally = tally(shared, plan, &held);
        lock(&shared.sums).tallies.insert(held.index, tally);
    }
    shared.ledger().hold(held, now);
}

/// The faults of a block. A block that is smaller than its part of the test has those inside of it.
fn plant(shared: &TestContext<'_>, index: u64, block: &Block, frames: &[Option<Frame>]) -> InjectedFaults {
    let Some(campaign) = &shared.prepared.campaign else { return InjectedFaults::default() };
    let mut faults = campaign.in_region(index);
    faults.extend(campaign.in_frames(frames));
    faults.retain(|fault| fault.lines().iter().all(|line| line.0 < lines(block.bytes())));
    InjectedFaults::new(faults)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Whole,
    Stopped,
    WantedBack,
}

/// Runs the next stage over a block, part by part.
fn march(shared: &TestContext<'_>, held: &mut HeldBlock, frames: &[Option<Frame>], plan: &Plan) -> Ended {
    let address = held.block.base().as_ptr().addr() as u64;
    let executor = Executor { engine: shared.prepared.engine, settings: shared.prepared.settings };
    let began = Instant::now();
    let mut paused = Duration::ZERO;
    let stages = plan.stages();
    for part in &stages[held.stage] {
        let scene = Scene { frames, address, planted: &mut held.planted, step: part.pass };
        let mut watch = TesterWatch { shared, scene, retired: &held.retired, paused, ended: Ended::Whole };
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
    held.planted.tally(|fault| promises(plan, fault, lines, &shared.prepared.settings))
}

/// Retires the bad frames of an unpinned block: the kernel moves our page elsewhere. A frame that it refuses to retire
/// stays ours until the test ends.
fn retire(shared: &TestContext<'_>, held: &mut HeldBlock, frames: &[Option<Frame>]) {
    for (page, &frame) in (0..).zip(frames) {
        let Some(frame) = frame.filter(|&frame| lock(&shared.published.findings).awaits_retirement(frame)) else {
            continue;
        };
        let retirement = shared.machine.retire_own(frame, &mut held.block, page);
        if let Retirement::Refused(why) = &retirement {
            shared.witness.warned(&format!("NOT retired frame {frame}: {why}"));
            if !held.bad.contains(&page) {
                held.bad.push(page);
            }
        } else {
            // It was tested enough: it failed. The page is on another frame now, in the middle of its test.
            lock(&shared.sums).frames.insert(frame);
            held.retired.insert(page);
            if let Some(known) = held.frames.get_mut(usize::try_from(page).expect("a page of a block")) {
                *known = None;
            }
        }
        lock(&shared.published.findings).retired(frame, retirement);
    }
}

struct TesterWatch<'a, 'b> {
    shared: &'a TestContext<'b>,
    scene: Scene<'a>,
    /// Pages whose bad frames were retired while the block rested.
    retired: &'a BTreeSet<u64>,
    /// Time of delays, without testing.
    paused: Duration,
    ended: Ended,
}

impl TesterWatch<'_, '_> {
    fn look(&mut self) -> ControlFlow<()> {
        self.ended = if self.shared.halted() {
            Ended::Stopped
        } else if self.shared.takes_back() {
            Ended::WantedBack
        } else {
            return ControlFlow::Continue(());
        };
        ControlFlow::Break(())
    }
}

impl Watch for TesterWatch<'_, '_> {
    fn mismatch(&mut self, seen: &Mismatch) {
        // The kernel copied the bad frame's content, wrong bits included: they say nothing about the page's new frame.
        if self.retired.contains(&seen.line.page()) {
            return;
        }
        let at = self.shared.machine.clock.now();
        self.scene.note(seen, at, &self.shared.published.findings);
    }

    fn advanced(&mut self, _operations: u64) -> ControlFlow<()> {
        self.look()
    }

    fn pause(&mut self, time: Duration) -> ControlFlow<()> {
        let end = Instant::now() + time;
        self.paused += time;
        loop {
            self.look()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return ControlFlow::Continue(());
            }
            thread::sleep(left.min(Duration::from_millis(10)));
        }
    }
}
