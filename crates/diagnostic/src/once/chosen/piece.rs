//! A piece that is claimed: its test, stage by stage, and its end.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rampart_linux::kernel_module::{ClaimVerdict, ClaimedFrames, VerdictRefusal};
use rampart_linux::memory_loss::is_all_lost;
use rampart_march::Plan;
use rampart_march::execute::{Mismatch, Region, Watch};
use rampart_memory::Frame;

use super::schedule::FramePiece;
use super::shared::ChosenContext;
use crate::testing::injected::InjectedFaults;
use crate::testing::interruption::rest;
use crate::testing::mismatch::BlockUnderTest;
use crate::testing::publishing::lock;
use crate::testing::retire::{give_back_claimed, see_hardware_errors};

/// A piece that is claimed.
pub struct ClaimedPiece {
    pub piece: FramePiece,
    pub frames: ClaimedFrames,
    pub plan: Plan,
    pub pass: u32,
    /// The next stage of its plan, and since when it may begin.
    pub stage: usize,
    pub ready: Duration,
    /// Its frames with a mismatch.
    bad: BTreeSet<Frame>,
}

impl ClaimedPiece {
    /// Begins with a piece that was claimed.
    pub fn begin(shared: &ChosenContext<'_>, piece: FramePiece, frames: ClaimedFrames) -> Self {
        let pass = shared.schedule().pass();
        let plan = shared.test.request.plan(pass);
        let bad = shared.test.known_bad.iter().copied().filter(|frame| piece.frames.contains(*frame)).collect();
        Self { piece, frames, plan, pass, stage: 0, ready: Duration::ZERO, bad }
    }

    /// Gives a tested piece back.
    pub fn give_back(&mut self, shared: &ChosenContext<'_>) -> Result<(), VerdictRefusal> {
        self.end(shared, |bad| ClaimVerdict::Tested(bad))
    }

    /// Gives back what is left of a piece whose frames were taken away.
    pub fn abandon(mut self, shared: &ChosenContext<'_>) -> FramePiece {
        let warn = |why: &str| shared.test.observer.warned(why);
        self.bad.extend(see_hardware_errors(shared.test.machine, &shared.published, &self.frames, warn));
        // If the claim has ended, the kernel has the good frames, and was asked to retire the bad ones.
        let _given = self.end(shared, |bad| ClaimVerdict::NotTested(bad));
        self.piece
    }

    fn end(
        &mut self,
        shared: &ChosenContext<'_>,
        verdict: impl Fn(&[Frame]) -> ClaimVerdict<'_>,
    ) -> Result<(), VerdictRefusal> {
        shared.publish();
        let bad: Vec<Frame> = self.bad.iter().copied().collect();
        let machine = shared.test.machine;
        let warn = |why: &str| shared.test.observer.warned(why);
        let (_, given) = give_back_claimed(machine, &shared.published, &mut self.frames, verdict(&bad), warn);
        shared.publish();
        given
    }

    /// Runs the next stage of a piece's plan, part by part.
    pub fn march(&mut self, shared: &ChosenContext<'_>) -> StageEnd {
        let frames: Vec<Option<Frame>> = self.piece.frames.frames().map(Some).collect();
        let address = self.frames.base().addr().get() as u64;
        let executor = shared.test.march.executor();
        let began = Instant::now();
        let mut paused = Duration::ZERO;
        let mut injected = InjectedFaults::default();
        let mut access = self.frames.access();
        for part in &self.plan.stages()[self.stage] {
            let under_test =
                BlockUnderTest { frames: &frames, address, injected: &mut injected, pass: part.pass, frame_now: None };
            let mut watch = PieceWatch { shared, under_test, bad: &mut self.bad, paused, ended: StageEnd::Whole };
            executor.run_part(&mut Region::from(&mut access), part, None, &mut watch);
            paused = watch.paused;
            let ended = if is_all_lost() { StageEnd::Lost } else { watch.ended };
            if ended != StageEnd::Whole {
                return ended;
            }
        }
        lock(&shared.sums).busy += began.elapsed().saturating_sub(paused);
        StageEnd::Whole
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageEnd {
    Whole,
    Stopped,
    /// The frames were taken away.
    Lost,
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
        } else if is_all_lost() {
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
        if is_all_lost() {
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
