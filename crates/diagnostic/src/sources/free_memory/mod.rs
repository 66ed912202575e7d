//! This machine's free memory as a source of frames: each reachable frame is tested once a lifetime.
//!
//! **Problem.** An unmodified kernel gives no program access to its free lists; an ordinary program can only request
//! memory, gets frames that the kernel chooses, and takes them from other programs. **Idea.** Claim free memory in
//! steps, down to the memory reserve; find out which frames each step is in; test steps with old tests; hold the rest,
//! because the kernel would hand out the same frames again; and give everything back when no new frame can be claimed
//! ([`Sweep`]). [`Ages`] holds the age of each frame by its number, so that no frame is tested too soon. **Why this
//! way.** It needs no privilege except to read frame numbers, no kernel module, and no hook in the allocator.
//!
//! Rahman's terms and their counterparts in the pool [Rahman16, 3.2 and A.1]:
//!
//! | Rahman | pool |
//! |---|---|
//! | free list | the free memory of a node, counted in frames |
//! | untested-free, tested-free | a claimed frame with an old or a recent test |
//! | tested-used | a frame that a program holds; it was given back by the last sweep, hence tested |
//! | allocation demand | frames of the current sweep, spread evenly over its intended duration; as *tested* while no frame has come due untested, otherwise as *untested* |
//! | returned fresh, returned expired | frames of steps that were tested completely, or were not |
//! | migration of frames about to expire | none: frames that a program holds for longer than a lifetime are out of reach, and counted as such |
//!
//! Without the privilege to read frame numbers, the pool tests all memory that it can claim once a lifetime, and knows
//! no frame.

mod ages;
#[cfg(test)]
pub(crate) mod fake_kernel;
mod held_steps;
mod kernel;
mod list;
mod source;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use rampart_memory::{Bytes, Frame, FrameRange, Node, TestLifetime, Tested, Timestamp};

use super::step::Step;
use crate::machine::reserve::{Advice, MemoryReserve, SMALLEST_CLAIM};

pub use ages::Ages;
pub use kernel::{ClaimAnswer, Claims, Kernel, OpenClaim, ThisMachine};
pub use sweep::Sweep;

use held_steps::{HeldStep, HeldSteps};
use list::NodeList;

/// A change in the pool since the last call of [`FreeMemoryPool::take_news`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolNews {
    /// A sweep began.
    SweepBegan,
    /// A sweep has ended, after this time.
    SweepEnded(Duration),
    /// Programs needed this much of the claimed memory.
    Pressure(Bytes),
}

/// Claims free memory, hands it to testers, and gives it back.
#[derive(Debug)]
pub struct FreeMemoryPool<K: Kernel> {
    kernel: K,
    reserve: MemoryReserve,
    step: Bytes,
    bound: TestLifetime,
    ages: Ages,
    sweep: Sweep,
    lists: Vec<NodeList>,
    held: HeldSteps<K::Region>,
    preferred: Vec<FrameRange>,
    bad: BTreeSet<Frame>,
    /// Memory under test or queued for testers.
    out: Bytes,
    /// Memory that programs need back and that is under test.
    missing: Bytes,
    /// Whether the kernel refused a claim: then this sweep makes no more claims.
    refused: bool,
    news: Vec<PoolNews>,
}

impl<K: Kernel> FreeMemoryPool<K> {
    /// Makes a pool of free memory in steps of at most `step`, with the known ages of frames and the known bad frames.
    pub fn new(
        kernel: K,
        step: Bytes,
        bound: TestLifetime,
        ages: Ages,
        bad: impl IntoIterator<Item = Frame>,
        now: Timestamp,
    ) -> Self {
        assert!(step >= SMALLEST_CLAIM, "a step is at least a huge page");
        let lists = kernel.nodes().into_iter().map(|(node, share)| NodeList::new(node, share, now)).collect();
        Self {
            reserve: MemoryReserve::new(&kernel.outlook()),
            sweep: Sweep::new(bound, now),
            bad: bad.into_iter().collect(),
            held: HeldSteps::default(),
            preferred: Vec::new(),
            out: Bytes::ZERO,
            missing: Bytes::ZERO,
            refused: false,
            news: Vec::new(),
            lists,
            kernel,
            step,
            bound,
            ages,
        }
    }

    /// The known ages of frames.
    pub const fn ages(&self) -> &Ages {
        &self.ages
    }

    /// Claimed memory: held, waiting, under test, and on its way.
    pub fn claimed(&self) -> Bytes {
        Bytes::new(self.held.bytes().get() + self.out.get() + self.kernel.pending().get())
    }

    /// How much memory this process has for its claims, bad frames that stay out of use included.
    pub fn in_use(&self) -> Bytes {
        let (pending, kept) = (self.kernel.pending_in_use(), self.kernel.kept());
        Bytes::new(self.held.bytes().get() + self.out.get() + pending.get() + kept.get())
    }

    /// How many frames per second the current sweep should test, before α; 0 between two sweeps.
    pub fn rate(&self) -> f64 {
        if self.is_sweeping() { self.lists.iter().map(NodeList::rate).sum() } else { 0.0 }
    }

    /// Whether frames came due before they were tested.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.sweep.is_overdue(now)
    }

    /// Memory that programs need back and that only testers can give.
    pub const fn missing(&self) -> Bytes {
        self.missing
    }

    /// Whether a sweep is under way.
    pub const fn is_sweeping(&self) -> bool {
        self.sweep.is_under_way()
    }

    /// Returns the changes since the last call.
    pub fn take_news(&mut self) -> Vec<PoolNews> {
        std::mem::take(&mut self.news)
    }

    /// Changes the lifetime.
    pub fn rebound(&mut self, bound: TestLifetime, now: Timestamp) {
        self.bound = bound;
        self.sweep.rebound(bound, now);
    }

    /// Begins the next sweep now.
    pub const fn hurry(&mut self, now: Timestamp) {
        self.sweep.hurry(now);
    }

    /// Checks whether programs need memory, and gives it back: held steps first, then waiting ones. Testers must give
    /// the remaining [`Self::missing`]. To be called every few milliseconds.
    pub fn relieve(&mut self) {
        self.missing = Bytes::ZERO;
        if self.claimed() == Bytes::ZERO {
            return;
        }
        let Advice::GiveBack(needed) = self.reserve.advise(&self.kernel.outlook()) else { return };
        let mut given = Bytes::ZERO;
        while given < needed
            && let Some((held, untested)) = self.held.give_up()
        {
            if untested {
                self.sweep.miss();
            }
            given = Bytes::new(given.get() + self.release(held).get());
        }
        let unmet = needed.saturating_sub(given).get();
        self.missing = Bytes::new(unmet.min(self.out.get()));
        let affected = given.get() + self.missing.get();
        if affected > 0 {
            self.news.push(PoolNews::Pressure(Bytes::new(affected)));
        }
    }

    /// Gives back all memory that is not under test, also a claim that was answered meanwhile.
    pub fn let_go(&mut self) {
        if let ClaimAnswer::Ready(_, region) = self.kernel.claim(None) {
            self.kernel.release(region, &[]);
        }
        while let Some((held, _)) = self.held.give_up() {
            self.release(held);
        }
    }

    fn release(&mut self, held: HeldStep<K::Region>) -> Bytes {
        let bytes = held.bytes;
        self.kernel.release(held.region, &held.bad);
        bytes
    }

    /// Begins a sweep, claims a step for it, or ends it, depending on the time and the machine's memory.
    fn advance(&mut self, node: Node, now: Timestamp) {
        if self.sweep.begin(now) {
            self.begin(now);
        }
        if !self.sweep.is_under_way() {
            return;
        }
        let claimable = self.reserve.claimable(&self.kernel.outlook());
        let bytes = claimable.min(self.step);
        let may = bytes >= SMALLEST_CLAIM && !self.refused && self.missing == Bytes::ZERO;
        match self.kernel.claim(may.then_some((node, bytes))) {
            ClaimAnswer::Ready(node, region) => self.receive(node, region),
            ClaimAnswer::Refused => {
                self.refused = true;
                self.sweep.miss();
            }
            ClaimAnswer::Nothing if self.out == Bytes::ZERO && !self.held.has_work() => self.end(now),
            ClaimAnswer::Pending | ClaimAnswer::Nothing => {}
        }
    }

    fn begin(&mut self, now: Timestamp) {
        self.refused = false;
        self.news.push(PoolNews::SweepBegan);
        let outlook = self.kernel.outlook();
        // Resets the reserve's record of waiting tasks: while nothing was claimed, the pool did not cause their
        // waiting.
        let _baseline = self.reserve.advise(&outlook);
        let rate = self.sweep.rate(self.reserve.claimable(&outlook).frames());
        self.lists.iter_mut().for_each(|list| list.begin(rate, now));
    }

    fn end(&mut self, now: Timestamp) {
        if self.held.bytes() == Bytes::ZERO {
            self.sweep.miss();
        }
        self.let_go();
        if let Some(took) = self.sweep.end(now) {
            self.news.push(PoolNews::SweepEnded(took));
        }
        self.lists.iter_mut().for_each(NodeList::end);
    }

    /// Takes claimed memory, and decides whether to test it.
    fn receive(&mut self, node: Node, region: K::Region) {
        let bytes = self.kernel.bytes(&region);
        let mut frames = Vec::new();
        self.kernel.frames(&region, &mut frames);
        let mut seen =
            StepSummary { oldest: Tested::at(Timestamp::from_micros(u64::MAX)), due: false, preferred: false };
        let mut bad = Vec::new();
        for (page, frame) in (0..).zip(frames) {
            match frame {
                Some(frame) if self.bad.contains(&frame) => bad.push(page),
                frame => self.check_frame(frame, &mut seen),
            }
        }
        let held = HeldStep { region, bytes, node, bad };
        if seen.due {
            self.held.add_work(held, seen.preferred, seen.oldest);
        } else if !held.bad.is_empty() {
            self.release(held);
        } else {
            self.held.hold(held);
        }
    }

    fn check_frame(&mut self, frame: Option<Frame>, seen: &mut StepSummary) {
        let Some(frame) = frame else {
            seen.due |= self.sweep.sees(Tested::NEVER, false);
            seen.oldest = Tested::NEVER;
            return;
        };
        let tested = self.ages.get(frame).unwrap_or_else(|| {
            self.ages.set(frame, Tested::NEVER);
            Tested::NEVER
        });
        let preferred = self.preferred.iter().any(|range| range.contains(frame));
        let due = self.sweep.sees(tested, preferred);
        seen.due |= due;
        seen.preferred |= due && preferred;
        seen.oldest = seen.oldest.min(tested);
    }

    fn list(&mut self, node: Node) -> Option<&mut NodeList> {
        self.lists.iter_mut().find(|list| list.node == node)
    }

    /// Records the result of a step's test. Bad frames stay in the step.
    fn note(&mut self, step: &mut Step<K::Region>, failed: &[Frame], now: Timestamp) {
        self.bad.extend(failed);
        let mut kept = Vec::new();
        for (page, frame) in (0..).zip(&step.frames) {
            match frame {
                Some(frame) if !self.bad.contains(frame) => self.ages.set(*frame, Tested::at(now)),
                Some(_) => kept.push(page),
                None => {}
            }
        }
        kept.into_iter().for_each(|page| step.keep(page));
    }
}

/// A summary of the frames of a step.
struct StepSummary {
    oldest: Tested,
    due: bool,
    preferred: bool,
}
