//! One tester: a thread on a CPU of its own that claims, pins, marches, and holds.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::{Block, Cpu, PageKind, cpu};
use rampart_march::execute::limit::Limit;
use rampart_march::execute::{Executor, Mismatch, Region, Watch};
use rampart_march::{Plan, promises};
use rampart_memory::fault::Emulator;
use rampart_memory::fault_map::Retirement;
use rampart_memory::{Bytes, Frame};

use super::prepare::lines;
use super::shared::{HeldBlock, Shared, lock};
use crate::ledger::Next;
use crate::mismatch::Scene;
use crate::planted::{Planted, Tally};

/// How long a tester without work waits before it asks again.
const IDLE: Duration = Duration::from_millis(5);

/// Tests blocks until there are no more.
pub fn work(shared: &Shared<'_>, on: Cpu) {
    // A tester that may not be bound or slowed down tests all the same.
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
                test(shared, held, true);
            }
            Next::Again(held) => test(shared, held, false),
            Next::Wait => thread::sleep(IDLE),
            Next::Finished => return,
        }
    }
}

fn claim(shared: &Shared<'_>, index: u64, bytes: Bytes) -> Option<HeldBlock> {
    match Block::claim(bytes, PageKind::Huge) {
        Ok(block) => {
            shared.ledger().claimed(bytes);
            Some(HeldBlock { index, block, planted: Planted::default(), bad: Vec::new() })
        }
        Err(error) => {
            shared.ledger().refused(bytes);
            lock(&shared.sums).refused += bytes.frames();
            shared.witness.warned(&format!("{error}"));
            None
        }
    }
}

/// Tests one block, and holds it unless programs want it back.
fn test(shared: &Shared<'_>, mut held: HeldBlock, first: bool) {
    let pinning = held.block.pin().pinning;
    let mut before = Vec::new();
    shared.machine.frames(&held.block, &mut before);
    if first {
        held.planted = plant(shared, held.index, &before);
    }
    let pass = shared.ledger().pass();
    let ended = march(shared, &mut held, &before, pass);
    let mut after = Vec::new();
    shared.machine.frames(&held.block, &mut after);
    held.block.unpin();
    shared.publish();
    let mut sums = lock(&shared.sums);
    sums.pinned(pinning);
    match ended {
        Ended::Whole => sums.add_tested(pass, first, &before, &after),
        Ended::Stopped | Ended::WantedBack if first => sums.given_back += held.block.pages(),
        Ended::Stopped | Ended::WantedBack => {}
    }
    drop(sums);
    retire(shared, &mut held, &before);
    if ended == Ended::WantedBack {
        shared.ledger().dropped(held.block.bytes());
        shared.let_go(held);
    } else {
        let now = shared.elapsed();
        shared.ledger().hold(held, now);
    }
}

fn plant(shared: &Shared<'_>, index: u64, frames: &[Option<Frame>]) -> Planted {
    let Some(campaign) = &shared.prepared.campaign else { return Planted::default() };
    let mut faults = campaign.in_region(index);
    faults.extend(campaign.in_frames(frames));
    Planted::new(faults)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Whole,
    Stopped,
    WantedBack,
}

/// Marches over a block, pass of the plan by pass.
fn march(shared: &Shared<'_>, held: &mut HeldBlock, frames: &[Option<Frame>], pass: u32) -> Ended {
    let plan = shared.prepared.plan(shared.request, pass);
    let bytes = held.block.bytes();
    let address = held.block.base().as_ptr().addr() as u64;
    let executor = Executor { engine: shared.prepared.engine, settings: shared.prepared.settings };
    let mut emulator =
        (!held.planted.is_empty()).then(|| Emulator::new(held.planted.faults().to_vec(), shared.request.seed));
    let began = Instant::now();
    let mut paused = Duration::ZERO;
    for step in plan.passes() {
        let scene = Scene { frames, address, planted: &mut held.planted, step };
        let mut watch = TesterWatch { shared, scene, paused, ended: Ended::Whole };
        executor.run(&mut Region::from(&mut held.block), step, emulator.as_mut(), &mut watch);
        paused = watch.paused;
        if watch.ended != Ended::Whole {
            return watch.ended;
        }
    }
    let mut sums = lock(&shared.sums);
    sums.bytes += bytes.get();
    sums.busy += began.elapsed().saturating_sub(paused);
    if !held.planted.is_empty() {
        sums.tallies.insert(held.index, tally(shared, &plan, held));
    }
    Ended::Whole
}

fn tally(shared: &Shared<'_>, plan: &Plan, held: &HeldBlock) -> Tally {
    let lines = lines(held.block.bytes());
    held.planted.tally(|fault| promises(plan, fault, lines, &shared.prepared.settings))
}

/// Retires the bad frames of a block that is tested and unpinned: the kernel moves our page elsewhere. A frame that it will not
/// retire stays ours until the test ends.
fn retire(shared: &Shared<'_>, held: &mut HeldBlock, frames: &[Option<Frame>]) {
    for (page, &frame) in (0..).zip(frames) {
        let Some(frame) = frame.filter(|&frame| lock(&shared.findings).awaits_retirement(frame)) else { continue };
        let retirement = shared.machine.retire_own(frame, &mut held.block, page);
        if let Retirement::Refused(why) = &retirement {
            shared.witness.warned(&format!("NOT retired frame {frame}: {why}"));
            held.bad.push(page);
        }
        lock(&shared.findings).retired(frame, retirement);
    }
}

struct TesterWatch<'a, 'b> {
    shared: &'a Shared<'b>,
    scene: Scene<'a>,
    /// Time spent in delays, which is no testing.
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
        let at = self.shared.machine.clock.now();
        self.scene.note(seen, at, &self.shared.findings);
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
