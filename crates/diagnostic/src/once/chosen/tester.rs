//! One tester of chosen frames: a thread on its own CPU that claims, tests and gives back.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::kernel_module::{ClaimVerdict, ClaimWay, ClaimedFrames, VerdictRefusal, late_touch};
use rampart_linux::{CpuNumber, cpu};
use rampart_march::Plan;
use rampart_march::execute::limit::Limit;
use rampart_march::execute::{Mismatch, Region, Watch};
use rampart_memory::Frame;

use super::choice::free_runs;
use super::schedule::{FramePiece, NextPiece};
use super::shared::ChosenContext;
use crate::testing::injected::InjectedFaults;
use crate::testing::interruption::rest;
use crate::testing::mismatch::BlockUnderTest;
use crate::testing::publishing::lock;
use crate::testing::retire::{give_back_claimed, warn_of_hardware_error};

/// How long a tester without work sleeps before it asks again.
const IDLE: Duration = Duration::from_millis(5);

/// The most pieces that rest at once before their delayed read: 64 MiB a tester.
const MOST_RESTING: usize = 4;

/// A piece that is claimed.
struct ClaimedPiece {
    piece: FramePiece,
    frames: ClaimedFrames,
    plan: Plan,
    pass: u32,
    /// The next stage of its plan, and since when it may begin.
    stage: usize,
    ready: Duration,
    /// Its frames with a mismatch.
    bad: BTreeSet<Frame>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageEnd {
    Whole,
    Stopped,
    /// The frames were taken away.
    Lost,
}

/// Tests pieces until the test is over.
pub fn work(shared: &ChosenContext<'_>, on: CpuNumber) {
    // A tester that cannot be bound or given a lower priority tests nevertheless.
    let _unbound = cpu::bind(on);
    let _unslowed = cpu::be_nice(cpu::Niceness::MOST);
    let mut resting: VecDeque<ClaimedPiece> = VecDeque::new();
    let mut measured = false;
    while !shared.interruption.halted() {
        if resting.front().is_some_and(|piece| piece.ready <= shared.elapsed()) {
            let piece = resting.pop_front().expect("a first piece");
            go_on(shared, piece, &mut resting);
            continue;
        }
        let next = if resting.len() < MOST_RESTING { shared.next() } else { NextPiece::Wait };
        match next {
            NextPiece::Claim(piece) => {
                let Some(mut claimed) = claim(shared, piece) else { continue };
                if !measured {
                    measured = true;
                    measure(shared, &mut claimed);
                }
                go_on(shared, claimed, &mut resting);
            }
            NextPiece::Wait => thread::sleep(IDLE),
            NextPiece::Finished if resting.is_empty() => return,
            NextPiece::Finished => thread::sleep(IDLE),
        }
    }
}

fn measure(shared: &ChosenContext<'_>, claimed: &mut ClaimedPiece) {
    let limit = Limit::measure(shared.test.march.engine, &mut Region::from(&mut claimed.frames.access()));
    lock(&shared.sums).limits.push(limit);
}

fn claim(shared: &ChosenContext<'_>, piece: FramePiece) -> Option<ClaimedPiece> {
    let way = if shared.test.choice.used { ClaimWay::Move } else { ClaimWay::Free };
    match shared.test.device.claim(piece.frames, way) {
        Ok(frames) => {
            lock(&shared.sums).moved += frames.moved();
            let pass = shared.schedule().pass();
            let plan = shared.test.request.plan(pass);
            let bad = shared.test.known_bad.iter().copied().filter(|frame| piece.frames.contains(*frame)).collect();
            Some(ClaimedPiece { piece, frames, plan, pass, stage: 0, ready: Duration::ZERO, bad })
        }
        Err(refusal) => {
            let free = free_runs(piece.frames, &shared.test.machine.classes(piece.frames));
            shared.schedule().refused(piece, &refusal, &free, shared.elapsed());
            None
        }
    }
}

/// Runs the next stage of a piece; then it rests, or is given back.
fn go_on(shared: &ChosenContext<'_>, mut claimed: ClaimedPiece, resting: &mut VecDeque<ClaimedPiece>) {
    match march(shared, &mut claimed) {
        StageEnd::Stopped => {}
        StageEnd::Lost => {
            warn_of_hardware_error(&claimed.frames, |why| shared.test.observer.warned(why));
            lost(shared, claimed.piece);
        }
        StageEnd::Whole => {
            claimed.stage += 1;
            if claimed.stage <= claimed.plan.rests() {
                claimed.ready = shared.elapsed() + shared.test.request.retention;
                return resting.push_back(claimed);
            }
            if give_back(shared, &mut claimed) == Err(VerdictRefusal::Late) {
                return lost(shared, claimed.piece);
            }
            lock(&shared.sums).add_tested(claimed.pass, claimed.piece.frames);
            shared.schedule().tested(shared.elapsed());
        }
    }
}

/// The kernel has taken a piece back before its test ended.
fn lost(shared: &ChosenContext<'_>, piece: FramePiece) {
    lock(&shared.sums).lost += piece.frames.count();
    shared.schedule().lost(piece, shared.elapsed());
}

/// Gives a tested piece back.
fn give_back(shared: &ChosenContext<'_>, claimed: &mut ClaimedPiece) -> Result<(), VerdictRefusal> {
    shared.publish();
    let bad: Vec<Frame> = claimed.bad.iter().copied().collect();
    let (machine, verdict) = (shared.test.machine, ClaimVerdict::Tested(&bad));
    let warn = |why: &str| shared.test.observer.warned(why);
    let (_, given) = give_back_claimed(machine, &shared.published, &mut claimed.frames, verdict, warn);
    shared.publish();
    given
}

/// Runs the next stage of a piece's plan, part by part.
fn march(shared: &ChosenContext<'_>, claimed: &mut ClaimedPiece) -> StageEnd {
    let frames: Vec<Option<Frame>> = claimed.piece.frames.frames().map(Some).collect();
    let address = claimed.frames.base().addr().get() as u64;
    let executor = shared.test.march.executor();
    let began = Instant::now();
    let mut paused = Duration::ZERO;
    let mut injected = InjectedFaults::default();
    let mut access = claimed.frames.access();
    for part in &claimed.plan.stages()[claimed.stage] {
        let under_test =
            BlockUnderTest { frames: &frames, address, injected: &mut injected, pass: part.pass, frame_now: None };
        let mut watch = PieceWatch { shared, under_test, bad: &mut claimed.bad, paused, ended: StageEnd::Whole };
        executor.run_part(&mut Region::from(&mut access), part, None, &mut watch);
        paused = watch.paused;
        let ended = if late_touch() { StageEnd::Lost } else { watch.ended };
        if ended != StageEnd::Whole {
            return ended;
        }
    }
    lock(&shared.sums).busy += began.elapsed().saturating_sub(paused);
    StageEnd::Whole
}

struct PieceWatch<'a, 'b> {
    shared: &'a ChosenContext<'b>,
    under_test: BlockUnderTest<'a>,
    bad: &'a mut BTreeSet<Frame>,
    /// Time spent in delays, which does not count as testing.
    paused: Duration,
    ended: StageEnd,
}

impl PieceWatch<'_, '_> {
    fn check_interruption(&mut self) -> ControlFlow<()> {
        self.ended = if self.shared.interruption.halted() {
            StageEnd::Stopped
        } else if late_touch() {
            StageEnd::Lost
        } else {
            return ControlFlow::Continue(());
        };
        ControlFlow::Break(())
    }
}

impl Watch for PieceWatch<'_, '_> {
    fn mismatch(&mut self, seen: &Mismatch) {
        // Other memory has come in the place of the frames: what it holds says nothing of them.
        if late_touch() {
            return;
        }
        let at = self.shared.test.machine.clock.now();
        let page = self.under_test.note(seen, at, &self.shared.published.findings);
        let page = usize::try_from(page).expect("a page of a piece");
        self.bad.extend(self.under_test.frames[page]);
    }

    fn advanced(&mut self, _operations: u64) -> ControlFlow<()> {
        self.check_interruption()
    }

    fn pause(&mut self, time: Duration) -> ControlFlow<()> {
        self.paused += time;
        rest(time, || self.check_interruption().is_break())
    }
}
