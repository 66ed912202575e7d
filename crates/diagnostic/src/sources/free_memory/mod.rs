//! This machine's free memory as a source of frames: each that can be reached is tested once a lifetime.
//!
//! **Problem.** A stock kernel lets nobody at its free lists; an ordinary program can only ask for memory, is given
//! what the kernel likes, and takes it from other programs. **Idea.** Claim free memory in steps, politely; look which
//! frames each step is in; test those whose test grows old; hold the rest, since what is given back would come straight
//! back; and let everything go when no new frame is to be had ([`Sweep`]). The age of each frame is known by its number
//! ([`Ages`]), so nothing is learnt twice. **Why this way.** No privilege but to read frame numbers, no module, no hook
//! in the allocator.
//!
//! Rahman's words, as far as the pool has them [Rahman16, 3.2 and A.1]:
//!
//! | Rahman | pool |
//! |---|---|
//! | free list | the free memory of a node, counted in frames |
//! | untested-free, tested-free | a claimed frame whose test has grown old, or has not |
//! | tested-used | a frame in a program's hands; it came free from the last sweep, hence tested |
//! | allocation demand | frames of the sweep under way, spread evenly over the time that it should take; as *tested* while no frame has come due untested, else as *untested* |
//! | returned fresh, returned expired | frames of steps that were tested to the end, or were not |
//! | migration of what is about to expire | none: what a program holds for longer than a lifetime is out of reach, and counted as such |
//!
//! Without the privilege to read frame numbers the pool tests all that it can claim once a lifetime, and knows no
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
pub use kernel::{Claim, Claims, Kernel, ThisMachine};
pub use source::Step;
pub use sweep::Sweep;

use list::NodeList;
use stock::{HeldStep, HeldSteps};

/// What the pool did since it was last asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A sweep began.
    SweepBegan,
    /// A sweep has ended, after this time.
    SweepEnded(Duration),
    /// Programs needed so much of what was claimed.
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
    /// What programs want back and is under test.
    missing: Bytes,
    /// The kernel refused a claim: no more in this sweep.
    refused: bool,
    news: Vec<News>,
}

impl<K: Kernel> FreeMemoryPool<K> {
    /// A pool of what is free, in steps of at most `step`, with what is known of the frames' ages and of bad ones.
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

    /// What is known of the frames' ages.
    pub const fn ages(&self) -> &Ages {
        &self.ages
    }

    /// Memory that is claimed: held, waiting, in testers' hands, and on its way.
    pub fn claimed(&self) -> Bytes {
        Bytes::new(self.stock.bytes().get() + self.out.get() + self.kernel.pending().get())
    }

    /// How many frames a second the sweep under way should test, before α; 0 if none is.
    pub fn rate(&self) -> f64 {
        if self.is_sweeping() { self.lists.iter().map(NodeList::rate).sum() } else { 0.0 }
    }

    /// Whether frames came due before they were tested.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.sweep.is_overdue(now)
    }

    /// What programs want back and only testers can give.
    pub const fn missing(&self) -> Bytes {
        self.missing
    }

    /// Whether a sweep is under way.
    pub const fn is_sweeping(&self) -> bool {
        self.sweep.is_under_way()
    }

    /// What happened since this was last asked.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Takes another lifetime from now on.
    pub fn rebound(&mut self, bound: TestLifetime, now: Timestamp) {
        self.bound = bound;
        self.sweep.rebound(bound, now);
    }

    /// Looks whether programs want memory, and gives it back: what is held first, then what waits. What that leaves
    /// [`Self::missing`], testers must give. To be called every few milliseconds.
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
            self.news.push(News::Pressure(Bytes::new(affected)));
        }
    }

    /// Gives back all that testers do not have, and what has come since.
    pub fn let_go(&mut self) {
        if let Claim::Ready(_, region) = self.kernel.claim(None) {
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

    /// Begins a sweep, claims a step for it, or ends it, as the time and the machine's memory have it.
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
            Claim::Ready(node, region) => self.receive(node, region),
            Claim::Refused => {
                self.refused = true;
                self.sweep.miss();
            }
            Claim::Nothing if self.out == Bytes::ZERO && !self.stock.has_work() => self.end(now),
            Claim::Pending | Claim::Nothing => {}
        }
    }

    fn begin(&mut self, now: Timestamp) {
        self.refused = false;
        self.news.push(News::SweepBegan);
        let outlook = self.kernel.outlook();
        // What tasks waited for while nothing was claimed was not waited for on our account.
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
            self.news.push(News::SweepEnded(took));
        }
        self.lists.iter_mut().for_each(NodeList::end);
    }

    /// Looks at claimed memory: whether it is to be tested.
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

    /// Notes what a test of a step showed. Whoever has a bad frame keeps it.
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

/// What the frames of a step have in common.
struct Looked {
    oldest: Tested,
    due: bool,
    preferred: bool,
}
