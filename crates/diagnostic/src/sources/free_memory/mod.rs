//! This machine's free memory as a source of frames: each frame within reach is tested once per lifetime.
//!
//! **Problem.** A stock kernel gives no access to its free lists. An ordinary program can only request memory, gets the
//! kernel's choice, and takes it from other programs. **Idea.** Claim free memory in steps, within the memory reserve;
//! look up the frames of each step; test those whose test grows old; hold the rest, because memory that is given back
//! would return at once; and release everything when no new frame comes ([`Sweep`]). The age of each frame is known by
//! its number ([`Ages`]), so nothing is tested twice. **Why this way.** It needs no privilege except reading frame
//! numbers, no module, and no hook in the allocator.
//!
//! The terms of [Rahman16, 3.2 and A.1] in the pool:
//!
//! | [Rahman16] | pool |
//! |---|---|
//! | free list | the free memory of a node, counted in frames |
//! | untested-free, tested-free | a claimed frame whose test has grown old, or has not |
//! | tested-used | a frame in a program's hands; it came free from the last sweep, so it is tested |
//! | allocation demand | frames of the present sweep, spread evenly over its intended time; as *tested* while no frame has come due untested, otherwise as *untested* |
//! | returned fresh, returned expired | frames of steps that were tested to the end, or were not |
//! | migration of frames that are about to expire | none: memory that a program holds for longer than a lifetime is out of reach, and counted so |
//!
//! Without the privilege to read frame numbers the pool tests all claimable memory once per lifetime, and knows no
//! frame.

mod ages;
#[cfg(test)]
pub(crate) mod fake_kernel;
mod kernel;
mod list;
mod source;
mod stock;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use rampart_memory::{Bytes, Frame, FrameRange, Node, TestLifetime, Tested, Timestamp};

use crate::machine::reserve::{Advice, MemoryReserve, SMALLEST_CLAIM};

pub use ages::Ages;
pub use kernel::{ClaimAnswer, Claims, Kernel, ThisMachine};
pub use source::Step;
pub use sweep::Sweep;

use list::NodeList;
use stock::{HeldStep, HeldSteps};

/// The pool's actions since the last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolNews {
    /// A sweep began.
    SweepBegan,
    /// A sweep has ended, after this time.
    SweepEnded(Duration),
    /// Programs needed so much of the claimed memory.
    Pressure(Bytes),
}

/// Free memory, claimed and given back.
#[derive(Debug)]
pub struct FreeMemoryPool<K: Kernel> {
    kernel: K,
    politeness: MemoryReserve,
    step: Bytes,
    bound: TestLifetime,
    ages: Ages,
    sweep: Sweep,
    lists: Vec<NodeList>,
    stock: HeldSteps<K::Region>,
    preferred: Vec<FrameRange>,
    bad: BTreeSet<Frame>,
    /// In testers' hands or queues.
    out: Bytes,
    /// Memory that programs need back and that is under test.
    missing: Bytes,
    /// The kernel refused a claim: no more in this sweep.
    refused: bool,
    news: Vec<PoolNews>,
}

impl<K: Kernel> FreeMemoryPool<K> {
    /// A pool of free memory, in steps of at most `step`, with the known ages of frames and the bad ones.
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
            politeness: MemoryReserve::new(&kernel.outlook()),
            sweep: Sweep::new(bound, now),
            bad: bad.into_iter().collect(),
            stock: HeldSteps::default(),
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

    /// Claimed memory: held, waiting, in testers' hands, and on its way.
    pub fn claimed(&self) -> Bytes {
        Bytes::new(self.stock.bytes().get() + self.out.get() + self.kernel.pending().get())
    }

    /// Frames per second that the present sweep should test, before α; 0 without a sweep.
    pub fn rate(&self) -> f64 {
        if self.is_sweeping() { self.lists.iter().map(NodeList::rate).sum() } else { 0.0 }
    }

    /// Whether frames came due before they were tested.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.sweep.is_overdue(now)
    }

    /// Memory that programs need back and only testers can give.
    pub const fn missing(&self) -> Bytes {
        self.missing
    }

    /// Whether a sweep is under way.
    pub const fn is_sweeping(&self) -> bool {
        self.sweep.is_under_way()
    }

    /// The events since the last call.
    pub fn take_news(&mut self) -> Vec<PoolNews> {
        std::mem::take(&mut self.news)
    }

    /// Uses another lifetime from now on.
    pub fn rebound(&mut self, bound: TestLifetime, now: Timestamp) {
        self.bound = bound;
        self.sweep.rebound(bound, now);
    }

    /// Checks whether programs need memory, and gives it back: held steps first, then waiting ones. Testers must give
    /// the rest, [`Self::missing`]. To be called every few milliseconds.
    pub fn relieve(&mut self) {
        self.missing = Bytes::ZERO;
        if self.claimed() == Bytes::ZERO {
            return;
        }
        let Advice::GiveBack(wanted) = self.politeness.advise(&self.kernel.outlook()) else { return };
        let mut given = Bytes::ZERO;
        while given < wanted
            && let Some((held, untested)) = self.stock.give_up()
        {
            if untested {
                self.sweep.miss();
            }
            given = Bytes::new(given.get() + self.release(held).get());
        }
        let more = wanted.saturating_sub(given).get();
        self.missing = Bytes::new(more.min(self.out.get()));
        let affected = given.get() + self.missing.get();
        if affected > 0 {
            self.news.push(PoolNews::Pressure(Bytes::new(affected)));
        }
    }

    /// Gives back everything outside of testers' hands, and memory that has come since.
    pub fn let_go(&mut self) {
        if let ClaimAnswer::Ready(_, region) = self.kernel.claim(None) {
            self.kernel.release(region, &[]);
        }
        while let Some((held, _)) = self.stock.give_up() {
            self.release(held);
        }
    }

    fn release(&mut self, held: HeldStep<K::Region>) -> Bytes {
        let bytes = held.bytes;
        self.kernel.release(held.region, &held.bad);
        bytes
    }

    /// Begins a sweep, claims a step for it, or ends it, by the time and the machine's memory.
    fn advance(&mut self, node: Node, now: Timestamp) {
        if self.sweep.begin(now) {
            self.begin(now);
        }
        if !self.sweep.is_under_way() {
            return;
        }
        let claimable = self.politeness.claimable(&self.kernel.outlook());
        let bytes = claimable.min(self.step);
        let may = bytes >= SMALLEST_CLAIM && !self.refused && self.missing == Bytes::ZERO;
        match self.kernel.claim(may.then_some((node, bytes))) {
            ClaimAnswer::Ready(node, region) => self.receive(node, region),
            ClaimAnswer::Refused => {
                self.refused = true;
                self.sweep.miss();
            }
            ClaimAnswer::Nothing if self.out == Bytes::ZERO && !self.stock.has_work() => self.end(now),
            ClaimAnswer::Pending | ClaimAnswer::Nothing => {}
        }
    }

    fn begin(&mut self, now: Timestamp) {
        self.refused = false;
        self.news.push(PoolNews::SweepBegan);
        let outlook = self.kernel.outlook();
        // Tasks that waited while nothing was claimed did not wait because of us.
        let _baseline = self.politeness.advise(&outlook);
        let rate = self.sweep.rate(self.politeness.claimable(&outlook).frames());
        self.lists.iter_mut().for_each(|list| list.begin(rate, now));
    }

    fn end(&mut self, now: Timestamp) {
        if self.stock.bytes() == Bytes::ZERO {
            self.sweep.miss();
        }
        self.let_go();
        if let Some(took) = self.sweep.end(now) {
            self.news.push(PoolNews::SweepEnded(took));
        }
        self.lists.iter_mut().for_each(NodeList::end);
    }

    /// Inspects claimed memory: whether it must be tested.
    fn receive(&mut self, node: Node, region: K::Region) {
        let bytes = self.kernel.bytes(&region);
        let mut frames = Vec::new();
        self.kernel.frames(&region, &mut frames);
        let mut seen = Looked { oldest: Tested::at(Timestamp::from_micros(u64::MAX)), due: false, preferred: false };
        let mut bad = Vec::new();
        for (page, frame) in (0..).zip(frames) {
            match frame {
                Some(frame) if self.bad.contains(&frame) => bad.push(page),
                frame => self.look(frame, &mut seen),
            }
        }
        let held = HeldStep { region, bytes, node, bad };
        if seen.due {
            self.stock.add_work(held, seen.preferred, seen.oldest);
        } else if !held.bad.is_empty() {
            self.release(held);
        } else {
            self.stock.hold(held);
        }
    }

    fn look(&mut self, frame: Option<Frame>, seen: &mut Looked) {
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

    /// Records the result of a step's test. The holder of a bad frame keeps it.
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

/// Facts about the frames of a step.
struct Looked {
    oldest: Tested,
    due: bool,
    preferred: bool,
}
